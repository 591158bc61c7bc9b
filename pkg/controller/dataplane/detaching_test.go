// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// detaching returns a world as prefer does, in which slices are detached.
func detaching(t *testing.T, tiers, minReady string) *world {
	t.Helper()
	w := prefer(t, tiers, minReady)
	w.method = preference.Detach
	return w
}

// attached reconciles everything until nothing changes, and returns the clusters whose endpoints
// kube-proxy uses.
func (w *world) attached(t *testing.T) string {
	t.Helper()
	for range 4 { // the Service, its slices, what is detached when they exist, and what follows from that
		w.sync1(t)
		w.settle(t)
	}
	return w.attachedNow()
}

// attachedNow returns the clusters whose endpoints kube-proxy uses.
func (w *world) attachedNow() string {
	clusters := map[string]bool{}
	for _, slice := range w.existingSlices(web) {
		if _, ignored := slice.Labels[corev1.IsHeadlessService]; !ignored {
			clusters[slice.Labels[multicluster.SourceClusterLabel]] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(clusters)), ",")
}

func (w *world) expectAttached(t *testing.T, want string) {
	t.Helper()
	if got := w.attached(t); got != want {
		t.Errorf("kube-proxy uses %s, want %s", got, want)
	}
}

// updates returns the updates of slices since the last call: the cluster, with "-" if it was
// detached.
func (w *world) updates() string {
	var found []string
	for _, action := range w.client.Actions() {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok || action.GetResource().Resource != "endpointslices" {
			continue
		}
		slice := update.GetObject().(*discoveryv1.EndpointSlice)
		sign := ""
		if isDetached(slice) {
			sign = "-"
		}
		found = append(found, sign+slice.Labels[multicluster.SourceClusterLabel])
	}
	w.client.ClearActions()
	return strings.Join(found, " ")
}

// R607: slices of clusters that are not preferred are detached.
func TestSlicesOfOtherClustersAreDetached(t *testing.T) {
	for _, test := range []struct {
		tiers, minReady, want string
	}{
		{"cluster", "1", "here"},
		{"property:region", "1", "here,near"},
		{"cluster,property:region", "2", "here,near"},
		{"cluster,property:region", "3", "far,here,near"},
		{"tier-of-a-newer-release", "1", "far,here,near"},
	} {
		t.Run(test.tiers+" "+test.minReady, func(t *testing.T) {
			w := detaching(t, test.tiers, test.minReady)
			w.expectAttached(t, test.want)
			for _, slice := range w.existingSlices(web) {
				if slice.Endpoints[0].Hints != nil {
					t.Errorf("slice of %s has hints", slice.Labels[multicluster.SourceClusterLabel])
				}
			}
			w.sync1(t)
			if got := w.written(); got != "" {
				t.Errorf("wrote %q although nothing changed", got)
			}
		})
	}
}

// R606, R607: slices are detached if a node has no zone.
func TestSlicesAreDetachedWithoutZones(t *testing.T) {
	w := prefer(t, "cluster", "1")
	w.expectHints(t, "far=- here=a,b near=-")
	w.expectAttached(t, "far,here,near")
	w.addNode(t, "node-3", "")
	if err := w.sync(t.Context(), rezoned); err != nil {
		t.Fatal(err)
	}
	w.expectHints(t, "far=- here=a,b near=-") // it may be labeled soon
	w.clock.Step(time.Minute)
	if err := w.sync(t.Context(), rezoned); err != nil {
		t.Fatal(err)
	}
	w.expectAttached(t, "here")
	w.expectHints(t, "far=all here=all near=all")
	if got := w.existingService(web).Annotations[multicluster.ClusterPreferenceProblemAnnotation]; got != "" {
		t.Errorf("got problem %q", got)
	}
	w.addNode(t, "node-3", "c")
	if err := w.sync(t.Context(), rezoned); err != nil {
		t.Fatal(err)
	}
	w.expectAttached(t, "far,here,near")
	w.expectHints(t, "far=- here=a,b,c near=-")
}

// R610: slices are detached only when the cache shows that kube-proxy has endpoints of the tier.
func TestSlicesAreDetachedWhenOthersExist(t *testing.T) {
	w := detaching(t, "cluster", "1")
	w.sync1(t) // the Service
	w.settle(t)
	for _, cluster := range []string{"far", "near"} {
		if err := w.sync(t.Context(), key{web, cluster}); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
	}
	w.deleteSlices(t, "here")
	w.clock.Step(time.Minute)
	for _, cluster := range []string{"far", "near"} {
		if err := w.sync(t.Context(), key{web, cluster}); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(t)
	if got := w.attachedNow(); got != "far,near" {
		t.Fatalf("kube-proxy uses %s before there are slices of this cluster", got)
	}
	w.expectAttached(t, "far,here,near")
	w.clock.Step(preference.TakeoverDelay)
	w.expectAttached(t, "here")
}

// deleteSlices deletes the slices of a cluster.
func (w *world) deleteSlices(t *testing.T, cluster string) {
	t.Helper()
	for name, slice := range w.existingSlices(web) {
		if slice.Labels[multicluster.SourceClusterLabel] == cluster {
			err := w.client.Tracker().Delete(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), slice.Namespace, name)
			if err := errors.Join(err, w.slices.Delete(slice)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// R610: before endpoints of the tier are lost, those of the next one are attached, whatever the
// reason, and only those.
func TestSlicesAreAttachedBeforeOthersAreLost(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(*world)
		want string
	}{
		"not ready":        {func(w *world) { w.export(t, exportedBy("here", unready("10.0.0.1"))) }, "near here"},
		"gone":             {func(w *world) { w.export(t, exportedBy("here", nil)) }, "near here"},
		"replaced at once": {func(w *world) { w.export(t, exportedBy("here", ready("10.0.0.9"))) }, "here"},
		"withdrawn": {func(w *world) {
			for _, object := range w.exported.List() {
				if exported := object.(*clustersetv1alpha1.ExportedService); exported.Spec.Cluster == "here" {
					_ = w.exported.Delete(exported)
				}
			}
		}, "near"}, // and a deletion
	} {
		t.Run(name, func(t *testing.T) {
			w := detaching(t, "cluster,property:region", "1")
			w.expectAttached(t, "here")
			w.clock.Step(time.Minute)
			w.updates()
			test.lose(w)
			if err := w.sync(t.Context(), key{web, "here"}); err != nil {
				t.Fatal(err)
			}
			if got := w.updates(); got != test.want {
				t.Errorf("updated %q, want %q", got, test.want)
			}
		})
	}
}

// R610: endpoints of the tier stay as they are while others cannot be attached because the cache
// is outdated.
func TestEndpointsStayUntilOthersAreAttached(t *testing.T) {
	w := detaching(t, "cluster", "1")
	w.expectAttached(t, "here")
	w.clock.Step(time.Minute)
	w.updates()
	w.client.PrependReactor("update", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		slice := action.(clienttesting.UpdateAction).GetObject().(*discoveryv1.EndpointSlice)
		return true, nil, apierrors.NewConflict(discoveryv1.Resource("endpointslices"), slice.Name, errors.New("changed"))
	})
	w.export(t, exportedBy("here", unready("10.0.0.1")))
	if err := w.sync(t.Context(), key{web, "here"}); !apierrors.IsConflict(err) {
		t.Errorf("got error %v, want a conflict", err)
	}
	if got := w.updates(); got != "far near" {
		t.Errorf("tried to update %q, want all clusters but this one", got)
	}
}

// Endpoints that failed are not kept because the host refuses that others are attached.
func TestEndpointsAreWrittenAlthoughOthersAreRefused(t *testing.T) {
	w := detaching(t, "cluster", "1")
	w.expectAttached(t, "here")
	w.clock.Step(time.Minute)
	w.updates()
	w.client.PrependReactor("update", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		slice := action.(clienttesting.UpdateAction).GetObject().(*discoveryv1.EndpointSlice)
		return slice.Labels[multicluster.SourceClusterLabel] == "far", nil, apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), slice.Name, errors.New("by policy"))
	})
	w.export(t, exportedBy("here", unready("10.0.0.1")))
	if err := w.sync(t.Context(), key{web, "here"}); !apierrors.IsForbidden(err) {
		t.Errorf("got error %v, want that far is refused", err)
	}
	if got := w.updates(); got != "far near here" {
		t.Errorf("tried to update %q, want all clusters", got)
	}
}

// R610: nothing that limits how often and how much is written because of a member delays that its
// slices are attached.
func TestAttachingDoesNotWait(t *testing.T) {
	w := detaching(t, "cluster", "1")
	w.expectAttached(t, "here")
	for w.pace.Take(key{web, "far"}) == 0 { // it is not due
	}
	w.volume.Wait(key{web, "far"}, []string{"far"}, 2*volumeBurst)
	w.export(t, exportedBy("here", unready("10.0.0.1")))
	if err := w.sync(t.Context(), key{web, "far"}); err != nil {
		t.Fatal(err)
	}
	if got := w.updates(); got != "far" {
		t.Errorf("updated %q, want one, which suffices", got)
	}
}

// attaching returns a world in which only endpoints of this cluster are used, and nothing was written
// for a while.
func attaching(t *testing.T) *world {
	t.Helper()
	w := detaching(t, "cluster", "1")
	w.expectAttached(t, "here")
	w.clock.Step(time.Minute)
	w.updates()
	return w
}

// sliceNamed gives a slice of this cluster another name.
func sliceNamed(name string) func(*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpointSlice) {
	return func(_ *clustersetv1alpha1.ExportedService, s *clustersetv1alpha1.ExportedEndpointSlice) {
		s.Name = clusterset.ObjectName(name, "here")
	}
}

// expectUsed checks that kube-proxy had a ready endpoint after each request since the last call of
// updates.
func (w *world) expectUsed(t *testing.T, before map[string]*discoveryv1.EndpointSlice) {
	t.Helper()
	for i, action := range w.client.Actions() {
		what := action.GetVerb()
		switch action := action.(type) {
		case clienttesting.CreateActionImpl:
			slice := action.GetObject().(*discoveryv1.EndpointSlice)
			before[slice.Name] = slice
		case clienttesting.UpdateActionImpl:
			slice := action.GetObject().(*discoveryv1.EndpointSlice)
			before[slice.Name] = slice
			what += " of " + slice.Labels[multicluster.SourceClusterLabel]
		case clienttesting.DeleteActionImpl:
			delete(before, action.Name)
		}
		used := 0
		for _, slice := range before {
			if _, ignored := slice.Labels[corev1.IsHeadlessService]; !ignored && slices.ContainsFunc(slice.Endpoints, preference.IsReady) {
				used++
			}
		}
		if used == 0 {
			t.Errorf("kube-proxy has no ready endpoint after request %d (%s)", i, what)
		}
	}
}

// R610: endpoints that move to another slice are not lost in between, also if the new one cannot be
// written yet.
func TestEndpointsMoveBetweenSlices(t *testing.T) {
	for _, names := range [][2]string{{"web-1", "web-2"}, {"web-2", "web-1"}} { // one of them is written first
		for _, test := range []struct {
			name             string
			keeps, exhausted bool
		}{{"replaced", false, false}, {"moved", true, false}, {"replaced, when nothing may be written", false, true}} {
			t.Run(test.name+" from "+names[0], func(t *testing.T) {
				w := detaching(t, "cluster", "1")
				empty := exportedBy("here", nil)
				if err := w.exportedSlices.Delete(empty.slices[0]); err != nil {
					t.Fatal(err)
				}
				first, second := sliceNamed(names[0]), sliceNamed(names[1])
				w.export(t, exportedBy("here", ready("10.0.0.1"), first))
				if test.keeps {
					w.export(t, exportedBy("here", nil, second))
				}
				w.expectAttached(t, "here")
				w.clock.Step(time.Minute)
				w.updates()
				if test.keeps {
					w.export(t, exportedBy("here", nil, first))
				} else if err := w.exportedSlices.Delete(exportedBy("here", nil, first).slices[0]); err != nil {
					t.Fatal(err)
				}
				w.export(t, exportedBy("here", ready("10.0.0.1"), second))
				if test.exhausted {
					w.volume.Wait(key{web, "x"}, []string{"here"}, 2*volumeBurst)
				}
				before := w.existingSlices(web)
				if err := w.sync(t.Context(), key{web, "here"}); err != nil {
					t.Fatal(err)
				}
				w.expectUsed(t, before)
			})
		}
	}
}

// R610: what is written is what was decided, also if something changed while another key decided.
func TestNothingIsWrittenThatIsOlderThanTheDecision(t *testing.T) {
	w := attaching(t)
	synctest.Test(t, func(t *testing.T) {
		unlock := w.tiers.deciding.lock(web) // another key decides
		w.export(t, exportedBy("here", unready("10.0.0.1")))
		done := make(chan error)
		go func() { done <- w.sync(context.Background(), key{web, "here"}) }()
		synctest.Wait()
		w.export(t, exportedBy("here", ready("10.0.0.1")))
		unlock()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	if got := w.updates(); got != "" {
		t.Errorf("updated %q although nothing changed in the end", got)
	}
}

// R610: only as many slices are attached first as are needed, of all clusters in turns.
func TestAsManySlicesAreAttachedAsAreNeeded(t *testing.T) {
	for _, test := range []struct{ minReady, want string }{{"1", "far here"}, {"2", "far near here"}, {"4", "far near far far here"}} {
		t.Run(test.minReady, func(t *testing.T) {
			w := detaching(t, "cluster", test.minReady)
			w.export(t, exportedBy("here", ready("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")))
			for i := range 4 {
				w.export(t, exportedBy("far", ready(fmt.Sprintf("10.2.0.%d", 2+i)), func(_ *clustersetv1alpha1.ExportedService, s *clustersetv1alpha1.ExportedEndpointSlice) {
					s.Name = clusterset.ObjectName(fmt.Sprintf("web-%d", i), "far")
				}))
			}
			w.expectAttached(t, "here")
			w.clock.Step(time.Minute)
			w.updates()
			w.export(t, exportedBy("here", unready("10.0.0.1")))
			if err := w.sync(t.Context(), key{web, "here"}); err != nil {
				t.Fatal(err)
			}
			if got := w.updates(); got != test.want {
				t.Errorf("updated %q, want %q", got, test.want)
			}
		})
	}
}

// serveMembers serves the Members of three clusters, of which two are in a region.
func (h *host) serveMembers(t *testing.T) {
	t.Helper()
	for _, cluster := range []string{"here", "near", "far"} {
		member := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
		member.Status = clustersetv1alpha1.MemberStatus{ClusterID: cluster, State: clustersetv1alpha1.MemberConnected, Version: "1", Synced: true}
		if cluster == "here" {
			member.Status.State = clustersetv1alpha1.MemberLocal
		}
		member.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region", Value: map[bool]string{true: "us", false: "eu"}[cluster == "far"]}}
		h.serve(t, "members", member)
	}
}

// serveExport serves what a cluster exports, as a slice of a name.
func (h *host) serveExport(t *testing.T, cluster, name string, endpoints []discoveryv1.Endpoint) {
	t.Helper()
	export := exportedBy(cluster, endpoints)
	export.slices[0].Name = clusterset.ObjectName(name, cluster)
	h.serve(t, "exportedservices", export.service)
	h.serve(t, "exportedendpointslices", export.slices[0])
}

// R610: a member with very many slices does not delay that failed endpoints are withdrawn.
func TestManySlicesDoNotDelayAWithdrawal(t *testing.T) {
	runWith(t, 10*time.Millisecond, func(c *Controller) { c.method = preference.Detach }, func(t *testing.T, h *host) {
		h.serveMembers(t)
		h.serve(t, "serviceimports", newImport(preferring("cluster", "1")))
		h.serveExport(t, "here", "web", ready("10.0.0.1", "10.0.0.2"))
		h.serveExport(t, "near", "web", ready("10.1.0.1"))
		for i := range 1000 {
			h.serveExport(t, "far", fmt.Sprintf("web-%d", i), ready(fmt.Sprintf("10.2.%d.%d", i/250, i%250+1)))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(3 * time.Minute)
		start := time.Now()
		h.serveExport(t, "here", "web", unready("10.0.0.1"))
		time.Sleep(5 * time.Minute)
		for cluster, limit := range map[string]time.Duration{"here": time.Second, "near": 3 * time.Second} {
			if after, written := h.writtenAfter(start, cluster); !written || after > limit {
				t.Errorf("%s was written %s after the endpoints failed (%t)", cluster, after, written)
			}
		}
	})
}

// R610: a member whose endpoints are replaced all the time does not make others be written.
func TestReplacedEndpointsDoNotChangeOthers(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, h *host, i int){
		"in their slice": func(t *testing.T, h *host, i int) {
			h.serveExport(t, "near", "web", ready(fmt.Sprintf("10.1.0.%d", 2+i%2)))
		},
		"with their slice": func(t *testing.T, h *host, i int) {
			h.serveExport(t, "near", fmt.Sprintf("web-%d", i%2), ready("10.1.0.1"))
			h.serveExport(t, "near", fmt.Sprintf("web-%d", (i+1)%2), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, 10*time.Millisecond, func(c *Controller) { c.method = preference.Detach }, func(t *testing.T, h *host) {
				h.serveMembers(t)
				h.serve(t, "serviceimports", newImport(preferring("property:region", "1")))
				h.serveExport(t, "near", "web", nil)
				replace(t, h, 0)
				h.serveExport(t, "far", "web", ready("10.2.0.1"))
				time.Sleep(time.Minute)
				before := h.wrote("update far")
				for i := range 60 {
					replace(t, h, i+1)
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				if got := h.wrote("update far") - before; got > 2 { // it was attached, and detached
					t.Errorf("far was written %d times in a minute in which the tier did not change", got)
				}
			})
		})
	}
}

// R604, R610: this cluster fails and returns.
func TestDetachingFollowsTheTier(t *testing.T) {
	w := detaching(t, "cluster,property:region", "1")
	w.expectAttached(t, "here")
	w.export(t, exportedBy("here", unready("10.0.0.1")))
	w.expectAttached(t, "here,near")
	w.export(t, exportedBy("near", unready("10.1.0.1")))
	w.expectAttached(t, "far,here,near")
	w.clock.Step(time.Minute)
	w.export(t, exportedBy("here", ready("10.0.0.1")))
	w.expectAttached(t, "far,here,near")
	w.clock.Step(preference.TakeoverDelay)
	w.expectAttached(t, "here")
}

// R607: a slice with a port that the tier does not serve stays.
func TestSliceWithAPortThatTheTierLacksStays(t *testing.T) {
	w := detaching(t, "cluster", "1")
	second := func(s *multiclusterxv1beta1.ServiceImport) {
		s.Spec.Ports = append(s.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: "dns", Protocol: corev1.ProtocolTCP, Port: 53})
	}
	w.hold(t, "import", newImport(preferring("cluster", "1"), second))
	w.export(t, exportedBy("far", ready("10.2.0.1"), func(service *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
		service.Spec.Ports = append(service.Spec.Ports, clustersetv1alpha1.ServicePort{Name: "dns", Protocol: corev1.ProtocolTCP, Port: 53})
		slice.Spec.Ports = append(slice.Spec.Ports, discoveryv1.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](5353)})
	}))
	w.expectAttached(t, "far,here")
}

// The type of an import changes as it does without a preference.
func TestTypeOfAnImportWithDetachedSlicesChanges(t *testing.T) {
	w := detaching(t, "cluster", "1")
	w.expectAttached(t, "here")
	w.hold(t, "import", newImport(preferring("cluster", "1"), makeHeadless))
	w.expectAttached(t, "")
	for _, slice := range w.existingSlices(web) {
		if isDetached(slice) {
			t.Errorf("slice of %s is detached from a headless Service", slice.Labels[multicluster.SourceClusterLabel])
		}
	}
	w.hold(t, "import", newImport(preferring("cluster", "1")))
	w.expectAttached(t, "here")
	if got := w.existingService(web).Spec.ClusterIP; got == corev1.ClusterIPNone {
		t.Errorf("the Service has no cluster IP although all slices that should be attached are; it waits for labels: %v", w.labeling)
	}
}

// An import that does not prefer clusters any more uses all of them.
func TestSlicesAreAttachedWithoutAPreference(t *testing.T) {
	w := detaching(t, "cluster", "1")
	w.expectAttached(t, "here")
	w.hold(t, "import", newImport())
	w.expectAttached(t, "far,here,near")
	for _, annotation := range []string{multicluster.ClusterPreferenceAnnotation, multicluster.PreferenceMinReadyAnnotation, multicluster.ActiveTierAnnotation, multicluster.ActiveTierReasonAnnotation} {
		if value, has := w.existingService(web).Annotations[annotation]; has {
			t.Errorf("the derived Service has the annotation %s: %q", annotation, value)
		}
	}
}
