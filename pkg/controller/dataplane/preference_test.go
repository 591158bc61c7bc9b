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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// preferring makes an import prefer clusters.
func preferring(tiers, minReady string) func(*multiclusterxv1beta1.ServiceImport) {
	return func(s *multiclusterxv1beta1.ServiceImport) {
		s.Annotations = map[string]string{multicluster.ClusterPreferenceAnnotation: tiers, multicluster.PreferenceMinReadyAnnotation: minReady}
	}
}

// addNode adds a node, with a zone unless that is empty.
func (w *world) addNode(t *testing.T, name, zone string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	w.hold(t, "node", node)
}

// report adds or changes the Member of a cluster with a region. The cluster "here" is this one.
func (w *world) report(t *testing.T, cluster, region string) {
	t.Helper()
	member := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	member.Status = clustersetv1alpha1.MemberStatus{ClusterID: cluster, State: clustersetv1alpha1.MemberConnected, Version: "1", Synced: true}
	if cluster == "here" {
		member.Status.State = clustersetv1alpha1.MemberLocal
	}
	if region != "" {
		member.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region", Value: region}}
	}
	w.hold(t, "member", member)
	w.memberChanged(member)
}

// prefer returns a world with two zones, in which three clusters in two regions export a service.
func prefer(t *testing.T, tiers, minReady string) *world {
	t.Helper()
	w := newWorld(t)
	w.addNode(t, "node-1", "a")
	w.addNode(t, "node-2", "b")
	w.report(t, "here", "eu")
	w.report(t, "near", "eu")
	w.report(t, "far", "us")
	w.hold(t, "import", newImport(preferring(tiers, minReady)))
	w.export(t, exportedBy("here", ready("10.0.0.1")), exportedBy("near", ready("10.1.0.1")), exportedBy("far", ready("10.2.0.1")))
	return w
}

// hinted reconciles everything, and returns for which zones the endpoints are hinted, by cluster.
func (w *world) hinted(t *testing.T) string {
	t.Helper()
	w.sync1(t)
	w.settle(t)
	w.sync1(t) // what was decided by the last cluster concerns the others
	w.settle(t)
	zones := map[string]string{}
	for _, slice := range w.existingSlices(web) {
		var names []string
		for _, endpoint := range slice.Endpoints {
			if endpoint.Hints == nil {
				names = append(names, "all")
				continue
			}
			for _, zone := range endpoint.Hints.ForZones {
				names = append(names, strings.ReplaceAll(zone.Name, preference.Nowhere, "-"))
			}
		}
		zones[slice.Labels[multicluster.SourceClusterLabel]] = strings.Join(names, ",")
	}
	var result []string
	for _, cluster := range slices.Sorted(maps.Keys(zones)) {
		result = append(result, cluster+"="+zones[cluster])
	}
	return strings.Join(result, " ")
}

func (w *world) expectHints(t *testing.T, want string) {
	t.Helper()
	if got := w.hinted(t); got != want {
		t.Errorf("got hints %s, want %s", got, want)
	}
}

func unready(address string) []discoveryv1.Endpoint {
	return []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}}
}

// R600, R605: endpoints of the preferred clusters are hinted for all zones, others for none.
func TestEndpointsOfPreferredClustersAreHinted(t *testing.T) {
	for _, test := range []struct {
		tiers, minReady, want string
	}{
		{"cluster", "1", "far=- here=a,b near=-"},
		{"property:region", "1", "far=- here=a,b near=a,b"},
		{"cluster,property:region", "2", "far=- here=a,b near=a,b"},
		{"cluster,property:region", "3", "far=all here=all near=all"},
		{"property:color,cluster", "1", "far=- here=a,b near=-"},
		{"tier-of-a-newer-release", "1", "far=all here=all near=all"},
	} {
		t.Run(test.tiers+" "+test.minReady, func(t *testing.T) {
			prefer(t, test.tiers, test.minReady).expectHints(t, test.want)
		})
	}
}

// R604
func TestPreferredClusterFailsAndReturns(t *testing.T) {
	w := prefer(t, "cluster,property:region", "1")
	w.expectHints(t, "far=- here=a,b near=-")
	w.export(t, exportedBy("here", unready("10.0.0.1")))
	w.expectHints(t, "far=- here=a,b near=a,b")
	w.export(t, exportedBy("near", unready("10.1.0.1")))
	w.expectHints(t, "far=all here=all near=all")
	w.clock.Step(time.Minute)
	w.export(t, exportedBy("here", ready("10.0.0.1")))
	w.expectHints(t, "far=all here=all near=all")
	w.clock.Step(preference.TakeoverDelay)
	w.expectHints(t, "far=- here=a,b near=-")
}

// A tier that changes concerns the slices of all clusters.
func TestChangedTierEnqueuesAllClusters(t *testing.T) {
	w := prefer(t, "cluster", "1")
	w.hinted(t)
	w.queued()
	w.export(t, exportedBy("here", unready("10.0.0.1")))
	if err := w.sync(t.Context(), key{web, "here"}); err != nil {
		t.Fatal(err)
	}
	if got, want := w.queued(), "shop/web,shop/web@far,shop/web@here,shop/web@near"; got != want {
		t.Errorf("enqueued %s, want %s", got, want)
	}
}

// R602: properties that change move a cluster from tier to tier; those of a member that was not read
// since a restart of mcs-apiserver are as they were.
func TestTierFollowsProperties(t *testing.T) {
	w := prefer(t, "property:region", "1")
	w.expectHints(t, "far=- here=a,b near=a,b")
	w.queued()
	w.report(t, "near", "us")
	if got := w.queued(); !strings.Contains(got, "shop/web@near") {
		t.Errorf("enqueued %q, want the import", got)
	}
	w.expectHints(t, "far=- here=a,b near=-")
	unread := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "near"}}
	unread.Status = clustersetv1alpha1.MemberStatus{ClusterID: "near", State: clustersetv1alpha1.MemberStale}
	w.report(t, "near", "eu")
	w.hold(t, "member", unread)
	w.memberChanged(unread)
	w.expectHints(t, "far=- here=a,b near=a,b")
}

// R606: on nodes without zones, clients use all clusters, and the derived Service says which.
func TestHintsNeedZones(t *testing.T) {
	const someNodes = `cluster preference is not in effect on some nodes: node "node-3" has no label topology.kubernetes.io/zone (1 of 3 nodes do not); ` +
		"set it on all nodes, or change --preference-by of mcs-controller"
	const noNode = "cluster preference is not in effect in this cluster: no node has the label topology.kubernetes.io/zone; set it on all nodes, or change --preference-by of mcs-controller"
	w := prefer(t, "cluster", "1")
	w.method = preference.Hints
	w.expectHints(t, "far=- here=a,b near=-")
	for _, step := range []struct {
		zones         [3]string
		want, problem string
	}{
		{[3]string{"a", "b", ""}, "far=- here=a,b near=-", someNodes},
		{[3]string{}, "far=all here=all near=all", noNode},
		{[3]string{"a", "b", "c"}, "far=- here=a,b,c near=-", ""},
	} {
		for i, zone := range step.zones {
			w.addNode(t, fmt.Sprintf("node-%d", i+1), zone)
		}
		w.queued()
		if err := w.sync(t.Context(), rezoned); err != nil {
			t.Fatal(err)
		}
		if got := w.queued(); !strings.Contains(got, "shop/web@far") {
			t.Errorf("enqueued %q, want the import", got)
		}
		w.expectHints(t, step.want)
		if got := w.existingService(web).Annotations[multicluster.ClusterPreferenceProblemAnnotation]; got != step.problem {
			t.Errorf("got problem %q, want %q", got, step.problem)
		}
	}
}

// R609: imports whose clients do not choose between clusters have no hints.
func TestPreferenceHasNoEffectOnSomeImports(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*multiclusterxv1beta1.ServiceImport)
		problem string
	}{
		{"headless", makeHeadless, "cluster preference has no effect: the import is headless, and DNS returns the endpoints of all clusters"},
		{"local", func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}, "cluster preference has no effect: the import has internalTrafficPolicy Local, and clients use endpoints on their node only"},
		{"not preferring", func(s *multiclusterxv1beta1.ServiceImport) { s.Annotations = nil }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := prefer(t, "cluster", "1")
			w.hold(t, "import", newImport(preferring("cluster", "1"), test.change))
			w.expectHints(t, "far=all here=all near=all")
			w.sync1(t)
			if got := w.existingService(web).Annotations[multicluster.ClusterPreferenceProblemAnnotation]; got != test.problem {
				t.Errorf("got problem %q, want %q", got, test.problem)
			}
		})
	}
}

// Nothing is written when nothing changed, also with more zones than an endpoint can be hinted for.
func TestPreferenceWritesNothingTwice(t *testing.T) {
	w := prefer(t, "cluster", "1")
	for i := range 20 {
		w.addNode(t, fmt.Sprintf("more-%d", i), fmt.Sprintf("zone-%02d", i))
	}
	w.export(t, exportedBy("here", ready("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")))
	first := w.hinted(t)
	w.written()
	w.sync1(t)
	if got := w.written(); got != "" {
		t.Errorf("got requests %q although nothing changed since %s", got, first)
	}
}

// R612: the derived Service says which tier is active, and why.
func TestDerivedServiceSaysWhichTierIsActive(t *testing.T) {
	w := prefer(t, "cluster,property:region", "2")
	expect := func(tier, reason string) {
		t.Helper()
		w.hinted(t)
		w.sync1(t)
		w.clock.Step(causeDelay) // no export changed the Service
		w.sync1(t)
		w.settle(t)
		annotations := w.existingService(web).Annotations
		if annotations[multicluster.ActiveTierAnnotation] != tier || annotations[multicluster.ActiveTierReasonAnnotation] != reason {
			t.Errorf("got tier %q because %q, want %q because %q", annotations[multicluster.ActiveTierAnnotation], annotations[multicluster.ActiveTierReasonAnnotation], tier, reason)
		}
		if annotations[multicluster.ClusterPreferenceAnnotation] != "cluster,property:region" || annotations[multicluster.PreferenceMinReadyAnnotation] != "2" {
			t.Errorf("got annotations %v", annotations)
		}
	}
	expect("property:region", `tier "cluster" does not have enough endpoints (at least 2 ready for 5s)`)
	w.export(t, exportedBy("near", nil))
	expect("all", `tiers "cluster", "property:region" do not have enough endpoints (at least 2 ready for 5s)`)
	w.export(t, exportedBy("here", ready("10.0.0.1", "10.0.0.2")))
	w.hinted(t)
	w.clock.Step(preference.TakeoverDelay)
	expect("cluster", "it has enough endpoints (at least 2 ready)")
	if got := w.queued(); !strings.Contains(got, "shop/web,") {
		t.Errorf("enqueued %q, want the derived Service", got)
	}
}

// R603, R612: IP families are separate.
func TestTiersOfIPFamiliesAreShown(t *testing.T) {
	w := newWorld(t)
	name := tierKey{web, discoveryv1.AddressTypeIPv4}
	w.tiers.setState(name, preference.State{Active: "cluster"})
	wanted := *preferred(newImport(preferring("cluster", "1")))
	if tier, reason := w.activeTier(web, wanted, nil, nil); tier != "cluster" || !strings.HasPrefix(reason, "it has enough") {
		t.Errorf("got %q because %q", tier, reason)
	}
	name.family = discoveryv1.AddressTypeIPv6
	w.tiers.setState(name, preference.State{Active: "all"})
	tier, reason := w.activeTier(web, wanted, nil, nil)
	if tier != "IPv4=cluster,IPv6=all" || !strings.Contains(reason, `; IPv6: tier "cluster" does not`) || !strings.HasPrefix(reason, "IPv4: it has") {
		t.Errorf("got %q because %q", tier, reason)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{multicluster.ActiveTierAnnotation: tier}}}
	for family, want := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "cluster", discoveryv1.AddressTypeIPv6: "all"} {
		if got := string(annotatedTier(service, family)); got != want {
			t.Errorf("annotated for %s is %q, want %q", family, got, want)
		}
	}
}

// R603: in a dual-stack cluster, each IP family has a tier of its own.
func TestIPFamiliesHaveTiersOfTheirOwn(t *testing.T) {
	v6 := func(_ *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
		slice.Name, slice.Spec.AddressType = slice.Name+"-v6", discoveryv1.AddressTypeIPv6
	}
	for _, test := range []struct {
		method preference.Method
		want   string
	}{
		{preference.Hints, "IPv4/far=- IPv4/here=a,b IPv4/near=- IPv6/far=- IPv6/here=a,b IPv6/near=a,b"},
		{preference.Detach, "IPv4/far=detached IPv4/here= IPv4/near=detached IPv6/far=detached IPv6/here= IPv6/near="},
	} {
		t.Run(string(test.method), func(t *testing.T) {
			w := prefer(t, "cluster,property:region", "1")
			w.method = test.method
			w.hold(t, "import", newImport(preferring("cluster,property:region", "1"), func(s *multiclusterxv1beta1.ServiceImport) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
			}))
			w.export(t, exportedBy("here", unready("fd00::1"), v6), exportedBy("near", ready("fd00:1::1"), v6), exportedBy("far", ready("fd00:2::1"), v6))
			w.attached(t)
			var got []string
			for _, slice := range w.existingSlices(web) {
				var parts []string
				if isDetached(slice) {
					parts = append(parts, "detached")
				}
				if hints := slice.Endpoints[0].Hints; hints != nil {
					for _, zone := range hints.ForZones {
						parts = append(parts, strings.ReplaceAll(zone.Name, preference.Nowhere, "-"))
					}
				}
				got = append(got, fmt.Sprintf("%s/%s=%s", slice.AddressType, slice.Labels[multicluster.SourceClusterLabel], strings.Join(parts, ",")))
			}
			slices.Sort(got)
			if strings.Join(got, " ") != test.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), test.want)
			}
			if tier := w.existingService(web).Annotations[multicluster.ActiveTierAnnotation]; tier != "IPv4=cluster,IPv6=property:region" {
				t.Errorf("active tier is shown as %q", tier)
			}
		})
	}
}

// R605: clients reach a port that only other clusters serve: no endpoint of it is hinted for a zone, so
// that kube-proxy uses all.
func TestPortThatOnlyOthersServeIsHintedForNoZone(t *testing.T) {
	w := prefer(t, "cluster", "1")
	w.hold(t, "import", newImport(preferring("cluster", "1"), func(s *multiclusterxv1beta1.ServiceImport) {
		s.Spec.Ports = append(s.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: "dns", Protocol: corev1.ProtocolTCP, Port: 53})
	}))
	w.export(t, exportedBy("far", ready("10.2.0.1"), func(service *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
		service.Spec.Ports = append(service.Spec.Ports, clustersetv1alpha1.ServicePort{Name: "dns", Protocol: corev1.ProtocolTCP, Port: 53})
		slice.Spec.Ports = append(slice.Spec.Ports, discoveryv1.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](5353)})
	}))
	w.expectHints(t, "far=- here=a,b near=-")
	for _, slice := range w.existingSlices(web) {
		for _, port := range slice.Ports {
			if *port.Name == "dns" && slices.ContainsFunc(slice.Endpoints[0].Hints.ForZones, func(zone discoveryv1.ForZone) bool { return zone.Name != preference.Nowhere }) {
				t.Errorf("an endpoint at port dns is hinted for %v", slice.Endpoints[0].Hints.ForZones)
			}
		}
	}
}

// R611: another replica that begins to lead writes nothing, whichever tier is active.
func TestNewLeaderKeepsTheActiveTier(t *testing.T) {
	for _, method := range []preference.Method{preference.Hints, preference.Detach} {
		t.Run(string(method), func(t *testing.T) {
			former := prefer(t, "cluster,property:region", "1")
			former.method = method
			former.hinted(t)
			for _, endpoints := range [][]discoveryv1.Endpoint{unready("10.0.0.1"), ready("10.0.0.1")} { // it returned less than 5s ago
				former.export(t, exportedBy("here", endpoints))
				former.attached(t)
			}
			w := prefer(t, "cluster,property:region", "1")
			w.method = method
			w.client, w.Controller.client = former.client, former.client
			w.settle(t)
			w.sync1(t)
			if got := w.written(); got != "" {
				t.Errorf("wrote %q", got)
			}
			w.clock.Step(preference.TakeoverDelay)
			w.attached(t)
			if got := w.tiers.state(tierKey{web, discoveryv1.AddressTypeIPv4}).Active; got != "cluster" {
				t.Errorf("active tier is %q after the delay", got)
			}
		})
	}
}

// R613: what is imported of a cluster stays as it is while it is not known what that exports, but
// follows the active tier.
func TestSlicesThatAreLeftFollowTheTier(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"silent": func(w *world) {
			w.findings = findings{}
			w.silence(t, "near")
		},
		"outdated": func(w *world) { w.know(t, "near", isStale, clusterset.ReasonOutdated) },
	} {
		for _, method := range []preference.Method{preference.Hints, preference.Detach} {
			t.Run(name+" "+string(method), func(t *testing.T) {
				w := prefer(t, "cluster", "1")
				w.method = method
				expect := func(hints, attached string) {
					t.Helper()
					if method == preference.Hints {
						w.expectHints(t, hints)
					} else {
						w.expectAttached(t, attached)
					}
				}
				expect("far=- here=a,b near=-", "here")
				leave(w)
				w.export(t, exportedBy("here", unready("10.0.0.1")), exportedBy("near", ready("10.1.0.7")))
				expect("far=all here=all near=all", "far,here,near")
				w.clock.Step(time.Minute)
				w.export(t, exportedBy("here", ready("10.0.0.1")))
				w.attached(t)
				w.clock.Step(preference.TakeoverDelay)
				expect("far=- here=a,b near=-", "here")
				for _, slice := range w.existingSlices(web) {
					if slice.Labels[multicluster.SourceClusterLabel] == "near" && slice.Endpoints[0].Addresses[0] != "10.1.0.1" {
						t.Errorf("endpoints of near are %v", slice.Endpoints)
					}
				}
			})
		}
	}
}

// silence lets a member be silent for its TTL.
func (w *world) silence(t *testing.T, cluster string) {
	t.Helper()
	entry, err := w.members.Get(cluster)
	if err != nil {
		t.Fatal(err)
	}
	entry = entry.DeepCopy()
	entry.Status.State, entry.Status.Expired, entry.Status.LostPolicy = isLost, true, clustersetv1alpha1.LostPolicyWithdraw
	w.hold(t, "member", entry)
	w.memberChanged(entry)
}

// R613: while it is not known who exports a Service, the endpoints that are imported count.
func TestRetainedImportKeepsItsTier(t *testing.T) {
	for _, method := range []preference.Method{preference.Hints, preference.Detach} {
		t.Run(string(method), func(t *testing.T) {
			w := prefer(t, "cluster", "1")
			w.method = method
			hints, attached := w.hinted(t), w.attached(t)
			w.hold(t, "import", newImport(preferring("cluster", "1"), func(s *multiclusterxv1beta1.ServiceImport) {
				s.Status.Conditions = []metav1.Condition{{Type: multicluster.ServiceImportReady, Status: metav1.ConditionUnknown, Reason: multicluster.ServiceImportReasonExportsUnknown}}
			}))
			for _, exported := range w.exported.List() {
				_ = w.exported.Delete(exported)
			}
			for _, cluster := range []string{"here", "near", "far"} {
				w.know(t, cluster, isConnected, "Reading")
			}
			w.written()
			w.sync1(t)
			if got := w.written(); got != "" {
				t.Errorf("wrote %q", got)
			}
			w.expectHints(t, hints)
			w.expectAttached(t, attached)
			w.know(t, "here", isConnected, "Synced") // it exports nothing
			w.clock.Step(time.Minute)
			w.client.ClearActions()
			if err := w.sync(t.Context(), key{web, "here"}); err != nil {
				t.Fatal(err)
			}
			want := map[preference.Method]string{preference.Hints: "delete endpointslices", preference.Detach: "update endpointslices, delete endpointslices"}[method]
			var got []string
			for _, action := range w.client.Actions() {
				got = append(got, action.GetVerb()+" "+action.GetResource().Resource)
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("got requests %q, want %q", got, want)
			}
		})
	}
}

// R605: the derived Service says in which zones clients use all clusters, because no endpoint is
// hinted for them.
func TestUncoveredZonesAreReported(t *testing.T) {
	w := prefer(t, "cluster", "1")
	for i := range 20 {
		w.addNode(t, fmt.Sprintf("more-%d", i), fmt.Sprintf("zone-%02d", i))
	}
	w.hinted(t)
	w.sync1(t)
	w.settle(t)
	const want = `clients in zone "zone-06" use all clusters (14 of 22 zones): the active tier has too few ready endpoints to be hinted for all of them; ` +
		"add endpoints, or set --preference-by=detach of mcs-controller"
	if got := w.existingService(web).Annotations[multicluster.ClusterPreferenceProblemAnnotation]; got != want {
		t.Errorf("got problem %q, want %q", got, want)
	}
	w.queued()
	w.clock.Step(time.Minute)
	w.export(t, exportedBy("here", ready("10.0.0.1", "10.0.0.2", "10.0.0.3")))
	if err := w.sync(t.Context(), key{web, "here"}); err != nil {
		t.Fatal(err)
	}
	if got := w.queued(); got != "shop/web" {
		t.Errorf("enqueued %q, want the derived Service", got)
	}
	w.sync1(t)
	w.clock.Step(causeDelay) // no export changed the Service
	w.sync1(t)
	w.settle(t)
	if got := w.existingService(web).Annotations[multicluster.ClusterPreferenceProblemAnnotation]; got != "" {
		t.Errorf("got problem %q although all zones are covered", got)
	}
}

// R606: a node that has no zone for a moment, again and again, changes nothing.
func TestNodeWithoutAZoneForAMomentChangesNothing(t *testing.T) {
	runWith(t, time.Millisecond, func(*Controller) {}, func(t *testing.T, h *host) {
		h.serveNode(t, "node-1", "a")
		h.serveMembers(t)
		for cluster, address := range map[string]string{"here": "10.0.0.1", "near": "10.1.0.1", "far": "10.2.0.1"} {
			h.serveExport(t, cluster, "web", ready(address))
		}
		h.serve(t, "serviceimports", newImport(preferring("cluster", "1")))
		time.Sleep(time.Minute)
		before := h.wrote("update far")
		for range 30 {
			h.serveNode(t, "node-2", "")
			time.Sleep(time.Second)
			h.serveNode(t, "node-2", "a")
			time.Sleep(time.Second)
		}
		if got := h.wrote("update far") - before; got > 0 {
			t.Errorf("far was written %d times in a minute", got)
		}
		h.serveNode(t, "node-2", "")
		time.Sleep(time.Minute)
		if got := h.wrote("update far") - before; got == 0 {
			t.Error("far was not written although a node has had no zone for a minute")
		}
	})
}

// serveNode serves a node, with a zone unless that is empty.
func (h *host) serveNode(t *testing.T, name, zone string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	if err := h.client.Tracker().Create(nodes, node, ""); err == nil {
		return
	}
	if err := h.client.Tracker().Update(nodes, node, ""); err != nil {
		t.Fatal(err)
	}
}

// R612: the derived Service is not written because endpoints change, as long as they cover the same
// zones.
func TestServiceIsNotWrittenWhileCoverageIsTheSame(t *testing.T) {
	runWith(t, 10*time.Millisecond, func(*Controller) {}, func(t *testing.T, h *host) {
		for i := range 22 {
			h.serveNode(t, fmt.Sprintf("node-%d", i), fmt.Sprintf("zone-%02d", i))
		}
		h.serveMembers(t)
		h.serve(t, "serviceimports", newImport(preferring("cluster", "1")))
		h.serveExport(t, "here", "web", ready("10.0.0.1"))
		h.serveExport(t, "far", "web", ready("10.2.0.1"))
		time.Sleep(time.Minute)
		updates := func() (count int) {
			for _, action := range h.client.Actions() {
				if action.Matches("update", "services") && action.GetSubresource() == "" {
					count++
				}
			}
			return count
		}
		before := updates()
		for i := range 120 { // faster than they may be written
			h.serveExport(t, "here", "web", ready(fmt.Sprintf("10.0.0.%d", 2+i%2)))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := updates() - before; got > 0 {
			t.Errorf("the derived Service was updated %d times", got)
		}
	})
}

// R602: only imports that prefer clusters by a property that changed are reconciled, and only those
// that the cluster exports.
func TestPropertiesConcernSomeImports(t *testing.T) {
	for _, test := range []struct {
		cluster, property, tiers string
		want                     bool
	}{
		{"far", "region", "cluster,property:region", true},
		{"here", "region", "property:region", true},
		{"far", "region", "cluster", false},
		{"far", "counter", "property:region", false},
		{"here", "counter", "property:region", false},
		{"other", "region", "property:region", false},
	} {
		t.Run(strings.Join([]string{test.cluster, test.property, test.tiers}, " "), func(t *testing.T) {
			w := prefer(t, test.tiers, "1")
			w.report(t, "other", "eu")
			w.hinted(t)
			w.queued()
			for i := range 2 {
				entry, err := w.members.Get(test.cluster)
				if err != nil {
					t.Fatal(err)
				}
				entry = entry.DeepCopy()
				entry.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region", Value: entry.Status.Properties[0].Value}, {Name: "counter", Value: "0"}}
				if test.property == "region" {
					entry.Status.Properties[0].Value += "-" + fmt.Sprint(i)
				} else {
					entry.Status.Properties[1].Value = fmt.Sprint(i)
				}
				w.hold(t, "member", entry)
				w.memberChanged(entry)
				if got := w.queued(); strings.Contains(got, "shop/web@far") != test.want {
					t.Errorf("enqueued %q", got)
				}
			}
		})
	}
}

// Nothing is kept of an import that was deleted while a key waited to decide.
func TestDecisionsAboutDeletedImportsAreForgotten(t *testing.T) {
	w := prefer(t, "cluster", "1")
	w.hinted(t)
	synctest.Test(t, func(t *testing.T) {
		unlock := w.tiers.deciding.lock(web)
		done := make(chan error)
		for _, key := range []key{{web, "far"}, ofService(web)} {
			go func() { done <- w.sync(context.Background(), key) }()
			synctest.Wait()
			if key.cluster != "" { // it waits; meanwhile, the import and its objects are deleted
				serviceImport, err := w.imports.ServiceImports("shop").Get("web")
				if err := errors.Join(err, w.caches["import"].Delete(serviceImport), w.services.Delete(w.existingService(web))); err != nil {
					t.Fatal(err)
				}
				for _, slice := range w.existingSlices(web) {
					if err := w.slices.Delete(slice); err != nil {
						t.Fatal(err)
					}
				}
				w.mu.Lock()
				clear(w.addresses)
				w.mu.Unlock()
			}
		}
		unlock()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	w.tiers.mu.Lock()
	defer w.tiers.mu.Unlock()
	if len(w.tiers.states) > 0 {
		t.Errorf("%d decisions about a deleted import are kept", len(w.tiers.states))
	}
}
