// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
)

// fullEntry returns an entry with all that a cluster knows about another.
func fullEntry(id string, state clusterset.MemberState) *clusterset.Member {
	seen := ptr.To(metav1.NewTime(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)))
	return &clusterset.Member{
		ObjectMeta: metav1.ObjectMeta{
			Name: id, UID: "secret", ResourceVersion: "7", CreationTimestamp: *seen, Labels: map[string]string{"app.kubernetes.io/managed-by": "mcs-apiserver"},
		},
		Status: clusterset.MemberStatus{
			ClusterID: id, ClusterUID: "uid", ClusterSet: "everywhere", Version: "v1.2.3", KubernetesVersion: "v1.36.0", State: state, LastSeen: seen, TTLSeconds: 60,
			LostPolicy: clusterset.LostPolicyKeep, Exports: 3, Endpoints: 4, Synced: true, IDClaimedAt: seen,
			ClusterSetIPCIDRs: []string{"243.1.0.0/16"}, ClusterSetIPRanges: []string{"243.0.0.0/8"}, Peers: []string{"north"}, Path: []string{id},
			Conditions: []metav1.Condition{{Type: clusterset.MemberReachable, Status: metav1.ConditionFalse, Reason: "Unreachable", Message: "Get https://10.0.0.1:6443"}},
		},
	}
}

// asCounted shows everything that is counted to all peers.
func asCounted(string, string) (exports, endpoints int32, known bool) { return 3, 4, true }

// R251, R252, R284: peers see no messages, and of third clusters the identity only, unless
// these are relayed to them.
func TestWhatPeersSeeOfMembers(t *testing.T) {
	withoutMessage := func(member *clusterset.Member) *clusterset.Member {
		member.Status.Conditions[0].Message = `see Member "` + member.Name + `" in cluster "east"`
		return member
	}
	only := func(member *clusterset.Member, status clusterset.MemberStatus) *clusterset.Member {
		return &clusterset.Member{ObjectMeta: metav1.ObjectMeta{Name: member.Name, ResourceVersion: "7"}, Status: status}
	}
	expired := func(member *clusterset.Member) *clusterset.Member {
		member.Status.Expired = true
		return member
	}
	asked := func(member *clusterset.Member) *clusterset.Member {
		member.Status.Conditions = append(member.Status.Conditions, metav1.Condition{Type: clusterset.MemberEndpointsReachable, Status: metav1.ConditionTrue, Reason: clusterset.ReasonEndpointsAnswer})
		return member
	}
	withProperties := func(member *clusterset.Member) *clusterset.Member {
		member.Status.Properties = []clusterset.ClusterProperty{{Name: "region.example.com", Value: "here"}}
		return member
	}
	accepted := clusterset.MemberStatus{ClusterID: "north", ClusterUID: "uid", ClusterSet: "everywhere"}
	for _, test := range []struct {
		name    string
		relayed bool
		member  *clusterset.Member
		want    *clusterset.Member
	}{
		{"this cluster", false, fullEntry("east", clusterset.MemberLocal), withoutMessage(fullEntry("east", clusterset.MemberLocal))},
		{"properties of this cluster", false, withProperties(fullEntry("east", clusterset.MemberLocal)), withProperties(withoutMessage(fullEntry("east", clusterset.MemberLocal)))},
		{"properties of a relayed member", true, withProperties(fullEntry("north", clusterset.MemberLost)), withoutMessage(fullEntry("north", clusterset.MemberLost))}, // R461
		{"the peer itself", false, fullEntry("west", clusterset.MemberStale), only(fullEntry("west", ""), clusterset.MemberStatus{ClusterID: "west", ClusterUID: "uid", ClusterSet: "everywhere"})},
		{"connected member", false, fullEntry("north", clusterset.MemberConnected), only(fullEntry("north", ""), accepted)},
		{"lost member", false, fullEntry("north", clusterset.MemberLost), only(fullEntry("north", ""), accepted)},
		{"refused member", false, fullEntry("north", clusterset.MemberRefused), only(fullEntry("north", ""), clusterset.MemberStatus{ClusterID: "north"})},
		{"member that was never reached", false, fullEntry("north", clusterset.MemberConnecting), only(fullEntry("north", ""), clusterset.MemberStatus{ClusterID: "north"})},
		// R304: whether endpoints answer is not for peers to know.
		{"relayed member that is kept", true, asked(expired(fullEntry("north", clusterset.MemberStale))), withoutMessage(expired(fullEntry("north", clusterset.MemberLost)))},
		{"relayed member that is unavailable", true, fullEntry("north", clusterset.MemberUnavailable), withoutMessage(fullEntry("north", clusterset.MemberStale))},
		{"unavailable member", false, fullEntry("north", clusterset.MemberUnavailable), only(fullEntry("north", ""), accepted)},
		{"relayed member", true, fullEntry("north", clusterset.MemberLost), withoutMessage(fullEntry("north", clusterset.MemberLost))},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.member.DeepCopy()
			got := Visible(asCounted).redact(peerview.View{Self: "east", Peer: "west", Relayed: test.relayed}, test.member)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.member); diff != "" {
				t.Errorf("the held object was modified:\n%s", diff)
			}
		})
	}
}

// R624: a peer sees how much is exported to it, by this cluster and those that it relays. A count that is
// not known confirms nothing.
func TestPeersSeeHowMuchIsExportedToThem(t *testing.T) {
	var visible Visible = func(name, peer string) (exports, endpoints int32, known bool) {
		if name != "east" || peer == "south" {
			return 0, 0, false
		}
		return int32(len(peer)), 2, true
	}
	for _, state := range []clusterset.MemberState{clusterset.MemberLocal, clusterset.MemberConnected} {
		entry := fullEntry("east", state)
		for peer, want := range map[string]clusterset.MemberStatus{"west": {Exports: 4, Endpoints: 2, Synced: true}, "north": {Exports: 5, Endpoints: 2, Synced: true}, "south": {}} {
			seen := visible.redact(peerview.View{Self: "east", Peer: peer, Relayed: true}, entry).(*clusterset.Member).Status
			if seen.Exports != want.Exports || seen.Endpoints != want.Endpoints || seen.Synced != want.Synced {
				t.Errorf("%s sees %d exports and %d endpoints, synced: %t; want %+v", peer, seen.Exports, seen.Endpoints, seen.Synced, want)
			}
		}
		if entry.Status.Exports != 3 || entry.Status.Endpoints != 4 || !entry.Status.Synced {
			t.Error("the held object was modified")
		}
		entry.Status.Synced = false
		if seen := visible.redact(peerview.View{Self: "east", Peer: "west", Relayed: true}, entry).(*clusterset.Member).Status; seen.Synced {
			t.Error("a Member that is not synced is shown as synced")
		}
	}
}
