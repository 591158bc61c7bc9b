// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// writes returns all successful writes of mcs-controller's service account to a
// namespace, Leases and Events excluded, in order.
func writes(t *testing.T, in *fleet.Cluster, ns string) []string {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(expect.Must(os.ReadFile(auditLog(in.Dir)))(t)))
	lines.Buffer(nil, 1<<20)
	var found []string
	for lines.Scan() {
		var event auditv1.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // the line is incomplete
		}
		if event.ObjectRef == nil || event.ObjectRef.Resource == "leases" || event.ObjectRef.Resource == "events" || event.ResponseStatus == nil || event.ResponseStatus.Code >= 300 {
			continue
		}
		if slices.Contains([]string{ns, installation.Namespace, ""}, event.ObjectRef.Namespace) {
			found = append(found, fmt.Sprintf("%s %s %s/%s", event.Verb, event.ObjectRef.Resource, event.ObjectRef.Namespace, event.ObjectRef.Name))
		}
	}
	return found
}

// counted is the number of writes to a cluster since its creation.
type counted struct {
	in     *fleet.Cluster
	ns     string
	before int
}

func count(t *testing.T, in *fleet.Cluster, ns string) counted {
	t.Helper()
	return counted{in, ns, len(writes(t, in, ns))}
}

func (c counted) since(t *testing.T) []string {
	t.Helper()
	return writes(t, c.in, c.ns)[c.before:]
}

// atLeast waits until some writes are logged, and returns all that are: the host logs
// a write only after it responded, which is after watches have seen it.
func (c counted) atLeast(t *testing.T, writes int) []string {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return len(c.since(t)) >= writes, nil
	}); err != nil {
		t.Errorf("writes in %s: %q, want %d", c.in.ID, c.since(t), writes)
	}
	return c.since(t)
}

// expect fails unless exactly these writes were done, and none follows.
func (c counted) expect(t *testing.T, want ...string) {
	t.Helper()
	c.atLeast(t, len(want))
	stays(t, 2*time.Second, func(context.Context) error { return nil }, c)
	got := c.since(t)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("writes in %s: %q, want %q", c.in.ID, got, want)
	}
}

// stays fails unless a check keeps passing and nothing is written to the given
// clusters.
func stays(t *testing.T, duration time.Duration, check func(context.Context) error, quiet ...counted) {
	t.Helper()
	for i := range quiet {
		quiet[i] = count(t, quiet[i].in, quiet[i].ns)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, duration, true, func(ctx context.Context) (bool, error) {
		for _, counted := range quiet {
			if more := counted.since(t); len(more) > 0 {
				return false, fmt.Errorf("writes in %s: %q", counted.in.ID, more)
			}
		}
		return false, check(ctx)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// awaitQuiet waits until nothing was written for a second.
func awaitQuiet(t *testing.T, ns string) {
	t.Helper()
	last, since := -1, time.Now()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		now := 0
		for _, cluster := range clusters.Clusters {
			now += len(writes(t, cluster, ns))
		}
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second, nil
	}); err != nil {
		t.Fatal("writes do not end")
	}
}

// exportVersions returns the resourceVersions of the ServiceExports in a namespace.
func exportVersions(ctx context.Context, in *fleet.Cluster, ns string) (string, error) {
	list, err := in.Clientset.MulticlusterXV1beta1().ServiceExports(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	found := map[string]string{}
	for _, item := range list.Items {
		found[item.Name] = item.ResourceVersion
	}
	return fmt.Sprint(found), nil
}

// One change causes one write per affected object; without a change nothing is
// written, not even when mcs-controller restarts.
func TestOneChangeIsOneWrite(t *testing.T) {
	ns := fleet.CreateNamespace(t, "frugal", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1", "10.9.0.2"})
	west().ExportService(t, ns, "other", []string{"10.8.0.1"})
	for _, cluster := range clusters.Clusters {
		awaitEndpoints(t, cluster, ns, "web", from{"east": {"10.9.0.1", "10.9.0.2"}})
		awaitEndpoints(t, cluster, ns, "other", from{"west": {"10.8.0.1"}})
		awaitImport(t, cluster, ns, metav1.ConditionTrue)
	}
	awaitQuiet(t, ns)

	inEast, inWest := count(t, east(), ns), count(t, west(), ns)
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1", "10.9.0.3"}))(t)
	_, slices := awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1", "10.9.0.3"}})
	awaitEndpoints(t, east(), ns, "web", from{"east": {"10.9.0.1", "10.9.0.3"}})
	update := fmt.Sprintf("update endpointslices %s/%s", ns, slices[0].Name)
	inWest.expect(t, update)
	inEast.expect(t, update)

	// Without changes nothing is written, neither to the cluster nor to the
	// project's API.
	versions := map[*fleet.Cluster]string{}
	for _, cluster := range clusters.Clusters {
		versions[cluster] = expect.Must(exportVersions(t.Context(), cluster, ns))(t)
	}
	stays(t, 20*time.Second, func(ctx context.Context) error {
		for cluster, version := range versions {
			if now, err := exportVersions(ctx, cluster, ns); err != nil || now != version {
				return errors.Join(err, fmt.Errorf("ServiceExports of %s were %s, are %s", cluster.ID, version, now))
			}
		}
		return nil
	}, count(t, east(), ns), count(t, west(), ns))

	inWest = count(t, west(), ns)
	expect.NoError(t, west().StopController())
	expect.NoError(t, west().StartController(t.Context()))
	// A new import shows that mcs-controller works again.
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1"}))(t)
	awaitEndpoints(t, west(), ns, "web", from{"east": {"10.9.0.1"}})
	inWest.expect(t, update)
}

// Many endpoints are split into slices of 100; removing one endpoint is one write.
func TestManyEndpointsAreSplit(t *testing.T) {
	ns := fleet.CreateNamespace(t, "crowded", east(), west())
	var crowd []string
	for i := range 250 {
		crowd = append(crowd, fmt.Sprintf("10.9.%d.%d", i/125, i%125+1))
	}
	east().ExportService(t, ns, "web", crowd)
	_, found := awaitEndpoints(t, west(), ns, "web", from{"east": slices.Clone(crowd)})
	if len(found) != 3 {
		t.Errorf("250 endpoints are in %d slices, want 3", len(found))
	}
	awaitEndpoints(t, east(), ns, "web", from{"east": slices.Clone(crowd)})
	awaitQuiet(t, ns)
	home := ""
	for _, slice := range found {
		if len(slice.Endpoints) > 100 || slice.Labels[multicluster.SourceClusterLabel] != "east" {
			t.Errorf("%s has %d endpoints of %s", slice.Name, len(slice.Endpoints), slice.Labels[multicluster.SourceClusterLabel])
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Addresses[0] == crowd[3] {
				home = slice.Name
			}
		}
	}
	inWest := count(t, west(), ns)
	left := slices.Delete(slices.Clone(crowd), 3, 4)
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", left))(t)
	awaitEndpoints(t, west(), ns, "web", from{"east": left})
	inWest.expect(t, fmt.Sprintf("update endpointslices %s/%s", ns, home))
	// A new endpoint takes the free place.
	inWest = count(t, west(), ns)
	joined := append([]string{"10.9.9.9"}, left...)
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", joined))(t)
	awaitEndpoints(t, west(), ns, "web", from{"east": joined})
	inWest.expect(t, fmt.Sprintf("update endpointslices %s/%s", ns, home))
}
