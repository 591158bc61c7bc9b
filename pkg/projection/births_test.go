// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

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

// replica is one of several servers that show the same imports.
type replica struct {
	*Births
	t *testing.T
	// shown are the conditions that it showed last.
	shown []metav1.Condition
}

// certified is what an import gets from its record.
type certified struct {
	UID        types.UID
	Created    time.Time
	Conditions map[string]time.Time
}

// show shows an import with these conditions.
func (r *replica) show(statuses ...metav1.ConditionStatus) certified {
	r.t.Helper()
	var conditions []metav1.Condition
	for i, status := range statuses {
		conditions = append(conditions, metav1.Condition{Type: []string{"Ready", "MembersReachable"}[i], Status: status})
	}
	var metadata metav1.ObjectMeta
	must(r.t, r.certify(r.t.Context(), web, &metadata, conditions, r.shown))
	r.shown = conditions
	result := certified{metadata.UID, metadata.CreationTimestamp.UTC(), map[string]time.Time{}}
	for _, condition := range conditions {
		result.Conditions[condition.Type] = condition.LastTransitionTime.UTC()
	}
	return result
}

// die ends the import in this replica.
func (r *replica) die(uid types.UID) {
	r.t.Helper()
	r.shown = nil
	must(r.t, r.end(r.t.Context(), web, uid))
}

// catchUp is what a watch does, sooner or later.
func (r *replica) catchUp() *replica {
	r.t.Helper()
	_, err := r.load(r.t.Context())
	must(r.t, err)
	return r
}

func newReplicas(t *testing.T) (_, _ *replica, _ *testingclock.FakePassiveClock) {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(epoch)
	return &replica{Births: newBirths(t, clock), t: t}, &replica{Births: newBirths(t, clock), t: t}, clock
}

// R32: two replicas, and the same after a restart.
func TestEveryReplicaShowsTheSame(t *testing.T) {
	one, two, clock := newReplicas(t)
	first := one.show(no)
	if first.UID == "" || !first.Created.Equal(epoch) || !first.Conditions["Ready"].Equal(epoch) {
		t.Fatalf("the first shows %+v", first)
	}
	clock.SetTime(epoch.Add(time.Hour))
	if diff := cmp.Diff(first, two.show(no)); diff != "" {
		t.Errorf("the second, which did not know of the first, differs: %s", diff)
	}
	restarted := &replica{Births: newBirths(t, clock), t: t}
	if diff := cmp.Diff(first, restarted.catchUp().show(no)); diff != "" {
		t.Errorf("after a restart it differs: %s", diff)
	}
}

func TestOneRecordIsMadeByManyReplicasAtOnce(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	before := revision(t)
	var group sync.WaitGroup
	uids := make([]types.UID, 8)
	for i := range uids {
		group.Go(func() {
			uids[i] = (&replica{Births: newBirths(t, clock), t: t}).show(no).UID
		})
	}
	group.Wait()
	for _, uid := range uids {
		if uid != uids[0] {
			t.Fatalf("there are several UIDs: %v", uids)
		}
	}
	if got := revision(t) - before; got != 1 {
		t.Errorf("it took %d writes, want 1", got)
	}
}

func TestNextLifeHasANewUID(t *testing.T) {
	one, two, clock := newReplicas(t)
	first := one.show(no)
	two.show(no)
	one.die(first.UID)
	clock.SetTime(epoch.Add(time.Hour))
	second := one.show(no)
	if second.UID == first.UID || !second.Created.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the next life is %+v", second)
	}
	// The other replica sees the death later than the next life.
	two.catchUp().die(first.UID)
	if got := (&replica{Births: newBirths(t, clock), t: t}).catchUp().show(no); got.UID != second.UID {
		t.Error("a replica that lags has ended the next life")
	}
}

// Another replica may have written in between.
func TestRecordThatHasChangedIsRemovedToo(t *testing.T) {
	one, two, _ := newReplicas(t)
	first := one.show(no)
	two.show(no)
	two.show(yes)
	one.die(first.UID)
	if got := two.catchUp().all(); len(got) != 0 {
		t.Errorf("there is still a record: %v", got)
	}
	two.shown = nil
	if two.show(no).UID == first.UID {
		t.Error("the next life has the UID of the last")
	}
}

// R20, R32: the time moves with the status only.
func TestTransitionTimeMovesWithTheStatusOnly(t *testing.T) {
	one, two, clock := newReplicas(t)
	one.show(no)
	clock.SetTime(epoch.Add(time.Hour))
	before := revision(t)
	if got := one.show(no).Conditions["Ready"]; !got.Equal(epoch) || revision(t) != before {
		t.Errorf("the time is %s, and there were %d writes", got, revision(t)-before)
	}
	if got := one.show(yes).Conditions["Ready"]; !got.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the time is %s, want that of the change", got)
	}
	clock.SetTime(epoch.Add(2 * time.Hour))
	if got := two.catchUp().show(yes).Conditions["Ready"]; !got.Equal(epoch.Add(time.Hour)) {
		t.Errorf("the time is %s in another replica", got)
	}
	if got := revision(t) - before; got != 1 {
		t.Errorf("one change took %d writes", got)
	}
}

// Rule 3: a replica that is behind writes nothing, and is not written against.
func TestReplicaThatLagsStartsNoFight(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after []metav1.ConditionStatus
	}{
		{"another status", []metav1.ConditionStatus{no}, []metav1.ConditionStatus{yes}},
		{"a condition more", []metav1.ConditionStatus{no}, []metav1.ConditionStatus{no, no}},
		{"a condition less", []metav1.ConditionStatus{no, no}, []metav1.ConditionStatus{no}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ahead, behind, clock := newReplicas(t)
			ahead.show(test.before...)
			old := behind.show(test.before...)
			clock.SetTime(epoch.Add(time.Hour))
			before := revision(t)
			now := ahead.show(test.after...)
			for range 5 {
				clock.SetTime(clock.Now().Add(time.Hour))
				if diff := cmp.Diff(old, behind.catchUp().show(test.before...)); diff != "" {
					t.Errorf("the one that is behind shows something new: %s", diff)
				}
				if diff := cmp.Diff(now, ahead.catchUp().show(test.after...)); diff != "" {
					t.Errorf("the one that is ahead shows something new: %s", diff)
				}
			}
			if diff := cmp.Diff(now, behind.catchUp().show(test.after...)); diff != "" {
				t.Errorf("in the end they differ: %s", diff)
			}
			if got := revision(t) - before; got != 1 {
				t.Errorf("one change took %d writes", got)
			}
		})
	}
}

func TestUnreadableRecordIsReplaced(t *testing.T) {
	for _, value := range []string{"", "{", `{"uid":""}`, `{"uid":"x"}`, "null"} {
		one, two, _ := newReplicas(t)
		_, err := store.Put(t.Context(), one.path(web), value)
		must(t, err)
		got := one.catchUp().show(no)
		if got.UID == "" || got.UID == "x" {
			t.Errorf("%q gives %+v", value, got)
		}
		if other := two.show(no); other.UID != got.UID {
			t.Errorf("%q gives two UIDs", value)
		}
	}
}

// News of a record that this replica has itself removed since may still be on
// the way, and must not bring it back.
func TestLateNewsDoNotBringTheDeadBack(t *testing.T) {
	one, _, _ := newReplicas(t)
	from, err := one.load(t.Context())
	must(t, err)
	first := one.show(no)
	one.die(first.UID)
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan types.NamespacedName, 10), make(chan struct{})
	go func() {
		defer close(ended)
		one.follow(ctx, from, func(key types.NamespacedName) { seen <- key })
	}()
	// A record of another replica comes after them.
	other := types.NamespacedName{Namespace: "ns", Name: "other"}
	_, err = store.Put(t.Context(), one.path(other), `{"uid":"x","created":"2026-01-01T00:00:00Z"}`)
	must(t, err)
	if got := <-seen; got != other {
		t.Errorf("%s was passed on", got)
	}
	cancel()
	<-ended
	if got := one.all(); len(got) != 1 || got[other] != "x" {
		t.Errorf("known are %v", got)
	}
	if len(one.keys()) != 1 {
		t.Errorf("something is kept of the dead: %v", one.keys())
	}
}

func TestWhatOtherReplicasWriteIsFollowed(t *testing.T) {
	one, two, _ := newReplicas(t)
	from, err := two.load(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan types.NamespacedName, 10), make(chan struct{})
	go func() {
		defer close(ended)
		two.follow(ctx, from, func(key types.NamespacedName) { seen <- key })
	}()
	first := one.show(no)
	if <-seen != web || two.all()[web] != first.UID {
		t.Error("a birth was not passed on")
	}
	one.die(first.UID)
	if <-seen != web || len(two.all()) != 0 {
		t.Error("a death was not passed on")
	}
	cancel()
	<-ended
}

func TestAllPagesOfRecordsAreRead(t *testing.T) {
	one, two, _ := newReplicas(t)
	const count = 1001
	for i := range count {
		_, err := store.Put(t.Context(), fmt.Sprintf("%sns/%d", one.prefix, i), `{"uid":"x","created":"2026-01-01T00:00:00Z"}`)
		must(t, err)
	}
	if got := len(two.catchUp().all()); got != count {
		t.Errorf("%d records were read, want %d", got, count)
	}
}
