// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// exportReady exports a service and waits until its import is ready.
func exportReady(t *testing.T, ns, name string) {
	t.Helper()
	east().ExportService(t, ns, name, []string{"10.9.0.1"})
	east().AwaitImportThat(t, ns, name, func(found *multiclusterxv1beta1.ServiceImport) error {
		if !meta.IsStatusConditionTrue(found.Status.Conditions, multicluster.ServiceImportReady) {
			return fmt.Errorf("conditions are %+v", found.Status.Conditions)
		}
		return nil
	})
}

// kill kills a server and makes the survivor the only endpoint, as if the Pod of the
// former were not ready. It returns when the kube-apiserver no longer uses the former.
func kill(t *testing.T, server, survivor *installation.Replica) {
	t.Helper()
	server.Kill()
	expect.NoError(t, east().Publish(t.Context(), survivor))
	expect.Eventually(t, "requests to the survivor only", func(ctx context.Context) error {
		const requests = 30 // each would go to the killed server with a probability of one half
		for range requests {
			if err := east().Kubernetes.Discovery().RESTClient().Get().AbsPath("/apis/multicluster.x-k8s.io/v1beta1/serviceimports").Do(ctx).Error(); err != nil {
				return err
			}
		}
		return nil
	})
}

// versions returns the resourceVersions of all derived Services and imported EndpointSlices.
func versions(t *testing.T, ns string) map[string]string {
	t.Helper()
	found := map[string]string{}
	options := metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel}
	services, err := east().Kubernetes.CoreV1().Services(ns).List(t.Context(), options)
	expect.NoError(t, err)
	for _, service := range services.Items {
		found["service "+service.Name] = service.ResourceVersion
	}
	slices, err := east().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(t.Context(), options)
	expect.NoError(t, err)
	for _, slice := range slices.Items {
		found["slice "+slice.Name] = slice.ResourceVersion
	}
	return found
}

// startStandby starts a second mcs-controller beside the second replica. When the test
// ends, the first one is running and leads.
func startStandby(t *testing.T) {
	t.Helper()
	standby := expect.Must(east().StartStandby(t.Context()))(t)
	t.Cleanup(func() {
		select {
		case <-east().Controller.Exited():
			expect.NoError(t, east().StartController(context.Background()))
		default:
		}
		expect.NoError(t, standby.Stop(time.Minute))
	})
}

// leader returns the replica that holds the Lease.
func leader(ctx context.Context) (string, error) {
	lease, err := east().Kubernetes.CoordinationV1().Leases(installation.Namespace).Get(ctx, "mcs-controller", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

func awaitLeader(t *testing.T, want string) {
	t.Helper()
	begun := time.Now()
	expect.Eventually(t, want+" leads", func(ctx context.Context) error {
		found, err := leader(ctx)
		if err == nil && found != want {
			err = fmt.Errorf("%q leads", found)
		}
		return err
	})
	t.Logf("%s leads after %s", want, time.Since(begun).Round(time.Millisecond))
}

// R156, R157: one controller is active. When it is killed, another takes over, without a
// list and without writing existing objects.
func TestStandbyTakesOverWithoutListingOrWriting(t *testing.T) {
	const ns = "standby"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	for i := range 10 {
		exportReady(t, ns, fmt.Sprintf("before-%d", i))
	}
	var before map[string]string
	expect.Eventually(t, "10 Services and 10 slices", func(context.Context) error {
		if before = versions(t, ns); len(before) != 20 { // an import is ready when it has its Service
			return fmt.Errorf("%d objects: %v", len(before), before)
		}
		return nil
	})
	startStandby(t)
	killed := time.Now()
	east().Controller.Kill()
	exportReady(t, ns, "after")
	took := time.Since(killed)
	t.Logf("standby took over after %s", took.Round(time.Millisecond))
	if took > 30*time.Second { // lease duration of 5 s, the retry period of the standby, and what else runs
		t.Errorf("takeover took %s, want at most 30s", took)
	}
	after := versions(t, ns)
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s was written: version %s became %s", name, version, after[name])
		}
	}
	for server, log := range map[string]string{
		"kube-apiserver": filepath.Join(east().Plane.Dir, "audit.log"),
		"mcs-apiserver":  filepath.Join(east().Dir, "mcs-apiserver-2.log"),
	} {
		if len(lists(requests(t, log, time.Time{}))) == 0 {
			t.Errorf("%s logged no list of a controller that started", server)
		}
		all := requests(t, log, killed)
		if len(all) == 0 {
			t.Errorf("%s logged no request of the new leader", server)
		}
		if found := lists(all); len(found) > 0 {
			t.Errorf("%s served %d lists out of %d requests: %v", server, len(found), len(all), found)
		}
	}
}

// R155: leadership moves away from a controller whose own server is not ready, and the
// controller can lead again later, in the same process.
func TestLeadershipFollowsTheServerOfThePod(t *testing.T) {
	const ns, first = "follow", "mcs-controller"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	startStandby(t)
	awaitLeader(t, first)

	server, other := east().APIServers[0], east().APIServers[1]
	kill(t, server, other)
	awaitLeader(t, installation.Standby)
	exportReady(t, ns, "without-the-first-server")

	expect.NoError(t, server.Start())
	expect.NoError(t, server.AwaitReady(t.Context()))
	kill(t, other, server)
	awaitLeader(t, first)
	exportReady(t, ns, "without-the-second-server")
	expect.NoError(t, other.Start())
	expect.NoError(t, other.AwaitReady(t.Context()))
	expect.NoError(t, east().Publish(t.Context(), east().APIServers...))
	select {
	case <-east().Controller.Exited():
		t.Error("controller that lost its server has exited")
	default:
	}
}
