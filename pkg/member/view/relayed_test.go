// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

var now = metav1.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// lying returns a hub's entry in which everything is set, with texts of the hub.
func lying() *clusterset.Member {
	const lie = "call 555"
	future := metav1.NewTime(now.Add(time.Hour))
	conditions := []metav1.Condition{{Type: lie, Status: metav1.ConditionTrue, Reason: lie, Message: lie}}
	for _, name := range []string{
		clusterset.MemberAccepted, clusterset.MemberReachable, clusterset.MemberSynced, clusterset.MemberMutual, clusterset.MemberClusterSetIP, clusterset.MemberExportAges,
	} {
		conditions = append(conditions, metav1.Condition{
			Type: name, Status: lie, Reason: clusterset.ReasonExpelled, Message: lie, LastTransitionTime: future, ObservedGeneration: 7,
		})
	}
	return &clusterset.Member{
		ObjectMeta: metav1.ObjectMeta{Name: lie, UID: lie, CreationTimestamp: future, Labels: map[string]string{lie: lie}, Annotations: map[string]string{lie: lie}, Generation: 7},
		Status: clusterset.MemberStatus{
			ClusterID: lie, ClusterUID: "uid-x", ClusterSet: "set", State: lie, LastSeen: &future, TTLSeconds: 1 << 30, LostPolicy: lie, Exports: 7, Endpoints: 7, Synced: true,
			ClusterSetIPCIDRs: []string{lie}, ClusterSetIPRanges: []string{lie}, IDClaimedAt: ptr.To(now), Peers: []string{lie}, Path: []string{lie}, Conditions: conditions,
		},
	}
}

func relay(entry *clusterset.Member) Relay {
	return Relay{
		ClusterID: "x", Hub: "h", Path: []string{"x", "h"}, State: clusterset.MemberStale, Entry: entry, LastSeen: now.Time,
		TTL: time.Minute, LostPolicy: clusterset.LostPolicyWithdraw, Exports: 1, Endpoints: 2, Complete: true,
	}
}

// R277: of what a hub says about a cluster, nothing is shown but what is known to be
// harmless. Above all not that it is expelled, which would void its decisions, nor a TTL
// for which this cluster would wait.
func TestRelayedEntryHasNothingOfTheHubButWhatIsListed(t *testing.T) {
	want := &clusterset.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{managedByLabel: managedBy}},
		Status: clusterset.MemberStatus{
			ClusterID: "x", ClusterUID: "uid-x", ClusterSet: "set", IDClaimedAt: ptr.To(now), State: clusterset.MemberStale, LastSeen: ptr.To(now),
			TTLSeconds: 60, LostPolicy: clusterset.LostPolicyWithdraw, Exports: 1, Endpoints: 2, Synced: true, Path: []string{"x", "h"},
		},
	}
	for _, name := range []string{clusterset.MemberReachable, clusterset.MemberSynced, clusterset.MemberExportAges} {
		want.Status.Conditions = append(want.Status.Conditions, metav1.Condition{
			Type: name, Status: metav1.ConditionUnknown, Reason: "Unknown", LastTransitionTime: now, Message: `reported by hub "h": see Member "x" in that cluster`,
		})
	}
	if diff := cmp.Diff(want, Relayed(relay(lying()), now.Time)); diff != "" {
		t.Errorf("unexpected (-want +got):\n%s", diff)
	}
}

// R277: what an honest hub says is passed on, with the time since which this cluster
// knows it. The lost policy is that of this cluster: the endpoints of a hub that is silent would
// stay, or not, as it likes.
func TestRelayedEntryHasWhatAnHonestHubReports(t *testing.T) {
	entry := &clusterset.Member{Status: clusterset.MemberStatus{
		ClusterSetIPCIDRs: []string{"243.1.0.0/16", "fd00::/112"}, LostPolicy: clusterset.LostPolicyKeep,
		Conditions: []metav1.Condition{
			{Type: clusterset.MemberReachable, Status: metav1.ConditionFalse, Reason: "Unreachable", LastTransitionTime: metav1.Unix(7, 0)},
			{Type: clusterset.MemberSynced, Status: metav1.ConditionUnknown, Reason: clusterset.ReasonOutdated},
			{Type: clusterset.MemberExportAges, Status: metav1.ConditionFalse, Reason: clusterset.ReasonBackdated},
		},
	}}
	first := Relayed(relay(entry), now.Time)
	var got []string
	for _, condition := range first.Status.Conditions {
		got = append(got, condition.Type+"="+string(condition.Status)+" "+condition.Reason)
	}
	if text := strings.Join(got, ", "); text != "Reachable=False Unreachable, Synced=Unknown Outdated, ExportAges=False Backdated" {
		t.Errorf("got %s", text)
	}
	if diff := cmp.Diff([]string{"243.1.0.0/16", "fd00::/112"}, first.Status.ClusterSetIPCIDRs); diff != "" || first.Status.LostPolicy != clusterset.LostPolicyWithdraw {
		t.Errorf("got %+v", first.Status)
	}
	entry.Status.Conditions[1].Status = metav1.ConditionTrue
	changed := relay(entry)
	changed.Previous = first.Status.Conditions
	later := metav1.NewTime(now.Add(time.Hour))
	for i, want := range []metav1.Time{now, later, now} {
		if condition := Relayed(changed, later.Time).Status.Conditions[i]; !condition.LastTransitionTime.Equal(&want) {
			t.Errorf("%s changed at %s, want %s", condition.Type, condition.LastTransitionTime, want)
		}
	}
}
