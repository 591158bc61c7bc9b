// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	web   = types.NamespacedName{Namespace: "ns", Name: "web"}
	// identified is the identity of the import web, which was created at epoch.
	identified = importidentity.Scope{NamespaceUID: "uid-ns", MembershipUID: "claim", Since: epoch}.Identity("web", importidentity.Life{})
)

const ipv4, ipv6 = corev1.IPv4Protocol, corev1.IPv6Protocol

// exportOf returns an export of web. Its age follows the alphabet: a is the oldest.
func exportOf(cluster string, changes ...func(*member.Export)) member.Export {
	service := &clusterset.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"metadata": "leaks"}, Annotations: map[string]string{"metadata": "leaks"}},
		Spec: clusterset.ExportedServiceSpec{
			Cluster: cluster, Service: "web", ExportedAt: metav1.NewTime(epoch.Add(time.Duration(cluster[0]) * time.Second)), Type: clusterset.ClusterSetIP,
			Ports: []clusterset.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}, IPFamilies: []corev1.IPFamily{ipv4},
		},
	}
	export := member.Export{Export: clusterset.Export{Service: service}, State: clusterset.MemberConnected, LastSeen: epoch}
	for _, change := range changes {
		change(&export)
	}
	return export
}

func families(families ...corev1.IPFamily) func(*member.Export) {
	return func(e *member.Export) { e.Service.Spec.IPFamilies = families }
}

func headless(e *member.Export) { e.Service.Spec.Type = clusterset.Headless }

func in(state clusterset.MemberState) func(*member.Export) {
	return func(e *member.Export) { e.State = state }
}

// derivedWith returns a derived Service with IP families and ClusterIPs.
func derivedWith(families []corev1.IPFamily, ips ...string) *corev1.Service {
	derived := &corev1.Service{Spec: corev1.ServiceSpec{IPFamilies: families, ClusterIPs: ips}}
	if len(ips) > 0 {
		derived.Spec.ClusterIP = ips[0]
	}
	return derived
}

func condition(i *multicluster.ServiceImport, conditionType string) metav1.Condition {
	if found := meta.FindStatusCondition(i.Status.Conditions, conditionType); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// R30, R31, R36: readiness and IPs of an import follow its derived Service.
func TestReadyAndAddressesFollowTheDerivedService(t *testing.T) {
	v4, v6, dual, reverse := []corev1.IPFamily{ipv4}, []corev1.IPFamily{ipv6}, []corev1.IPFamily{ipv4, ipv6}, []corev1.IPFamily{ipv6, ipv4}
	const four, six = "10.0.0.1", "fd00::1"
	for _, test := range []struct {
		name    string
		export  member.Export
		derived *corev1.Service
		// reason is Ready if and only if the import is ready.
		reason, message string
		ips             []string
		families        []corev1.IPFamily
	}{
		{"no derived Service", exportOf("b"), nil, "Pending", `waiting for mcs-controller to create derived Service "derived-`, nil, v4},
		{"no IP yet", exportOf("b"), derivedWith(v4), "Pending", "waiting for an IP", nil, v4},
		{"an IP", exportOf("b"), derivedWith(v4, four), "Ready", "", []string{four}, v4},
		{"the IP of the export's only family", exportOf("b", families(ipv6)), derivedWith(dual, four, six), "Ready", "", []string{six}, v6},
		{"both, in the order of the export", exportOf("b", families(ipv6, ipv4)), derivedWith(dual, four, six), "Ready", "", []string{six, four}, reverse},
		{"one of two so far", exportOf("b", families(ipv4, ipv6)), derivedWith(dual, four), "Pending", "waiting for an IP", []string{four}, dual},
		{"a cluster with fewer families", exportOf("b", families(ipv4, ipv6)), derivedWith(v4, four), "Ready", "", []string{four}, v4},
		{"a cluster with the other family", exportOf("b", families(ipv6)), derivedWith(v4, four), "IPFamilyNotSupported",
			"exported with IP families [IPv6], but this cluster supports only [IPv4]", nil, nil},
		{"an export without IP families", exportOf("b", families()), derivedWith(dual, four, six), "Ready", "", []string{four, six}, dual},
		{"headless", exportOf("b", headless), derivedWith(v4, corev1.ClusterIPNone), "Ready", "", nil, v4},
		{"headless, without a derived Service", exportOf("b", headless), nil, "Pending", "", nil, v4},
		{"headless, in a cluster with the other family", exportOf("b", headless, families(ipv6)), derivedWith(v4, corev1.ClusterIPNone), "IPFamilyNotSupported", "", nil, nil},
		// R45: the type of the oldest export changed.
		{"headless from now on", exportOf("b", headless), derivedWith(v4, four), "Pending", "type of the import changed to Headless", nil, v4},
		{"no longer headless", exportOf("b"), derivedWith(v4, corev1.ClusterIPNone), "Pending", "type of the import changes to ClusterSetIP", nil, v4},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := newImport(web, identified, []member.Export{test.export}, localState{derived: test.derived})
			got := condition(result, multicluster.ServiceImportReady)
			if got.Reason != test.reason || (got.Status == metav1.ConditionTrue) != (test.reason == "Ready") || !strings.Contains(got.Message, test.message) {
				t.Errorf("got %+v, want %s and %q", got, test.reason, test.message)
			}
			if diff := cmp.Diff(test.ips, result.Spec.IPs); diff != "" {
				t.Errorf("IPs: %s", diff)
			}
			if len(test.families)+len(result.Spec.IPFamilies) > 0 {
				if diff := cmp.Diff(test.families, result.Spec.IPFamilies); diff != "" {
					t.Errorf("families: %s", diff)
				}
			}
		})
	}
}

// The condition of an import whose derived Service cannot be created names the
// conflicting Service.
func TestNameConflictIsReported(t *testing.T) {
	got := condition(newImport(web, identified, []member.Export{exportOf("a")}, localState{conflicting: &corev1.Service{}}), multicluster.ServiceImportReady)
	if got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, multicluster.DerivedServiceName(web.Namespace, web.Name)) || !strings.Contains(got.Message, "delete it") {
		t.Errorf("got condition %+v", got)
	}
}

// R13, R14: an import has the exported labels and annotations and our own.
func TestImportHasOnlyExportedLabelsAndOurs(t *testing.T) {
	export := exportOf("b", func(e *member.Export) {
		e.Service.Spec.ExportedLabels = map[string]string{"app": "web", multicluster.ServiceNameLabel: "stolen"}
		e.Service.Spec.ExportedAnnotations = map[string]string{
			"note": "x", multicluster.DerivedServiceAnnotation: "stolen", multicluster.ClusterSetKeyPrefix + "vip": "stolen",
		}
	})
	result := newImport(web, identified, []member.Export{export}, localState{})
	if diff := cmp.Diff(map[string]string{"app": "web"}, result.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	want := map[string]string{"note": "x", multicluster.DerivedServiceAnnotation: multicluster.DerivedServiceName("ns", "web")}
	if diff := cmp.Diff(want, result.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	if _, written := export.Service.Spec.ExportedAnnotations["note"]; !written || len(export.Service.Spec.ExportedAnnotations) != 3 {
		t.Error("the export of the member was modified")
	}
}

// R485: the import shows what its namespace asks of EndpointSlices, and what an export says about it
// has no effect.
func TestImportHasTheEndpointSlicesAnnotationOfItsNamespace(t *testing.T) {
	export := exportOf("b", func(e *member.Export) {
		e.Service.Spec.ExportedAnnotations = map[string]string{multicluster.EndpointSlicesAnnotation: multicluster.EndpointSlicesSeparate}
	})
	for asked, want := range map[string]string{"": "", "separate": "separate", "other": ""} {
		local := localState{endpointSlices: asked}
		for _, result := range []*multicluster.ServiceImport{
			newImport(web, identified, []member.Export{export}, local), newRetainedImport(web, identified, derivedWith(nil), local),
		} {
			if got := result.Annotations[multicluster.EndpointSlicesAnnotation]; got != want {
				t.Errorf("namespace asks for %q: annotation is %q", asked, got)
			}
		}
	}
}

// R488: clients that ignore changes of the status notice every change of the spec, and no other.
func TestGenerationFollowsTheSpec(t *testing.T) {
	derived := derivedWith([]corev1.IPFamily{corev1.IPv4Protocol}, "10.0.0.1")
	of := func(local localState, exports ...member.Export) int64 {
		return newImport(web, identified, exports, local).Generation
	}
	first := of(localState{}, exportOf("a"))
	if first <= 0 || first >= 1<<53 {
		t.Errorf("generation is %d", first)
	}
	if again := of(localState{slices: true}, exportOf("a"), exportOf("b", in(clusterset.MemberStale))); again != first {
		t.Errorf("generation was %d, is %d although the spec is the same", first, again)
	}
	seen := map[int64]string{first: "before"}
	for name, generation := range map[string]int64{
		"IP":       of(localState{derived: derived}, exportOf("a")),
		"headless": of(localState{}, exportOf("a", headless)),
		"ports": of(localState{}, exportOf("a", func(e *member.Export) {
			e.Service.Spec.Ports = append(e.Service.Spec.Ports, clusterset.ServicePort{Port: 99})
		})),
		"retained": newRetainedImport(web, identified, derived, localState{derived: derived}).Generation,
	} {
		if other, found := seen[generation]; found {
			t.Errorf("%s: generation is %d as for %s", name, generation, other)
		}
		seen[generation] = name
	}
}

// R24, R33: each exporting cluster is listed once, whatever its state; R34, R63:
// the spec is the merged one.
func TestImportListsEveryExportingCluster(t *testing.T) {
	result := newImport(web, identified, []member.Export{
		exportOf("c", in(clusterset.MemberLost), headless), exportOf("a", in(clusterset.MemberLocal)), exportOf("b", in(clusterset.MemberStale)),
	}, localState{slices: true})
	want := []multicluster.ClusterStatus{{Cluster: "a"}, {Cluster: "b"}, {Cluster: "c"}}
	if diff := cmp.Diff(want, result.Status.Clusters); diff != "" {
		t.Errorf("clusters: %s", diff)
	}
	if result.Spec.Type != multicluster.ClusterSetIP || len(result.Spec.Ports) != 1 || result.Name != "web" || result.Namespace != "ns" {
		t.Errorf("got %+v", result)
	}
	if result.Status.EndpointSliceObjects != multicluster.EndpointSliceObjectsPresent {
		t.Errorf("endpointSliceObjects is %s", result.Status.EndpointSliceObjects)
	}
	if got := newImport(web, identified, []member.Export{exportOf("a")}, localState{}).Status.EndpointSliceObjects; got != multicluster.EndpointSliceObjectsAbsent {
		t.Errorf("without imported EndpointSlices, endpointSliceObjects is %s", got)
	}
}

func TestMembersReachableNamesClustersAndTimes(t *testing.T) {
	seen := func(at time.Time) func(*member.Export) { return func(e *member.Export) { e.LastSeen = at } }
	for _, test := range []struct {
		name            string
		exports         []member.Export
		reason, message string
	}{
		{"all reachable", []member.Export{exportOf("a", in(clusterset.MemberLocal)), exportOf("b")}, "", ""},
		{"one stale", []member.Export{exportOf("a"), exportOf("b", in(clusterset.MemberStale))}, "MembersStale", "stale: b (last seen 2026-01-01T00:00:00Z)"},
		{"one lost", []member.Export{exportOf("b", in(clusterset.MemberLost), seen(epoch.Add(time.Minute)))}, "MembersLost", "lost: b (last seen 2026-01-01T00:01:00Z)"},
		{"several", []member.Export{exportOf("d", in(clusterset.MemberLost)), exportOf("c", in(clusterset.MemberStale)), exportOf("b", in(clusterset.MemberLost))}, "MembersLost",
			"stale: c (last seen 2026-01-01T00:00:00Z); lost: b (last seen 2026-01-01T00:00:00Z), d (last seen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := condition(newImport(web, identified, test.exports, localState{}), multicluster.ServiceImportMembersReachable)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.message) || test.reason != "" && got.Status != metav1.ConditionFalse {
				t.Errorf("got %+v, want %s and %q", got, test.reason, test.message)
			}
		})
	}
}

// R32: condition times are those of their causes, so that they are the same in every
// replica and after a restart. They are never earlier than the import.
func TestConditionTimesAreThoseOfTheirCauses(t *testing.T) {
	const before, at, later = -time.Hour, time.Duration(0), time.Hour
	created := func(service *corev1.Service, age time.Duration) *corev1.Service {
		service.CreationTimestamp = metav1.NewTime(epoch.Add(age))
		return service
	}
	v4 := []corev1.IPFamily{ipv4}
	exportedAt := func(age time.Duration) func(*member.Export) {
		return func(e *member.Export) { e.Service.Spec.ExportedAt = metav1.NewTime(epoch.Add(age)) }
	}
	seen := func(age time.Duration) func(*member.Export) {
		return func(e *member.Export) { e.LastSeen = epoch.Add(age + time.Millisecond) }
	}
	const ready, reachable = multicluster.ServiceImportReady, multicluster.ServiceImportMembersReachable
	for _, test := range []struct {
		name      string
		condition string
		exports   []member.Export
		local     localState
		status    metav1.ConditionStatus
		want      time.Duration
	}{
		{"ready since the derived Service exists", ready, []member.Export{exportOf("b", exportedAt(2*later))}, localState{derived: created(derivedWith(v4, "10.0.0.1"), later)}, "True", later},
		{"not before the import", ready, []member.Export{exportOf("b")}, localState{derived: created(derivedWith(v4, "10.0.0.1"), before)}, "True", at},
		{"no derived Service", ready, []member.Export{exportOf("b", exportedAt(later))}, localState{}, "False", at},
		{"name conflict", ready, []member.Export{exportOf("b")}, localState{conflicting: created(&corev1.Service{}, later)}, "False", later},
		{"waiting for an IP", ready, []member.Export{exportOf("b", exportedAt(2*later))}, localState{derived: created(derivedWith(v4), later)}, "False", later},
		{"family of the oldest export not supported", ready, []member.Export{exportOf("b", families(ipv6), exportedAt(2*later)), exportOf("c", exportedAt(3*later))},
			localState{derived: created(derivedWith(v4, "10.0.0.1"), later)}, "False", 2 * later},
		{"type of an older export", ready, []member.Export{exportOf("b", headless, exportedAt(before))}, localState{derived: created(derivedWith(v4, "10.0.0.1"), later)}, "False", later},
		{"first member unreachable", reachable, []member.Export{exportOf("b", in(clusterset.MemberLost), seen(2*later)), exportOf("c", in(clusterset.MemberStale), seen(later)), exportOf("d", seen(before))},
			localState{}, "False", later},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 2 { // whatever the order of the exports
				got := condition(newImport(web, identified, test.exports, test.local), test.condition)
				if want := metav1.NewTime(epoch.Add(test.want)); got.LastTransitionTime != want.Rfc3339Copy() || got.Status != test.status {
					t.Errorf("%s since %s, want %s since %s", got.Status, got.LastTransitionTime, test.status, want)
				}
				slices.Reverse(test.exports)
			}
		})
	}
}
