// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	web   = types.NamespacedName{Namespace: "ns", Name: "web"}
)

// replica is one of several servers that serve the same imports.
type replica struct {
	*Identities
	t *testing.T
	// served are the conditions that the replica served last.
	served []metav1.Condition
}

// identity is what Ensure sets in an import.
type identity struct {
	UID        types.UID
	Created    time.Time
	Conditions map[string]time.Time
}

// serve serves the import with these conditions.
func (r *replica) serve(statuses ...metav1.ConditionStatus) identity {
	r.t.Helper()
	var conditions []metav1.Condition
	for i, status := range statuses {
		conditions = append(conditions, metav1.Condition{Type: []string{"Ready", "MembersReachable"}[i], Status: status})
	}
	var metadata metav1.ObjectMeta
	must(r.t, r.Ensure(r.t.Context(), web, &metadata, conditions, r.served))
	r.served = conditions
	result := identity{metadata.UID, metadata.CreationTimestamp.UTC(), map[string]time.Time{}}
	for _, condition := range conditions {
		result.Conditions[condition.Type] = condition.LastTransitionTime.UTC()
	}
	return result
}

// delete deletes the import in this replica.
func (r *replica) delete(uid types.UID) {
	r.t.Helper()
	r.served = nil
	r.Tombstone(web, uid)
	must(r.t, r.Collect(r.t.Context(), web))
}

// catchUp loads what the watch would deliver eventually.
func (r *replica) catchUp() *replica {
	r.t.Helper()
	_, err := r.Load(r.t.Context())
	must(r.t, err)
	return r
}

func newReplicas(t *testing.T) (_, _ *replica, _ *testingclock.FakePassiveClock) {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(epoch)
	return &replica{Identities: newIdentities(t, clock), t: t}, &replica{Identities: newIdentities(t, clock), t: t}, clock
}

// R32: two replicas serve the same identity, also after a restart.
func TestEveryReplicaServesTheSameIdentity(t *testing.T) {
	one, two, clock := newReplicas(t)
	first := one.serve(no)
	if first.UID == "" || !first.Created.Equal(epoch) || !first.Conditions["Ready"].Equal(epoch) {
		t.Fatalf("the first replica serves %+v", first)
	}
	clock.SetTime(epoch.Add(time.Hour))
	if diff := cmp.Diff(first, two.serve(no)); diff != "" {
		t.Errorf("the second replica, which had not observed the first record, differs (-want +got):\n%s", diff)
	}
	restarted := &replica{Identities: newIdentities(t, clock), t: t}
	if diff := cmp.Diff(first, restarted.catchUp().serve(no)); diff != "" {
		t.Errorf("the identity differs after a restart (-want +got):\n%s", diff)
	}
}

func TestConcurrentReplicasCreateOneRecord(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	before := revision(t)
	var group sync.WaitGroup
	uids := make([]types.UID, 8)
	for i := range uids {
		group.Go(func() {
			uids[i] = (&replica{Identities: newIdentities(t, clock), t: t}).serve(no).UID
		})
	}
	group.Wait()
	for _, uid := range uids {
		if uid != uids[0] {
			t.Fatalf("replicas serve different UIDs: %v", uids)
		}
	}
	if got := revision(t) - before; got != 1 {
		t.Errorf("creating the record took %d writes, want 1", got)
	}
}

func TestRecreatedImportHasANewUID(t *testing.T) {
	one, two, clock := newReplicas(t)
	first := one.serve(no)
	two.serve(no)
	one.delete(first.UID)
	clock.SetTime(epoch.Add(time.Hour))
	second := one.serve(no)
	if second.UID == first.UID || !second.Created.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the recreated import has %+v", second)
	}
	// The other replica observes the deletion after the recreation.
	two.catchUp().delete(first.UID)
	if got := (&replica{Identities: newIdentities(t, clock), t: t}).catchUp().serve(no); got.UID != second.UID {
		t.Error("a lagging replica deleted the record of the recreated import")
	}
}

// Another replica may have updated the record since it was read.
func TestCollectDeletesAnUpdatedRecord(t *testing.T) {
	one, two, _ := newReplicas(t)
	first := one.serve(no)
	two.serve(no)
	two.serve(yes)
	one.delete(first.UID)
	if got := two.catchUp().UIDs(); len(got) != 0 {
		t.Errorf("the record still exists: %v", got)
	}
	two.served = nil
	if two.serve(no).UID == first.UID {
		t.Error("the recreated import has the UID of the deleted one")
	}
}

// R20, R32: the transition time changes with the status only.
func TestTransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	one, two, clock := newReplicas(t)
	one.serve(no)
	clock.SetTime(epoch.Add(time.Hour))
	before := revision(t)
	if got := one.serve(no).Conditions["Ready"]; !got.Equal(epoch) || revision(t) != before {
		t.Errorf("without a change, the transition time is %s after %d writes", got, revision(t)-before)
	}
	if got := one.serve(yes).Conditions["Ready"]; !got.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the transition time is %s, want the time of the change", got)
	}
	clock.SetTime(epoch.Add(2 * time.Hour))
	if got := two.catchUp().serve(yes).Conditions["Ready"]; !got.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the transition time is %s in another replica", got)
	}
	if got := revision(t) - before; got != 1 {
		t.Errorf("one change took %d writes", got)
	}
}

// Rule 3: a lagging replica writes nothing, and other replicas do not write because of it.
func TestLaggingReplicaDoesNotCauseWrites(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after []metav1.ConditionStatus
	}{
		{"status changed", []metav1.ConditionStatus{no}, []metav1.ConditionStatus{yes}},
		{"condition added", []metav1.ConditionStatus{no}, []metav1.ConditionStatus{no, no}},
		{"condition removed", []metav1.ConditionStatus{no, no}, []metav1.ConditionStatus{no}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ahead, behind, clock := newReplicas(t)
			ahead.serve(test.before...)
			old := behind.serve(test.before...)
			clock.SetTime(epoch.Add(time.Hour))
			before := revision(t)
			now := ahead.serve(test.after...)
			for range 5 {
				clock.SetTime(clock.Now().Add(time.Hour))
				if diff := cmp.Diff(old, behind.catchUp().serve(test.before...)); diff != "" {
					t.Errorf("the lagging replica serves something else (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(now, ahead.catchUp().serve(test.after...)); diff != "" {
					t.Errorf("the replica that is ahead serves something else (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(now, behind.catchUp().serve(test.after...)); diff != "" {
				t.Errorf("the replicas did not converge (-want +got):\n%s", diff)
			}
			if got := revision(t) - before; got != 1 {
				t.Errorf("one change took %d writes", got)
			}
		})
	}
}

func TestInvalidRecordIsReplaced(t *testing.T) {
	for _, value := range []string{"", "{", `{"uid":""}`, `{"uid":"x"}`, "null"} {
		one, two, _ := newReplicas(t)
		_, err := store.Put(t.Context(), one.path(web), value)
		must(t, err)
		got := one.catchUp().serve(no)
		if got.UID == "" || got.UID == "x" {
			t.Errorf("record %q results in %+v", value, got)
		}
		if other := two.serve(no); other.UID != got.UID {
			t.Errorf("record %q results in different UIDs", value)
		}
	}
}

// The watch may still deliver older events of a record that this replica has
// deleted since. They must not restore it.
func TestLateEventsDoNotRestoreACollectedRecord(t *testing.T) {
	one, _, _ := newReplicas(t)
	from, err := one.Load(t.Context())
	must(t, err)
	first := one.serve(no)
	one.delete(first.UID)
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan types.NamespacedName, 10), make(chan struct{})
	go func() {
		defer close(ended)
		one.Follow(ctx, from, func(key types.NamespacedName) { seen <- key })
	}()
	// The record of another replica marks the end of those events.
	other := types.NamespacedName{Namespace: "ns", Name: "other"}
	_, err = store.Put(t.Context(), one.path(other), `{"uid":"x","created":"2026-01-01T00:00:00Z"}`)
	must(t, err)
	if got := <-seen; got != other {
		t.Errorf("notified of %s, want %s", got, other)
	}
	cancel()
	<-ended
	if got := one.UIDs(); len(got) != 1 || got[other] != "x" {
		t.Errorf("the records are %v", got)
	}
	if len(one.keys()) != 1 {
		t.Errorf("deleted records are still held: %v", one.keys())
	}
}

func TestFollowObservesOtherReplicas(t *testing.T) {
	one, two, _ := newReplicas(t)
	from, err := two.Load(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan types.NamespacedName, 10), make(chan struct{})
	go func() {
		defer close(ended)
		two.Follow(ctx, from, func(key types.NamespacedName) { seen <- key })
	}()
	first := one.serve(no)
	if <-seen != web || two.UIDs()[web] != first.UID {
		t.Error("the created record was not observed")
	}
	one.delete(first.UID)
	if <-seen != web || len(two.UIDs()) != 0 {
		t.Error("the deleted record was not observed")
	}
	cancel()
	<-ended
}

func TestLoadReadsAllPages(t *testing.T) {
	one, two, _ := newReplicas(t)
	const count = 1001
	for i := range count {
		_, err := store.Put(t.Context(), fmt.Sprintf("%sns/%d", one.prefix, i), `{"uid":"x","created":"2026-01-01T00:00:00Z"}`)
		must(t, err)
	}
	if got := len(two.catchUp().UIDs()); got != count {
		t.Errorf("loaded %d records, want %d", got, count)
	}
}
