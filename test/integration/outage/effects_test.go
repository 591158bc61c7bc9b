// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// use is one way to use a cluster, with what an outage does to it.
type use struct {
	// documented is the row of docs/operations.md: the use, and its outcome while
	// mcs-apiserver is down and while the API is detached.
	documented [3]string
	// down and detached are parts of the errors at that time; empty if the use works.
	down, detached string
	// try uses the cluster.
	try func(w *world, ctx context.Context) error
}

const (
	works     = "Works"
	notServed = "Fails: the resource type does not exist"
)

// uses are all rows of the table in docs/operations.md.
var uses = []use{
	{[3]string{"Resources of other APIs: `kubectl get all`, `apply` (also server-side), `diff`, `explain`", works, works}, "", "", (*world).otherResources},
	{[3]string{"`kubectl get serviceexports`", notServed, notServed}, `doesn't have a resource type "serviceexports"`, `doesn't have a resource type "serviceexports"`, (*world).serviceExports},
	{[3]string{"`kubectl api-resources`", "Works, without the resources of mcs-apiserver", "Works, without the resources of mcs-apiserver"}, "does not list serviceexports", "does not list serviceexports", (*world).apiResources},
	{[3]string{"Deleting a namespace", "The namespace remains `Terminating` (`NamespaceDeletionDiscoveryFailure`); its content is deleted", works}, "Discovery failed for some groups, 6 failing", "", (*world).deleteNamespace},
	{[3]string{"Discovery of all APIs (Argo CD, Helm)", "Complete except for mcs-apiserver, with the error `stale GroupVersion discovery`. Argo CD and Helm log it and continue", works}, "stale GroupVersion discovery", "", (*world).discoverAll},
	{[3]string{"Discovery of all APIs without aggregated discovery (clients before Kubernetes 1.26)", "Complete except for mcs-apiserver, with the error `the server is currently unable to handle the request`", works}, "the server is currently unable to handle the request", "", (*world).discoverAllLegacy},
	{[3]string{"Discovery of one API (Flux, controllers)", works, works}, "", "", (*world).discoverOne},
	{[3]string{"OpenAPI documents", works, works}, "", "", (*world).openAPI},
	{[3]string{"Garbage collection", works, works}, "", "", (*world).collectGarbage},
	{[3]string{"Resource quotas of other resources", works, works}, "", "", (*world).quota},
	{[3]string{"Horizontal Pod autoscaling", works, works}, "", "", (*world).autoscale},
	{[3]string{"Derived Services and imported EndpointSlices", "Not changed", "Not changed"}, "", "", (*world).derived},
	{[3]string{"CoreDNS that is running", works, works}, "", "", (*world).runningDNS},
	{[3]string{"CoreDNS that is restarted, `cluster.local` in a server block of its own", works, works}, "", "", (*world).restartedDNS},
	{[3]string{"CoreDNS that is restarted, `clusterset.local`", "Fails (`SERVFAIL`)", "Fails (`SERVFAIL`)"}, "server misbehaving", "server misbehaving", (*world).restartedClusterSetDNS},
}

// figure is the outcome of a use in one phase.
type figure struct {
	took time.Duration
	err  error
}

// try tries all uses at the same time, and checks and prints their outcome.
func (w *world) try(t *testing.T, phase string, expected func(use) string) {
	t.Helper()
	w.phase++
	w.restarted = startDNS(t, w.running+dns(w.phase))
	figures := make([]figure, len(uses))
	var running sync.WaitGroup
	for i := range uses {
		running.Go(func() {
			started := time.Now()
			err := uses[i].try(w, t.Context())
			figures[i] = figure{time.Since(started), err}
		})
	}
	running.Wait()
	t.Logf("%s:", phase)
	for i, got := range figures {
		t.Logf("  %-60.60s %6.2fs %.150v", uses[i].documented[0], got.took.Seconds(), got.err)
		switch want := expected(uses[i]); {
		case want == "" && got.err != nil:
			t.Errorf("%s: %s: %v", phase, uses[i].documented[0], got.err)
		case want != "" && (got.err == nil || !strings.Contains(got.err.Error(), want)):
			t.Errorf("%s: %s: got %v, want an error with %q", phase, uses[i].documented[0], got.err, want)
		}
	}
}

// R183: also for clients and controllers that were started during the outage.
func TestEffectsOfAnOutageAreAsDocumented(t *testing.T) {
	page := string(expect.Must(os.ReadFile(filepath.Join(west().Root, "docs", "operations.md")))(t))
	for _, use := range uses {
		expect.Contains(t, page, "| "+strings.Join(use.documented[:], " | ")+" |\n")
	}
	w := newWorld(t)
	t.Cleanup(func() {
		expect.NoError(t, west().Publish(context.Background(), west().APIServers...))
		attach(t)
	})
	west().APIServers[0].Kill()
	expect.NoError(t, west().Publish(t.Context()))
	for _, component := range []string{controlplane.APIServer, controlplane.ControllerManager} {
		expect.NoError(t, west().Plane.Restart(t.Context(), component))
	}
	expect.Eventually(t, "unavailability", func(ctx context.Context) error {
		apiService, err := west().Aggregator.ApiregistrationV1().APIServices().Get(ctx, "v1beta1.multicluster.x-k8s.io", metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(apiService.Status), "MissingEndpoints") {
			err = fmt.Errorf("%v", apiService.Status)
		}
		return err
	})
	w.try(t, "down", func(u use) string { return u.down })

	kubectl(t, "mcs", "detach", "west", "--yes")
	started := time.Now()
	for _, stuck := range w.terminating {
		awaitNoNamespace(t, stuck)
	}
	t.Logf("namespaces that remained Terminating were deleted %.1fs after detaching", time.Since(started).Seconds())
	w.try(t, "detached", func(u use) string { return u.detached })
}

// derivedObjects returns the derived Services and imported EndpointSlices of a
// namespace with their versions.
func derivedObjects(ctx context.Context, namespace string) (string, error) {
	selector := metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel}
	services, err := west().Kubernetes.CoreV1().Services(namespace).List(ctx, selector)
	if err != nil {
		return "", err
	}
	slices, err := west().Kubernetes.DiscoveryV1().EndpointSlices(namespace).List(ctx, selector)
	if err != nil {
		return "", err
	}
	var found []string
	for i := range services.Items {
		found = append(found, fmt.Sprintf("Service %s %s", services.Items[i].Name, services.Items[i].ResourceVersion))
	}
	for i := range slices.Items {
		found = append(found, fmt.Sprintf("EndpointSlice %s %s", slices.Items[i].Name, slices.Items[i].ResourceVersion))
	}
	if len(found) < 2 {
		return "", fmt.Errorf("found only %v", found)
	}
	return strings.Join(found, ", "), nil
}
