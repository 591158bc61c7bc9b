// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

func TestNamesOfDocuments(t *testing.T) {
	long := strings.Repeat("c", validation.DNS1123LabelMaxLength)
	for want, document := range map[string]document{
		"contact.b":             {member: "b", contact: true},
		"services.b":            {member: "b"},
		"services-0110.b":       {member: "b", prefix: "0110"},
		"services-0.services":   {member: "services", prefix: "0"},
		"contact.contact":       {member: "contact", contact: true},
		"services-1." + long:    {member: long, prefix: "1"},
		"services-01.member-01": {member: "member-01", prefix: "01"},
	} {
		if got := document.String(); got != want || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, ok := parseName(want); !ok || got != document {
			t.Errorf("%q is parsed as %+v, %t", want, got, ok)
		}
	}
	for _, name := range []string{"", "contact", "contact.", "contact.a.b", "services-2.b", "services-.b", "other.b", "services-" + strings.Repeat("0", maxDepth+1) + ".b"} {
		if got, ok := parseName(name); ok {
			t.Errorf("%q is parsed as %+v", name, got)
		}
	}
}

// What was recalled is encoded as it was stored, so that it is not written again.
func TestEncodingIsStable(t *testing.T) {
	_, plain := service(t, "b", "plain")
	_, full := service(t, "b", "full")
	full.Spec.SessionAffinity, full.Spec.TrafficDistribution = corev1.ServiceAffinityClientIP, ptr.To("PreferClose")
	full.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](5)}}
	full.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	full.Spec.ExportedLabels, full.Spec.ExportedAnnotations = map[string]string{"b": "2", "a": "1"}, map[string]string{"y": "2", "x": "1"}
	full.Spec.UseClusterSetIP, full.Spec.Path = true, []string{"b"}
	full.Spec.ClusterPreference, full.Spec.PreferenceMinReady = []string{"cluster", "property:region"}, 2
	full.Spec.ClusterSetIP = &clusterset.ClusterSetIPDecision{IPs: []string{"243.0.0.1"}, DecidedBy: "b", Since: metav1.NewTime(membertest.Epoch)}
	full.Spec.EffectiveAt = metav1.NewTime(membertest.Epoch.In(time.FixedZone("here", 3600)))
	first, err := encodeServices("uid", []*clusterset.ExportedService{full, plain})
	membertest.Must(t, err)
	uid, objects, err := decodeServices(first)
	membertest.Must(t, err)
	var services []*clusterset.ExportedService
	for _, object := range objects {
		services = append(services, object.Object.(*clusterset.ExportedService))
	}
	if diff := cmp.Diff([]*clusterset.ExportedService{full, plain}, services); diff != "" || uid != "uid" {
		t.Errorf("UID %s, want (-), got (+): %s", uid, diff)
	}
	second, err := encodeServices("uid", services)
	membertest.Must(t, err)
	if !bytes.Equal(first, second) {
		t.Error("the encoding changed")
	}
}

// Of the entries of a hub only what lasts is remembered: a hub sees its members
// all the time.
func TestEntriesOfAHubAreRemembered(t *testing.T) {
	seen := metav1.NewTime(membertest.Epoch)
	entries := func(change func(*clustersetv1alpha1.MemberStatus)) map[string]*clusterset.Member {
		entry := membertest.RelayedEntry("x", func(s *clustersetv1alpha1.MemberStatus) {
			s.ClusterSetIPCIDRs, s.IDClaimedAt, s.LostPolicy, s.Path = []string{"243.2.0.0/16"}, &seen, "Keep", []string{"x", "g"}
		}, change)
		read, err := response.Members(&clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{entry}})
		membertest.Must(t, err)
		return read.Members
	}
	volatile := func(s *clustersetv1alpha1.MemberStatus) {
		s.LastSeen, s.Exports, s.Endpoints, s.Synced, s.TTLSeconds, s.ClusterSetIPRanges = &seen, 3, 4, true, 60, []string{"243.0.0.0/8"}
		s.Conditions = []metav1.Condition{{Type: "Reachable"}, {Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse, Reason: "Overlaps"}}
	}
	lasting := Contact{Relayed: entries(func(s *clustersetv1alpha1.MemberStatus) { s.Synced, s.Peers = false, nil })}
	contact := Contact{Relayed: entries(volatile)}.lasting()
	if !contact.equal(lasting) {
		t.Errorf("want (-), got (+): %s", cmp.Diff(lasting, contact))
	}
	data, err := encodeContact(recorded{"uid-h", contact, nil})
	membertest.Must(t, err)
	decoded, err := decodeContact(data)
	membertest.Must(t, err)
	if !decoded.equal(lasting) {
		t.Errorf("want (-), got (+): %s", cmp.Diff(lasting, decoded.Contact))
	}
	lost := Contact{Relayed: entries(func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = nil })}.lasting()
	if contact.equal(lost) {
		t.Error("a change of the allocation CIDRs is not noticed")
	}
}

// R278: it is remembered that a hub refuses the allocation CIDRs of a cluster, and not
// since when or in which words.
func TestRefusedAllocationOfAHubIsRemembered(t *testing.T) {
	refused := func(at time.Time) *clusterset.Member {
		return &clusterset.Member{
			ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "uid", CreationTimestamp: metav1.NewTime(at)},
			Status: clusterset.MemberStatus{Conditions: []metav1.Condition{{
				Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse, Reason: clusterset.ReasonNotAssigned, Message: at.String(), LastTransitionTime: metav1.NewTime(at),
			}}},
		}
	}
	first := Contact{Relayed: map[string]*clusterset.Member{"x": refused(membertest.Epoch)}}.lasting()
	second := Contact{Relayed: map[string]*clusterset.Member{"x": refused(membertest.Epoch.Add(time.Hour))}}.lasting()
	if !first.equal(second) {
		t.Errorf("it is written again: %s", cmp.Diff(first, second))
	}
	data, err := encodeContact(recorded{"uid-h", first, nil})
	membertest.Must(t, err)
	decoded, err := decodeContact(data)
	membertest.Must(t, err)
	if !decoded.equal(first) || !response.AllocationRefused(decoded.Relayed["x"]) {
		t.Errorf("want (-), got (+): %s", cmp.Diff(first, decoded.Contact))
	}
}
