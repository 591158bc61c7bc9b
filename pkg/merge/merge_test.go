// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// exported returns an export of cluster-<age>. A higher number is younger.
func exported(age int, changes ...func(*Export)) Export {
	export := Export{
		Cluster: fmt.Sprintf("cluster-%d", age),
		Since:   epoch.Add(time.Duration(age) * time.Second),
		Spec: multicluster.ServiceImportSpec{
			Type:            multicluster.ClusterSetIP,
			Ports:           ports("http:80/TCP"),
			SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		},
	}
	for _, change := range changes {
		change(&export)
	}
	return export
}

// ports parses name:number/protocol(appProtocol); name and appProtocol are optional.
func ports(texts ...string) []multicluster.ServicePort {
	result := []multicluster.ServicePort{}
	for _, text := range texts {
		var port multicluster.ServicePort
		if before, app, found := strings.Cut(strings.TrimSuffix(text, ")"), "("); found {
			text, port.AppProtocol = before, ptr.To(app)
		}
		if name, rest, found := strings.Cut(text, ":"); found {
			port.Name, text = name, rest
		}
		number, protocol, _ := strings.Cut(text, "/")
		if _, err := fmt.Sscan(number, &port.Port); err != nil {
			panic(err)
		}
		port.Protocol = corev1.Protocol(protocol)
		result = append(result, port)
	}
	return result
}

func withPorts(texts ...string) func(*Export) {
	return func(e *Export) { e.Spec.Ports = ports(texts...) }
}

func reasons(result Result) string {
	var reasons []string
	for _, conflict := range result.Conflicts {
		reasons = append(reasons, conflict.Reason)
	}
	return strings.Join(reasons, ",")
}

// R3, R33: the result lists every exporting cluster once.
func TestEqualExportsMergeWithoutConflict(t *testing.T) {
	result := Merge([]Export{exported(2), exported(1), exported(3), exported(2)})
	if len(result.Conflicts) != 0 {
		t.Errorf("conflicts: %v", result.Conflicts)
	}
	if diff := cmp.Diff([]string{"cluster-1", "cluster-2", "cluster-3"}, result.Clusters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(exported(1).Spec, result.Spec); diff != "" {
		t.Error(diff)
	}
}

// R52: the oldest export takes precedence; of two that took effect at the same time,
// the one that was created first, and then the one of the cluster with the lower ID.
func TestOldestExportTakesPrecedenceAndTiesGoToTheLowerID(t *testing.T) {
	headless := func(e *Export) { e.Spec.Type = multicluster.Headless }
	sameAge := func(e *Export) { e.Since = epoch }
	for _, test := range []struct {
		name    string
		exports []Export
		want    multicluster.ServiceImportType
	}{
		{"older first", []Export{exported(1, headless), exported(2)}, multicluster.Headless},
		{"older last", []Export{exported(2), exported(1, headless)}, multicluster.Headless},
		{"created first", []Export{exported(2, headless, sameAge), exported(1, sameAge, func(e *Export) { e.Created = epoch })}, multicluster.Headless},
		{"equally old", []Export{exported(2, headless, sameAge), exported(1, sameAge)}, multicluster.ClusterSetIP},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Merge(test.exports).Spec.Type; got != test.want {
				t.Errorf("the type is %s, want %s", got, test.want)
			}
		})
	}
}

// R51, R61, R62: each property follows the oldest export and has its own reason.
func TestPropertyFollowsTheOldestExport(t *testing.T) {
	timeout := func(seconds int32) func(*Export) {
		return func(e *Export) {
			e.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			e.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(seconds)}}
		}
	}
	for _, test := range []struct {
		name, reasons, message string
		oldest, later          func(*Export)
		// get returns the value that must be equal in the result and in the oldest export.
		get func(multicluster.ServiceImportSpec) any
	}{
		{
			name: "type", reasons: "TypeConflict", message: `Conflicting type. Using "Headless" from oldest service export in "cluster-1". 1/2 clusters disagree.`,
			oldest: func(e *Export) { e.Spec.Type = multicluster.Headless }, later: func(*Export) {},
			get: func(s multicluster.ServiceImportSpec) any { return s.Type },
		},
		{
			name: "session affinity", reasons: "SessionAffinityConflict", message: `Conflicting session affinity. Using "None" from oldest service export in "cluster-1".`,
			oldest: func(*Export) {}, later: func(e *Export) { e.Spec.SessionAffinity = corev1.ServiceAffinityClientIP },
			get: func(s multicluster.ServiceImportSpec) any { return s.SessionAffinity },
		},
		{
			name: "session affinity config", reasons: "SessionAffinityConfigConflict", message: `Using "timeout 10 s" from`,
			oldest: timeout(10), later: timeout(20),
			get: func(s multicluster.ServiceImportSpec) any { return s.SessionAffinityConfig },
		},
		{
			name: "internal traffic policy", reasons: "InternalTrafficPolicyConflict", message: `Using "Local" from`,
			oldest: func(e *Export) { e.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal) },
			later:  func(e *Export) { e.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster) },
			get:    func(s multicluster.ServiceImportSpec) any { return s.InternalTrafficPolicy },
		},
		{
			name: "traffic distribution", reasons: "TrafficDistributionConflict", message: `Using "" from`,
			oldest: func(*Export) {}, later: func(e *Export) { e.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameZone) },
			get: func(s multicluster.ServiceImportSpec) any { return s.TrafficDistribution },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			oldest := exported(1, test.oldest)
			result := Merge([]Export{exported(2, test.later), oldest})
			if reasons(result) != test.reasons {
				t.Fatalf("reasons %q, want %q", reasons(result), test.reasons)
			}
			if !strings.Contains(result.Conflicts[0].Message, test.message) {
				t.Errorf("message %q, want %q in it", result.Conflicts[0].Message, test.message)
			}
			if diff := cmp.Diff(test.get(oldest.Spec), test.get(result.Spec)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// R608: the preference of the oldest export is used, and differences have a reason of their own.
func TestClusterPreferenceFollowsTheOldestExport(t *testing.T) {
	preferring := func(minReady int32, tiers ...clusterpreference.Tier) func(*Export) {
		return func(e *Export) { e.Preference = clusterpreference.Preference{Tiers: tiers, MinReady: minReady} }
	}
	for _, test := range []struct {
		name          string
		oldest, later func(*Export)
		message       string
	}{
		{"the same", preferring(1, "cluster"), preferring(1, "cluster"), ""},
		{"the default minimum", preferring(0, "cluster"), preferring(1, "cluster"), ""},
		{"a minimum without tiers", preferring(0), preferring(7), ""},
		{"none, and some", preferring(0), preferring(1, "cluster"), `Conflicting cluster preference. Using "" from oldest service export in "cluster-1". 1/2 clusters disagree.`},
		{"some, and none", preferring(1, "cluster", "property:region"), preferring(0), `Using "cluster,property:region" from oldest`},
		{"another order", preferring(1, "cluster", "property:region"), preferring(1, "property:region", "cluster"), `Using "cluster,property:region" from oldest`},
		{"another minimum", preferring(2, "cluster"), preferring(1, "cluster"), `Using "cluster (at least 2 ready)" from oldest`},
	} {
		t.Run(test.name, func(t *testing.T) {
			oldest := exported(1, test.oldest)
			result := Merge([]Export{exported(2, test.later), oldest})
			if diff := cmp.Diff(normalize(oldest).Preference, result.Preference); diff != "" {
				t.Error(diff)
			}
			switch {
			case test.message == "" && len(result.Conflicts) > 0:
				t.Errorf("got conflicts %v", result.Conflicts)
			case test.message != "" && (reasons(result) != "ClusterPreferenceConflict" || !strings.Contains(result.Conflicts[0].Message, test.message)):
				t.Errorf("got conflicts %v, want %q", result.Conflicts, test.message)
			}
		})
	}
}

// R62: the whole set of the oldest export is used, without mixing keys.
func TestLabelsAndAnnotationsAreNotMixed(t *testing.T) {
	oldest := exported(1, func(e *Export) {
		e.Labels, e.Annotations = map[string]string{"a": "1"}, map[string]string{"x": "1"}
	})
	later := exported(2, func(e *Export) {
		e.Labels, e.Annotations = map[string]string{"b": "2"}, map[string]string{"x": "1", "y": "2"}
	})
	result := Merge([]Export{later, oldest})
	if diff := cmp.Diff(oldest.Labels, result.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(oldest.Annotations, result.Annotations); diff != "" {
		t.Error(diff)
	}
	if reasons(result) != "LabelsConflict,AnnotationsConflict" {
		t.Errorf("reasons %q", reasons(result))
	}
}

// R14: reserved keys are removed and are not a conflict.
func TestReservedKeysAreRemoved(t *testing.T) {
	forged := exported(1, func(e *Export) {
		e.Labels = map[string]string{"a": "1", "multicluster.kubernetes.io/source-cluster": "forged"}
		e.Annotations = map[string]string{"clusterset.mcs-apiserver.io/x": "forged"}
	})
	honest := exported(2, func(e *Export) { e.Labels = map[string]string{"a": "1"} })
	result := Merge([]Export{forged, honest})
	if len(result.Conflicts) != 0 || len(result.Annotations) != 0 || len(result.Labels) != 1 {
		t.Errorf("labels %v, annotations %v, conflicts %v", result.Labels, result.Annotations, result.Conflicts)
	}
	if len(forged.Labels) != 2 {
		t.Error("Merge modified its input")
	}
}

// R53, R54: the IP families are those of the oldest export; a later export that
// lacks one is a conflict.
func TestIPFamiliesAreTheOldestExports(t *testing.T) {
	families := func(families ...corev1.IPFamily) func(*Export) {
		return func(e *Export) { e.Spec.IPFamilies = families }
	}
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for _, test := range []struct {
		name          string
		oldest, later []corev1.IPFamily
		conflict      string
	}{
		{"the later lacks one", []corev1.IPFamily{v4, v6}, []corev1.IPFamily{v4}, "IPFamilyConflict"},
		{"nothing in common", []corev1.IPFamily{v4}, []corev1.IPFamily{v6}, "IPFamilyConflict"},
		{"the later has more", []corev1.IPFamily{v4}, []corev1.IPFamily{v6, v4}, ""},
		{"another order", []corev1.IPFamily{v6, v4}, []corev1.IPFamily{v4, v6}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := Merge([]Export{exported(2, families(test.later...)), exported(1, families(test.oldest...))})
			if diff := cmp.Diff(test.oldest, result.Spec.IPFamilies); diff != "" {
				t.Error(diff)
			}
			if reasons(result) != test.conflict {
				t.Errorf("reasons %q, want %q", reasons(result), test.conflict)
			}
		})
	}
	if got := SupportedFamilies([]corev1.IPFamily{v6, v4}, []corev1.IPFamily{v4}); !cmp.Equal(got, []corev1.IPFamily{v4}) {
		t.Errorf("an IPv4 cluster supports %v", got)
	}
	if got := SupportedFamilies([]corev1.IPFamily{v6}, []corev1.IPFamily{v4}); len(got) != 0 {
		t.Errorf("an IPv4 cluster supports %v", got)
	}
}

// R56 to R59, R122: ports.
func TestPorts(t *testing.T) {
	for _, test := range []struct {
		name          string
		oldest, later []string
		want          []string
		conflict      bool
	}{
		{name: "the same in another order", oldest: []string{"a:1/TCP", "b:2/UDP"}, later: []string{"b:2/UDP", "a:1/TCP"}, want: []string{"a:1/TCP", "b:2/UDP"}},
		{name: "union", oldest: []string{"a:1/TCP"}, later: []string{"b:2/TCP"}, want: []string{"a:1/TCP", "b:2/TCP"}, conflict: true},
		{name: "a subset is a conflict too", oldest: []string{"a:1/TCP", "b:2/TCP"}, later: []string{"a:1/TCP"}, want: []string{"a:1/TCP", "b:2/TCP"}, conflict: true},
		{name: "same name, other number", oldest: []string{"a:1/TCP"}, later: []string{"a:2/TCP"}, want: []string{"a:1/TCP"}, conflict: true},
		{name: "same number, other name", oldest: []string{"a:1/TCP"}, later: []string{"b:1/TCP"}, want: []string{"a:1/TCP"}, conflict: true},
		{name: "same number, other protocol", oldest: []string{"a:1/TCP"}, later: []string{"b:1/UDP"}, want: []string{"a:1/TCP", "b:1/UDP"}, conflict: true},
		{name: "other appProtocol", oldest: []string{"a:1/TCP(http)"}, later: []string{"a:1/TCP(grpc)"}, want: []string{"a:1/TCP(http)"}, conflict: true},
		{name: "appProtocol on one only", oldest: []string{"a:1/TCP"}, later: []string{"a:1/TCP(grpc)"}, want: []string{"a:1/TCP"}, conflict: true},
		{name: "no protocol is TCP", oldest: []string{"a:1/"}, later: []string{"a:1/TCP"}, want: []string{"a:1/TCP"}},
		{name: "SCTP", oldest: []string{"a:1/SCTP"}, later: []string{"a:1/SCTP"}, want: []string{"a:1/SCTP"}},
		{name: "one without a name", oldest: []string{"1/TCP"}, later: []string{"1/TCP"}, want: []string{"1/TCP"}},
		{name: "two without a name", oldest: []string{"1/TCP"}, later: []string{"2/TCP"}, want: []string{"1/TCP"}, conflict: true},
		{name: "one without a name among several", oldest: []string{"1/TCP"}, later: []string{"b:2/TCP"}, want: []string{"tcp-1:1/TCP", "b:2/TCP"}, conflict: true},
		{name: "its new name is taken", oldest: []string{"1/UDP"}, later: []string{"udp-1:2/UDP"}, want: []string{"udp-1-2:1/UDP", "udp-1:2/UDP"}, conflict: true},
		{name: "no ports", want: []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := Merge([]Export{exported(2, withPorts(test.later...)), exported(1, withPorts(test.oldest...))})
			if diff := cmp.Diff(ports(test.want...), result.Spec.Ports); diff != "" {
				t.Error(diff)
			}
			if got := reasons(result) == "PortConflict"; got != test.conflict {
				t.Errorf("reasons %q, want a conflict: %v", reasons(result), test.conflict)
			}
		})
	}
}

// R60: a cluster serves a port regardless of the name that it has there.
func TestClusterServesPortsByProtocolAndNumber(t *testing.T) {
	exported := []clustersetv1alpha1.ServicePort{{Name: "web", Port: 80}, {Name: "dns", Protocol: "UDP", Port: 53}, {Name: "metrics", Protocol: "TCP", Port: 9090}}
	endpoints := []discoveryv1.EndpointPort{{Name: ptr.To("dns"), Port: ptr.To[int32](5353)}, {Name: ptr.To("web"), Port: ptr.To[int32](8080)}, {Name: ptr.To("metrics")}}
	for text, want := range map[string]struct {
		serving string
		target  int32
	}{
		"http:80/TCP":      {"web", 8080},
		"http:80/":         {"web", 8080},
		"dns:53/UDP":       {"dns", 5353},
		"dns:53/TCP":       {},
		"web:8080/TCP":     {},
		"metrics:9090/TCP": {"metrics", 0}, // its endpoint port has no number
	} {
		port := ports(text)[0]
		serving := ""
		if found := ServingPort(exported, port.Protocol, port.Port); found != nil {
			serving = found.Name
		}
		if serving != want.serving {
			t.Errorf("%s is served by port %q, want %q", text, serving, want.serving)
		}
		if target, ok := TargetPort(exported, endpoints, port.Protocol, port.Port); target != want.target || ok != (want.target != 0) {
			t.Errorf("%s leads to endpoint port %d (%v), want %d", text, target, ok, want.target)
		}
	}
}

func TestUnnamedPortsLeadToUnnamedEndpointPorts(t *testing.T) {
	exported := []clustersetv1alpha1.ServicePort{{Port: 80}}
	for _, name := range []*string{nil, ptr.To("")} {
		target, ok := TargetPort(exported, []discoveryv1.EndpointPort{{Name: name, Port: ptr.To[int32](8080)}}, "", 80)
		if target != 8080 || !ok {
			t.Errorf("got endpoint port %d (%v), want 8080", target, ok)
		}
	}
}

// R51: every conflict is reported with the number of clusters that disagree.
func TestAllConflictsAreReported(t *testing.T) {
	different := func(e *Export) {
		e.Spec.Type = multicluster.Headless
		e.Spec.Ports = ports("http:8080/TCP")
		e.Labels = map[string]string{"a": "b"}
	}
	result := Merge([]Export{exported(1), exported(2, different), exported(3), exported(4, different), exported(5)})
	if reasons(result) != "TypeConflict,PortConflict,LabelsConflict" {
		t.Errorf("reasons %q", reasons(result))
	}
	want := `Conflicting type. Using "ClusterSetIP" from oldest service export in "cluster-1". 2/5 clusters disagree.`
	if result.Conflicts[0].Message != want {
		t.Errorf("message %q, want %q", result.Conflicts[0].Message, want)
	}
	want = `Conflicting ports. Using "http:80/TCP", preferring those of the oldest service export in "cluster-1". 2/5 clusters disagree.`
	if result.Conflicts[1].Message != want {
		t.Errorf("message %q, want %q", result.Conflicts[1].Message, want)
	}
}

// R131, R132: the decision about the shared ClusterSet IP stands after the
// deciding cluster has withdrawn its export, and the message says until when.
func TestIPConflictNamesTheDecidingCluster(t *testing.T) {
	decided := &clustersetip.Decision{IPs: []string{"243.1.0.1"}, DecidedBy: "gone"}
	asking := func(wants bool) func(*Export) {
		return func(e *Export) { e.IP = clustersetip.Export{Cluster: e.Cluster, Wants: wants, Decision: decided} }
	}
	result := Merge([]Export{exported(1, asking(false)), exported(2, asking(true))})
	want := `Conflicting use of a shared ClusterSet IP. Using "true", decided by "gone" with the founding export, ` +
		`until all exports of the Service are deleted. 1/2 clusters disagree.`
	if reasons(result) != "ClusterSetIPConflict" || result.Conflicts[0].Message != want {
		t.Errorf("conflicts %+v, want %q", result.Conflicts, want)
	}
}

// R246: a decision that contradicts the one in force is reported, and what to do about it.
func TestContradictingDecisionIsAConflict(t *testing.T) {
	recorded := func(ip string) func(*Export) {
		return func(e *Export) {
			e.IP = clustersetip.Export{Cluster: e.Cluster, Wants: true, Decision: clustersetip.NewDecision(e.Cluster, []string{ip}, e.Since)}
		}
	}
	exports := []Export{exported(1, recorded("243.9.0.1")), exported(2, recorded("243.1.0.1"))}
	result := MergeIn(clustersetip.Local{Cluster: exports[1].Cluster, Now: exports[1].Since.Add(time.Hour)}, exports)
	want := `Conflicting decisions about the shared ClusterSet IP. Using "243.1.0.1", decided by "cluster-2", in this cluster; clusters with another decision: cluster-1. ` +
		"Delete and create the ServiceExport again in those whose decision should be given up."
	if reasons(result) != "ClusterSetIPDecisionConflict" || result.Conflicts[0].Message != want {
		t.Errorf("conflicts %+v, want %q", result.Conflicts, want)
	}
}

// R631: clusters that see different exports of a service decide the same about the shared ClusterSet IP, as what
// only some of them see takes no part, whatever it says.
func TestExportsToSomeClustersTakeNoPartInTheSharedIP(t *testing.T) {
	asking := func(ip string) func(*clusterset.ExportedServiceSpec) {
		return func(spec *clusterset.ExportedServiceSpec) {
			spec.UseClusterSetIP = true
			spec.ClusterSetIP = clustersetip.NewDecision(spec.Cluster, []string{ip}, spec.ExportedAt.Time)
		}
	}
	export := func(age int, audience *clusterset.Audience, changes ...func(*clusterset.ExportedServiceSpec)) Export {
		spec := clusterset.ExportedServiceSpec{Cluster: fmt.Sprintf("cluster-%d", age), Type: clusterset.ClusterSetIP, Audience: audience, ExportedAt: metav1.NewTime(exported(age).Since)}
		spec.EffectiveAt = spec.ExportedAt
		for _, change := range changes {
			change(&spec)
		}
		return FromExported(&clusterset.ExportedService{Spec: spec})
	}
	chosen := clusterset.NewAudience("cluster-9")
	for _, test := range []struct {
		name    string
		exports []Export
		want    []string
	}{
		{"for all", []Export{export(2, nil, asking("243.2.0.1"))}, []string{"243.2.0.1"}},
		{"older one for some", []Export{export(1, chosen), export(2, nil, asking("243.2.0.1"))}, []string{"243.2.0.1"}},
		{"older one for some, with an address", []Export{export(1, chosen, asking("243.1.0.1")), export(2, nil, asking("243.2.0.1"))}, []string{"243.2.0.1"}},
		{"younger one for some", []Export{export(3, chosen, asking("243.3.0.1")), export(2, nil, asking("243.2.0.1"))}, []string{"243.2.0.1"}},
		{"only for some", []Export{export(1, chosen, asking("243.1.0.1")), export(2, chosen)}, nil},
	} {
		result := Merge(test.exports)
		if result.IP == nil || !slices.Equal(result.IP.IPs, test.want) || len(result.Conflicts) > 0 {
			t.Errorf("%s: got %+v and conflicts %v, want %v", test.name, result.IP, result.Conflicts, test.want)
		}
	}
}

// R55, R119: the conflict ends when the conflicting export is withdrawn.
func TestConflictEndsWithItsCause(t *testing.T) {
	headless := exported(1, func(e *Export) { e.Spec.Type = multicluster.Headless })
	if result := Merge([]Export{headless, exported(2), exported(3)}); reasons(result) != "TypeConflict" {
		t.Fatalf("reasons %q", reasons(result))
	}
	result := Merge([]Export{exported(2), exported(3)})
	if len(result.Conflicts) != 0 || result.Spec.Type != multicluster.ClusterSetIP {
		t.Errorf("type %s, conflicts %v", result.Spec.Type, result.Conflicts)
	}
}
