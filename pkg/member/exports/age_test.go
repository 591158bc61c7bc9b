// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// R230
func TestExportIsNotOlderThanTheMembership(t *testing.T) {
	long, joined, later := membertest.Epoch.AddDate(-50, 0, 0), membertest.Epoch, membertest.Epoch.Add(time.Hour)
	for _, test := range []struct {
		name                string
		cluster             string
		exported, effective time.Time
		joinedAt, want      time.Time
	}{
		{"created before the cluster joined", "b", long, long, joined, joined},
		{"of an older release", "b", long, time.Time{}, joined, joined},
		{"created later", "b", later, later, joined, later},
		{"joined again", "b", long, later, joined, later},
		{"reported to have taken effect before it was created", "b", later, long, joined, later},
		{"unknown time of joining", "b", long, joined, time.Time{}, joined},
		{"unknown time of joining, of an older release", "b", long, time.Time{}, time.Time{}, long},
		{"relayed", "c", later, later, joined, later},
		{"relayed, before the hub joined", "c", long, long, joined, joined},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := Policy{Self: "a", Member: "b", Relay: route.Scope{All: true}, JoinedAt: test.joinedAt}
			var path []string
			if test.cluster != policy.Member {
				path = []string{test.cluster}
			}
			service := membertest.ExportedService(test.cluster, "web", path...)
			service.Spec.ExportedAt, service.Spec.EffectiveAt = metav1.NewTime(test.exported), metav1.NewTime(test.effective)
			object, err := Decode(service)
			if err != nil {
				t.Fatal(err)
			}
			arrival := policy.Admit(object)
			since := arrival.Object.Object.(*clusterset.ExportedService).Spec.Since()
			if !arrival.Admitted || arrival.Err != nil || !since.Time.Equal(test.want) {
				t.Errorf("it counts from %s (%v), want %s", since, arrival.Err, test.want)
			}
		})
	}
}

// backdate returns services that claim to be old, and a store that holds them.
func backdate(t testing.TB, count int) (*Store, []Arrival) {
	t.Helper()
	var update Update
	var arrivals []Arrival
	for i := range count {
		object, err := Decode(membertest.ExportedService("b", fmt.Sprintf("web-%05d", i)))
		if err != nil {
			t.Fatal(err)
		}
		update.set = append(update.set, object)
		arrivals = append(arrivals, Arrival{Object: object, Admitted: true})
	}
	store := NewStore()
	store.Apply(update)
	return store, arrivals
}

// R231: exports are reported as long as they are held, whichever way they were added and
// removed.
func TestBackdatedExportsAreThoseThatAreHeld(t *testing.T) {
	store, arrivals := backdate(t, 10)
	later := membertest.Epoch.Add(time.Hour)
	var b Backdated
	expect := func(count int, first string) {
		t.Helper()
		if b.Len() != count || !strings.Contains(b.First(), first) || (b.First() == "") != (count == 0) {
			t.Errorf("%d are reported, the first: %q; want %d, %q", b.Len(), b.First(), count, first)
		}
	}
	expect(0, "")
	for _, at := range []int{5, 2, 2, 7} {
		b.Observe(store, "b", arrivals[at:at+1], nil, later)
	}
	expect(3, "web-00002")
	if found := b.Observe(store, "b", arrivals, map[Key]bool{arrivals[0].Object.Key(): true}, later); found != 9 {
		t.Errorf("%d are found", found)
	}
	expect(9, "web-00001")
	remove := func(removed ...Arrival) {
		var update Update
		for _, arrival := range removed {
			update.remove = append(update.remove, arrival.Object)
		}
		store.Apply(update)
		b.Withdraw(store, update)
	}
	remove(arrivals[1])
	expect(8, "web-00002")
	remove(arrivals[0], arrivals[2], arrivals[3], arrivals[9])
	expect(5, "web-00004")
	moved := Update{remove: []Object{arrivals[4].Object}, set: []Object{arrivals[4].Object}}
	store.Apply(moved)
	b.Withdraw(store, moved)
	expect(5, "web-00004")
	if found := b.Observe(store, "b", arrivals[:1], nil, later); found != 0 {
		t.Error("an export that is not held is reported")
	}
	remove(arrivals...)
	expect(0, "")
}

// The cost of a change does not depend on how many exports are backdated.
func TestCostOfABackdatedExport(t *testing.T) {
	later := membertest.Epoch.Add(time.Hour)
	cost := func(count int) time.Duration {
		store, arrivals := backdate(t, count)
		var b Backdated
		b.Observe(store, "b", arrivals, nil, later)
		one := Update{remove: []Object{arrivals[count/2].Object}}
		best := time.Hour
		for range 200 {
			begun := time.Now()
			for range 10 {
				store.Apply(one)
				b.Withdraw(store, one)
				store.Apply(Update{set: one.remove})
				b.Observe(store, "b", arrivals[count/2:count/2+1], nil, later)
				_ = b.First()
			}
			best = min(best, time.Since(begun))
		}
		return best
	}
	if few, many := cost(100), cost(10_000); many > 30*few {
		t.Errorf("10 changes take %s with 100 exports, and %s with 10000", few, many)
	}
}
