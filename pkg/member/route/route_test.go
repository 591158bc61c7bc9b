// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	me    = identity.Cluster{ID: "a", ClusterSet: "set", IDClaimedAt: epoch, UID: "uid-a", Since: epoch}
)

// relayed are entries of a hub.
type relayed map[string]*clusterset.Member

func newEntry(state clusterset.MemberState, path ...string) *clusterset.Member {
	seen := metav1.NewTime(epoch)
	return &clusterset.Member{Status: clusterset.MemberStatus{ClusterSet: "set", State: state, Path: path, LastSeen: &seen}}
}

func TestChoose(t *testing.T) {
	const connected, stale, lost = clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost
	type chosen struct {
		From  string
		Path  []string
		State clusterset.MemberState
	}
	source := func(id string, state clusterset.MemberState, entries relayed, ids ...string) Source[string] {
		return Source[string]{Key: "member-" + id, ClusterID: id, State: state, Relayed: entries, Scope: Scope{All: entries != nil && len(ids) == 0, IDs: sets.New(ids...)}}
	}
	claimed := func(entry *clusterset.Member, uid types.UID, after time.Duration) *clusterset.Member {
		at := metav1.NewTime(epoch.Add(after))
		entry.Status.ClusterUID, entry.Status.IDClaimedAt = uid, &at
		return entry
	}
	for _, test := range []struct {
		name    string
		sources []Source[string]
		// refused is a direct member that is not accepted.
		refused string
		// want is about cluster x.
		want *chosen
	}{
		{"direct", []Source[string]{source("x", connected, nil)}, "", &chosen{"x", []string{"x"}, connected}},
		{"direct, although lost and relayed by a hub", []Source[string]{source("x", lost, nil), source("h", connected, relayed{"x": newEntry(connected)})}, "",
			&chosen{"x", []string{"x"}, lost}},
		{"not relayed if refused here", []Source[string]{source("h", connected, relayed{"x": newEntry(connected)})}, "x", nil},
		{"not reached yet by its hub", []Source[string]{source("h", stale, relayed{"x": newEntry(clusterset.MemberConnecting)})}, "", &chosen{"h", []string{"x", "h"}, clusterset.MemberConnecting}},
		{"not reached yet by its hub, which is lost", []Source[string]{source("h", lost, relayed{"x": newEntry(clusterset.MemberConnecting)})}, "", &chosen{"h", []string{"x", "h"}, lost}},
		{"relayed", []Source[string]{source("h", connected, relayed{"x": newEntry(connected)})}, "", &chosen{"h", []string{"x", "h"}, connected}},
		{"relayed by a hub of hubs", []Source[string]{source("h", connected, relayed{"x": newEntry(connected, "x", "g")})}, "", &chosen{"h", []string{"x", "g", "h"}, connected}},
		{"the worse of two states counts", []Source[string]{source("h", connected, relayed{"x": newEntry(stale)})}, "", &chosen{"h", []string{"x", "h"}, stale}},
		{"the worse of two states counts, that of the hub", []Source[string]{source("h", lost, relayed{"x": newEntry(stale)})}, "", &chosen{"h", []string{"x", "h"}, lost}},
		{"connected hub first", []Source[string]{source("g", lost, relayed{"x": newEntry(connected)}), source("h", connected, relayed{"x": newEntry(connected, "x", "i")})}, "",
			&chosen{"h", []string{"x", "i", "h"}, connected}},
		{"then the shortest path", []Source[string]{source("g", connected, relayed{"x": newEntry(connected, "x", "i")}), source("h", connected, relayed{"x": newEntry(connected)})}, "",
			&chosen{"h", []string{"x", "h"}, connected}},
		{"then in order", []Source[string]{source("h", connected, relayed{"x": newEntry(connected)}), source("g", connected, relayed{"x": newEntry(connected)})}, "",
			&chosen{"g", []string{"x", "g"}, connected}},
		{"of two clusters with one ID the one that keeps it (R101)", []Source[string]{
			source("g", connected, relayed{"x": claimed(newEntry(connected), "uid-1", time.Second)}),
			source("h", connected, relayed{"x": claimed(newEntry(stale, "x", "i"), "uid-2", 0)}),
		}, "", &chosen{"h", []string{"x", "i", "h"}, stale}},
		{"not through a hub that may not relay it", []Source[string]{source("h", connected, relayed{"x": newEntry(connected)}, "y")}, "", nil},
		{"not if relayed by this cluster", []Source[string]{source("h", connected, relayed{"x": newEntry(connected, "x", "a")})}, "", nil},
		{"not if relayed by the hub itself before", []Source[string]{source("h", connected, relayed{"x": newEntry(connected, "x", "h", "i")})}, "", nil},
		{"not if refused by the hub", []Source[string]{source("h", connected, relayed{"x": newEntry(clusterset.MemberRefused)})}, "", nil},
		{"not if local in the hub", []Source[string]{source("h", connected, relayed{"x": newEntry(clusterset.MemberLocal)})}, "", nil},
		{"not in an unknown state", []Source[string]{source("h", connected, relayed{"x": newEntry("Sleepy")})}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct := map[string]bool{test.refused: true}
			for _, source := range test.sources {
				direct[source.ClusterID] = true
			}
			var got *chosen
			if route, ok := Choose(me, direct, test.sources)["x"]; ok {
				got = &chosen{strings.TrimPrefix(route.Source, "member-"), route.Path, route.State}
				// The TTL of a relayed cluster depends on when its hub saw it.
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHubCannotRelay(t *testing.T) {
	change := func(change func(*clusterset.MemberStatus)) *clusterset.Member {
		entry := newEntry(clusterset.MemberConnected)
		change(&entry.Status)
		return entry
	}
	for name, entries := range map[string]relayed{
		"this cluster":                    {"a": newEntry(clusterset.MemberConnected)},
		"the hub itself":                  {"h": newEntry(clusterset.MemberConnected)},
		"this cluster by another ID":      {"x": change(func(s *clusterset.MemberStatus) { s.ClusterUID = me.UID })},
		"a cluster of another ClusterSet": {"x": change(func(s *clusterset.MemberStatus) { s.ClusterSet = "other" })},
		"an invalid cluster ID (R5)":      {"x.y": newEntry(clusterset.MemberConnected)},
		"an entry without a cluster ID":   {"secret.x": newEntry(clusterset.MemberConnected)},
	} {
		routes := Choose(me, map[string]bool{"h": true}, []Source[string]{{Key: "member-h", ClusterID: "h", Scope: Scope{All: true}, State: clusterset.MemberConnected, Relayed: entries}})
		if len(routes) != 1 || routes["h"].Entry != nil {
			t.Errorf("%s is relayed: %+v", name, routes)
		}
	}
}
