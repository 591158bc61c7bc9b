// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

func TestStateFollowsFromTheLastSighting(t *testing.T) {
	for _, test := range []struct {
		silent time.Duration
		want   clusterset.MemberState
	}{
		{0, clusterset.MemberConnected},
		{staleAfter - 1, clusterset.MemberConnected},
		{staleAfter, clusterset.MemberStale},
		{time.Minute - 1, clusterset.MemberStale},
		{time.Minute, clusterset.MemberLost},
	} {
		if got := stateAt(epoch.Add(test.silent), epoch, time.Minute); got != test.want {
			t.Errorf("after %s: %s, want %s", test.silent, got, test.want)
		}
	}
	if got := stateAt(epoch, time.Time{}, time.Minute); got != clusterset.MemberConnecting {
		t.Errorf("one that was never seen is %s", got)
	}
}

// told are entries of a hub.
type told map[string]*clusterset.Member

func says(state clusterset.MemberState, path ...string) *clusterset.Member {
	seen := metav1.NewTime(epoch)
	return &clusterset.Member{Status: clusterset.MemberStatus{ClusterSet: "set", State: state, Path: path, LastSeen: &seen}}
}

func TestWhomToBelieve(t *testing.T) {
	const connected, stale, lost = clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost
	type believed struct {
		From  string
		Path  []string
		State clusterset.MemberState
	}
	tells := func(id string, state clusterset.MemberState, entries told, changes ...func(*spec)) teller {
		said := &spec{id: id}
		if entries != nil {
			hubFor("*")(said)
		}
		for _, change := range changes {
			change(said)
		}
		return teller{peer: &peer{spec: said}, spec: said, state: state, lastSeen: epoch.Add(time.Hour), relayed: entries}
	}
	claims := func(entry *clusterset.Member, uid types.UID, after time.Duration) *clusterset.Member {
		at := metav1.NewTime(epoch.Add(after))
		entry.Status.ClusterUID, entry.Status.IDClaimedAt = uid, &at
		return entry
	}
	for _, test := range []struct {
		name    string
		tellers []teller
		// refused is a direct member that does not take part.
		refused string
		// want is about cluster x.
		want *believed
	}{
		{"directly", []teller{tells("x", connected, nil)}, "", &believed{"x", []string{"x"}, connected}},
		{"directly, although lost and known to a hub", []teller{tells("x", lost, nil), tells("h", connected, told{"x": says(connected)})}, "",
			&believed{"x", []string{"x"}, lost}},
		{"not by a hub what was refused here", []teller{tells("h", connected, told{"x": says(connected)})}, "x", nil},
		{"by a hub", []teller{tells("h", connected, told{"x": says(connected)})}, "", &believed{"h", []string{"x", "h"}, connected}},
		{"by a hub of hubs", []teller{tells("h", connected, told{"x": says(connected, "x", "g")})}, "", &believed{"h", []string{"x", "g", "h"}, connected}},
		{"the worse of two states counts", []teller{tells("h", connected, told{"x": says(stale)})}, "", &believed{"h", []string{"x", "h"}, stale}},
		{"the worse of two states counts, the hub's", []teller{tells("h", lost, told{"x": says(stale)})}, "", &believed{"h", []string{"x", "h"}, lost}},
		{"the hub in touch", []teller{tells("g", lost, told{"x": says(connected)}), tells("h", connected, told{"x": says(connected, "x", "i")})}, "",
			&believed{"h", []string{"x", "i", "h"}, connected}},
		{"then the shortest path", []teller{tells("g", connected, told{"x": says(connected, "x", "i")}), tells("h", connected, told{"x": says(connected)})}, "",
			&believed{"h", []string{"x", "h"}, connected}},
		{"then always the same", []teller{tells("h", connected, told{"x": says(connected)}), tells("g", connected, told{"x": says(connected)})}, "",
			&believed{"g", []string{"x", "g"}, connected}},
		{"of two clusters with one id the one that keeps it (R101)", []teller{
			tells("g", connected, told{"x": claims(says(connected), "uid-1", time.Second)}),
			tells("h", connected, told{"x": claims(says(stale, "x", "i"), "uid-2", 0)}),
		}, "", &believed{"h", []string{"x", "i", "h"}, stale}},
		{"not a hub that may not speak for it", []teller{tells("h", connected, told{"x": says(connected)}, hubFor("y"))}, "", nil},
		{"not a hub that knows it from me", []teller{tells("h", connected, told{"x": says(connected, "x", "a")})}, "", nil},
		{"not a hub that knows it from itself", []teller{tells("h", connected, told{"x": says(connected, "x", "h", "i")})}, "", nil},
		{"not a hub that refuses it itself", []teller{tells("h", connected, told{"x": says(clusterset.MemberRefused)})}, "", nil},
		{"not a hub that says it were itself", []teller{tells("h", connected, told{"x": says(clusterset.MemberLocal)})}, "", nil},
		{"not a state that is unknown here", []teller{tells("h", connected, told{"x": says("Sleepy")})}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct := map[string]bool{test.refused: true}
			for _, teller := range test.tellers {
				direct[teller.spec.id] = true
			}
			var got *believed
			if route, ok := chooseRoutes(me, direct, test.tellers)["x"]; ok {
				got = &believed{route.peer.spec.id, route.path, route.state}
				// The TTL of a relayed cluster runs on when its hub saw it.
				if want := map[bool]time.Time{true: epoch, false: epoch.Add(time.Hour)}[route.entry != nil]; !route.lastSeen.Equal(want) {
					t.Errorf("last seen %s, want %s", route.lastSeen, want)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHubCannotBringInStrangers(t *testing.T) {
	hub := &spec{id: "h"}
	hubFor("*")(hub)
	change := func(change func(*clusterset.MemberStatus)) *clusterset.Member {
		entry := says(clusterset.MemberConnected)
		change(&entry.Status)
		return entry
	}
	for name, entries := range map[string]told{
		"myself":                           {"a": says(clusterset.MemberConnected)},
		"itself":                           {"h": says(clusterset.MemberConnected)},
		"me under another name":            {"x": change(func(s *clusterset.MemberStatus) { s.ClusterUID = me.UID })},
		"a cluster of another ClusterSet":  {"x": change(func(s *clusterset.MemberStatus) { s.ClusterSet = "other" })},
		"what is no cluster (R5)":          {"x.y": says(clusterset.MemberConnected)},
		"an entry of a Secret without one": {"secret.x": says(clusterset.MemberConnected)},
	} {
		routes := chooseRoutes(me, map[string]bool{"h": true}, []teller{{peer: &peer{spec: hub}, spec: hub, state: clusterset.MemberConnected, relayed: entries}})
		if len(routes) != 1 || routes["h"].entry != nil {
			t.Errorf("%s is let in: %+v", name, routes)
		}
	}
}
