// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func TestOldestExportIsShownFirst(t *testing.T) {
	report := newExplanation(serviceFacts{exports: []clustersetv1alpha1.ExportedService{
		*newExported("young", time.Minute), *newExported("b", time.Hour), *newExported("a", time.Hour), *newExported("old", 2*time.Hour),
	}})
	var got []string
	for _, export := range report.Exports {
		got = append(got, export.Cluster)
	}
	if diff := cmp.Diff([]string{"old", "a", "b", "young"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfManyClustersThoseThatDifferAreShown(t *testing.T) {
	var facts serviceFacts
	for i := range maxColumns + 2 {
		facts.exports = append(facts.exports, *newExported(fmt.Sprintf("c%02d", i), time.Duration(100-i)*time.Hour))
	}
	headless(&facts.exports[maxColumns+1].Spec)
	shown, left := columns(newExplanation(facts))
	if diff := cmp.Diff([]string{"c00", "c09", "c01", "c02", "c03", "c04", "c05", "c06"}, shown); diff != "" || left != 2 {
		t.Errorf("%d left out: %s", left, diff)
	}
}

func TestNamesOfManyPodsDoNotFloodTheTerminal(t *testing.T) {
	slice := newSlice("east", discoveryv1.AddressTypeIPv4)
	for i := range 100 {
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.1.0.%d", i)}, Hostname: ptr.To(fmt.Sprintf("web-%d", i)),
		})
	}
	objects := []runtime.Object{local(), newExported("east", time.Hour, headless), slice, newImport(func(i *multiclusterxv1beta1.ServiceImport) {
		i.Spec.Type, i.Spec.IPs = multiclusterxv1beta1.Headless, nil
	})}
	text := explained(t, objects...)
	for _, want := range []string{"10.1.0.0, 10.1.0.1, 10.1.0.2 and 97 more\n", "  … and 82 more names: -o yaml prints all\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	report, err := explain(t.Context(), newCluster(objects...), "shop", "web")
	if err != nil || len(report.DNS) != 102 || len(report.DNS[0].Answers) != 100 {
		t.Errorf("%d records, error %v", len(report.DNS), err)
	}
}

func TestPodWhoseNameWouldBeTooLongHasNone(t *testing.T) {
	endpoint := discoveryv1.Endpoint{Hostname: ptr.To(strings.Repeat("h", 63))}
	if name := hostName(endpoint, strings.Repeat("c", 63), strings.Repeat("s", 63)+"."+strings.Repeat("n", 63)+".svc.clusterset.local"); name != "" {
		t.Errorf("name %q", name)
	}
}

func TestServiceWithoutPortsHasItsEndpointsCounted(t *testing.T) {
	portless := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports = nil }
	slice := newSlice("east", discoveryv1.AddressTypeIPv4, "10.1.0.1", "!10.1.0.2")
	slice.Spec.Ports = nil
	text := explained(t, local(), newExported("east", time.Hour, headless, portless), slice, newImport())
	if want := "  PORT   IP FAMILY   east\n  -      IPv4        1/2\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in:\n%s", want, text)
	}
}

// A cluster serves a port by protocol and number, under whatever name.
func TestEndpointsAreCountedForPortsOfAnotherName(t *testing.T) {
	renamed := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports[0].Name = "web" }
	slice := newSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1")
	slice.Spec.Ports[0].Name = ptr.To("web")
	text := explained(t, local(), newExported("east", time.Hour), newExported("west", time.Minute, renamed), slice, newImport())
	if want := "  http:80/TCP   IPv4        0/0    1/1\n"; !strings.Contains(text, want) {
		t.Errorf("no %q in:\n%s", want, text)
	}
}

func TestUseOfEndpointsOfMembersThatAreOutOfTouch(t *testing.T) {
	keep := func(status *clustersetv1alpha1.MemberStatus) { status.LostPolicy = clustersetv1alpha1.LostPolicyKeep }
	refused := condition("Accepted", metav1.ConditionFalse, "WrongClusterSet", "it claims another ClusterSet")
	for _, test := range []struct {
		name    string
		member  *clustersetv1alpha1.Member
		exports bool
		want    *outOfTouchReport
	}{
		{"local", local(), true, nil},
		{"connected", newMember("west", clustersetv1alpha1.MemberConnected), true, nil},
		{"lost, exports nothing", newMember("west", clustersetv1alpha1.MemberLost), false, nil},
		{"lost", newMember("west", clustersetv1alpha1.MemberLost, seen(time.Hour)), true,
			&outOfTouchReport{"west", "Lost", endpointsNotUsed, "last seen 2026-03-01T11:00:00Z; its endpoints are not used until it is back"}},
		{"lost and kept", newMember("west", clustersetv1alpha1.MemberLost, seen(time.Hour), keep), true,
			&outOfTouchReport{"west", "Lost", endpointsUsed, "last seen 2026-03-01T11:00:00Z; its endpoints stay in use, because its policy is Keep"}},
		{"stale", newMember("west", clustersetv1alpha1.MemberStale, seen(time.Minute)), true,
			&outOfTouchReport{"west", "Stale", endpointsUsed, "last seen 2026-03-01T11:59:00Z; its endpoints are used until it is lost, after 60 s of silence"}},
		{"stale and kept", newMember("west", clustersetv1alpha1.MemberStale, seen(time.Minute), keep), true,
			&outOfTouchReport{"west", "Stale", endpointsUsed, "last seen 2026-03-01T11:59:00Z; its endpoints are used"}},
		{"refused", newMember("west", clustersetv1alpha1.MemberRefused, refused), false,
			&outOfTouchReport{"west", "Refused", endpointsUnknown, "it is not known what it exports; WrongClusterSet: it claims another ClusterSet"}},
		{"connecting", newMember("west", clustersetv1alpha1.MemberConnecting), true,
			&outOfTouchReport{"west", "Connecting", endpointsUnknown, "it is not known whether it still exports the service; its endpoints are used as before"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, describeTouch(test.member, test.exports)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
