// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func TestExportsAreSortedByPrecedence(t *testing.T) {
	report := New(Facts{Exports: []clustersetv1alpha1.ExportedService{
		*clustertest.NewExported("young", time.Minute), *clustertest.NewExported("b", time.Hour), *clustertest.NewExported("a", time.Hour), *clustertest.NewExported("old", 2*time.Hour),
	}})
	var got []string
	for _, export := range report.Exports {
		got = append(got, export.Cluster)
	}
	if diff := cmp.Diff([]string{"old", "a", "b", "young"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestClustersThatDifferAreShownFirst(t *testing.T) {
	var facts Facts
	for i := range maxColumns + 2 {
		facts.Exports = append(facts.Exports, *clustertest.NewExported(fmt.Sprintf("c%02d", i), time.Duration(100-i)*time.Hour))
	}
	clustertest.Headless(&facts.Exports[maxColumns+1].Spec)
	shown, left := columns(New(facts))
	if diff := cmp.Diff([]string{"c00", "c09", "c01", "c02", "c03", "c04", "c05", "c06"}, shown); diff != "" || left != 2 {
		t.Errorf("%d clusters omitted (-want +got):\n%s", left, diff)
	}
}

func TestLongListsAreTruncatedInText(t *testing.T) {
	slice := clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4)
	for i := range 100 {
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.1.0.%d", i)}, Hostname: ptr.To(fmt.Sprintf("web-%d", i)),
		})
	}
	objects := []runtime.Object{clustertest.Local(), clustertest.NewExported("east", time.Hour, clustertest.Headless), slice, clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Spec.Type, i.Spec.IPs = multiclusterxv1beta1.Headless, nil
	})}
	text := explained(t, objects...)
	for _, want := range []string{"10.1.0.0, 10.1.0.1, 10.1.0.2 and 97 more\n", "  ... and 82 more names (use -o yaml to print all)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	report, err := explain(t.Context(), clustertest.NewCluster(objects...), "shop", "web")
	if err != nil || len(report.DNS) != 102 || len(report.DNS[0].Answers) != 100 {
		t.Errorf("got %d records and error %v", len(report.DNS), err)
	}
}

func TestPodWithATooLongNameHasNoRecord(t *testing.T) {
	endpoint := discoveryv1.Endpoint{Hostname: ptr.To(strings.Repeat("h", 63))}
	if name := hostName(endpoint, strings.Repeat("c", 63), strings.Repeat("s", 63)+"."+strings.Repeat("n", 63)+".svc.clusterset.local"); name != "" {
		t.Errorf("got name %q", name)
	}
}

func TestEndpointsOfServiceWithoutPorts(t *testing.T) {
	portless := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports = nil }
	slice := clustertest.NewSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1", "!10.1.0.2")
	slice.Spec.Ports = nil
	text := explained(t, clustertest.Local(), clustertest.NewExported("east", time.Hour, clustertest.Headless, portless), slice, clustertest.NewImport())
	if want := "  PORT   IP FAMILY   east\n  -      IPv4        1/2\n"; !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
}

// A cluster serves a port by protocol and number, independent of its name.
func TestEndpointsOfPortsWithDifferentNames(t *testing.T) {
	renamed := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports[0].Name = "web" }
	slice := clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1")
	slice.Spec.Ports[0].Name = ptr.To("web")
	text := explained(t, clustertest.Local(), clustertest.NewExported("east", time.Hour), clustertest.NewExported("west", time.Minute, renamed), slice, clustertest.NewImport())
	if want := "  http:80/TCP   IPv4        0/0    1/1\n"; !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
}

// R612
func TestActiveTierIsExplained(t *testing.T) {
	objects := []runtime.Object{clustertest.Local(), clustertest.NewExported("east", time.Hour), clustertest.NewImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Annotations = map[string]string{
			multicluster.ClusterPreferenceAnnotation: "cluster,property:region", multicluster.PreferenceMinReadyAnnotation: "2",
			multicluster.ActiveTierAnnotation: "all", multicluster.ActiveTierReasonAnnotation: "too few endpoints",
		}
	})}
	text := explained(t, objects...)
	if want := "  Preferred clusters: cluster,property:region; a tier needs 2 ready endpoints\n  Active tier: all: too few endpoints\n"; !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
	report, err := explain(t.Context(), clustertest.NewCluster(objects...), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	want := &importReport{ClusterPreference: []clusterpreference.Tier{"cluster", "property:region"}, MinReady: 2, ActiveTier: "all", ActiveTierReason: "too few endpoints"}
	got := &importReport{ClusterPreference: report.Import.ClusterPreference, MinReady: report.Import.MinReady, ActiveTier: report.Import.ActiveTier, ActiveTierReason: report.Import.ActiveTierReason}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// R632
func TestExportsToChosenClustersAreExplained(t *testing.T) {
	restricted := func(clusters ...string) func(*clustersetv1alpha1.ExportedServiceSpec) {
		return func(spec *clustersetv1alpha1.ExportedServiceSpec) {
			spec.Audience = &clustersetv1alpha1.Audience{Clusters: clusters}
		}
	}
	text := explained(t, clustertest.Local(), clustertest.NewExported("east", time.Hour, restricted()), clustertest.NewExported("west", time.Minute, restricted("east", "north")), clustertest.NewImport())
	for _, want := range []string{"\n  east exports to no other cluster\n", "\n  west exports to east, north only\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

// R632: an export that is for no other cluster is not taken for one that is for all.
func TestExportToNoOtherClusterIsAnEmptyList(t *testing.T) {
	objects := []runtime.Object{clustertest.Local(), clustertest.NewExported("east", time.Hour, func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.Audience = &clustersetv1alpha1.Audience{}
	})}
	report, err := explain(t.Context(), clustertest.NewCluster(objects...), "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	if encoded, err := json.Marshal(report.Exports); err != nil || !strings.Contains(string(encoded), `"exportedTo":[]`) {
		t.Errorf("got %s, %v", encoded, err)
	}
}

// R632: the namespace says from which clusters it imports, and from which it does not, with an import and without
// any export.
func TestNamespacesThatDoNotImportFromAllAreExplained(t *testing.T) {
	small := func(status *clustersetv1alpha1.MemberStatus) {
		status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "size", Value: "small"}}
	}
	for _, test := range []struct {
		name        string
		annotations map[string]string
		want        string
	}{
		{"all", nil, ""},
		{"unknown value", map[string]string{clusterset.ImportAnnotation: "enabled"}, ""},
		{"none", map[string]string{clusterset.ImportAnnotation: "disabled"}, `Namespace "shop" imports from no other cluster, because of its annotation clusterset.mcs-apiserver.io/import=disabled`},
		{"none takes precedence", map[string]string{clusterset.ImportAnnotation: "disabled", clusterset.ImportFromAnnotation: "west"},
			`Namespace "shop" imports from no other cluster, because of its annotation clusterset.mcs-apiserver.io/import=disabled`},
		{"some", map[string]string{clusterset.ImportFromAnnotation: "west, size=small"},
			`Namespace "shop" imports from west,size=small only, because of its annotation clusterset.mcs-apiserver.io/import-from; what south may export is not imported`},
		{"some, which are all", map[string]string{clusterset.ImportFromAnnotation: "west,north,south"},
			`Namespace "shop" imports from west,north,south only, because of its annotation clusterset.mcs-apiserver.io/import-from`},
		{"invalid", map[string]string{clusterset.ImportFromAnnotation: "west,,size="},
			`Namespace "shop" imports from no other cluster, because its annotation clusterset.mcs-apiserver.io/import-from is not valid: has an empty term; remove the superfluous comma; "size=" has no value; write it directly after the equals sign`},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []runtime.Object{
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: test.annotations}}, clustertest.Local(),
				clustertest.NewMember("west", clustersetv1alpha1.MemberConnected), clustertest.NewMember("north", clustersetv1alpha1.MemberConnected, small), clustertest.NewMember("south", clustersetv1alpha1.MemberConnected),
			}
			_, err := explain(t.Context(), clustertest.NewCluster(objects...), "shop", "web")
			text := explained(t, append(objects, clustertest.NewExported("east", time.Hour), clustertest.NewImport())...)
			if test.want == "" {
				if strings.Contains(text, "Namespace") || strings.Contains(err.Error(), "Namespace") {
					t.Errorf("got %v and\n%s", err, text)
				}
				return
			}
			expect.Error(t, err, "\n  "+test.want+".\n")
			if !strings.Contains(text, "\n  "+test.want+"\n") {
				t.Errorf("%q is missing in:\n%s", test.want, text)
			}
		})
	}
}

// Users who may not read namespaces get everything else.
func TestExplainWithoutPermissionToReadNamespaces(t *testing.T) {
	c := clustertest.NewCluster(clustertest.Local(), clustertest.NewExported("east", time.Hour), clustertest.NewImport())
	c.Kubernetes.(*kubernetesfake.Clientset).PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), "shop", nil)
	})
	if report, err := explain(t.Context(), c, "shop", "web"); err != nil || report.Limit != nil {
		t.Errorf("got %+v, %v", report.Limit, err)
	}
}

func TestDisconnectedMembers(t *testing.T) {
	keep := func(status *clustersetv1alpha1.MemberStatus) { status.LostPolicy = clustersetv1alpha1.LostPolicyKeep }
	keepLast := func(status *clustersetv1alpha1.MemberStatus) {
		status.LostPolicy = clustersetv1alpha1.LostPolicyKeepLast
	}
	expired := func(status *clustersetv1alpha1.MemberStatus) { status.Expired = true }
	answers := clustertest.Condition("EndpointsReachable", metav1.ConditionTrue, "EndpointsAnswer", "endpoints of 1 services answer")
	refused := clustertest.Condition("Accepted", metav1.ConditionFalse, "WrongClusterSet", "cluster is in another ClusterSet")
	for _, test := range []struct {
		name    string
		member  *clustersetv1alpha1.Member
		exports bool
		want    *disconnectedReport
	}{
		{"local", clustertest.Local(), true, nil},
		{"connected", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected), true, nil},
		{"lost, exports nothing", clustertest.NewMember("west", clustersetv1alpha1.MemberLost), false, nil},
		{"lost", clustertest.NewMember("west", clustersetv1alpha1.MemberLost, clustertest.Seen(time.Hour)), true,
			&disconnectedReport{"west", "Lost", endpointsNotUsed, "last seen 2026-03-01T11:00:00Z; its endpoints are withdrawn until it is connected again"}},
		{"lost and kept", clustertest.NewMember("west", clustersetv1alpha1.MemberLost, clustertest.Seen(time.Hour), keep), true,
			&disconnectedReport{"west", "Lost", endpointsUsed, "last seen 2026-03-01T11:00:00Z; its endpoints are kept, because its lost policy is Keep"}},
		{"stale", clustertest.NewMember("west", clustersetv1alpha1.MemberStale, clustertest.Seen(time.Minute)), true,
			&disconnectedReport{"west", "Stale", endpointsUsed, "last seen 2026-03-01T11:59:00Z; its endpoints are withdrawn if neither it nor they answer within its TTL of 60 s"}},
		{"unavailable", clustertest.NewMember("west", clustersetv1alpha1.MemberUnavailable, clustertest.Seen(time.Minute)), true,
			&disconnectedReport{"west", "Unavailable", endpointsUsed, "last seen 2026-03-01T11:59:00Z; its endpoints are withdrawn if neither it nor they answer within its TTL of 60 s"}},
		// R307
		{"some answer", clustertest.NewMember("west", clustersetv1alpha1.MemberStale, clustertest.Seen(time.Minute), expired, answers), true,
			&disconnectedReport{"west", "Stale", endpointsUnknown, "last seen 2026-03-01T11:59:00Z; its endpoints are used if they answer; the condition MembersReachable of the ServiceImport says so of this service; endpoints of 1 services answer"}},
		{"lost, last", clustertest.NewMember("west", clustersetv1alpha1.MemberLost, clustertest.Seen(time.Hour), keepLast), true,
			&disconnectedReport{"west", "Lost", endpointsUsed, "last seen 2026-03-01T11:00:00Z; its endpoints are kept only if the service has no other ready ones, because its lost policy is KeepLast"}},
		{"stale and kept", clustertest.NewMember("west", clustersetv1alpha1.MemberStale, clustertest.Seen(time.Minute), keep), true,
			&disconnectedReport{"west", "Stale", endpointsUsed, "last seen 2026-03-01T11:59:00Z; its endpoints are used"}},
		{"refused", clustertest.NewMember("west", clustersetv1alpha1.MemberRefused, refused), false,
			&disconnectedReport{"west", "Refused", endpointsUnknown, "its exports are unknown; WrongClusterSet: cluster is in another ClusterSet"}},
		{"connecting", clustertest.NewMember("west", clustersetv1alpha1.MemberConnecting), true,
			&disconnectedReport{"west", "Connecting", endpointsUnknown, "its exports may be outdated; its known endpoints are used"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, describeMember(test.member, test.exports)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
