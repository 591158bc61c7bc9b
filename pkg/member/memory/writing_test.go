// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// run runs a Recorder until the returned function is called.
func run(r *Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func TestRecorderWritesInTheBackgroundAndBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r, _ := newReplica(t, store)
		stop := run(r.Recorder)
		r.heard("b")
		r.record("b", "web")
		time.Sleep(2 * writeDelay)
		if got := names(recalled(t, store)["b"]); got != "web" {
			t.Errorf("written are %q", got)
		}
		r.record("b", "api")
		stop()
		if got := names(recalled(t, store)["b"]); got != "api,web" {
			t.Errorf("written are %q at the end, want both", got)
		}
	})
}

// slow makes every write of a store take a time.
func slow(store *recordtest.Store, duration time.Duration) {
	store.Before(func(ctx context.Context, call recordtest.Call) error {
		if call.Method != "Update" {
			return nil
		}
		select {
		case <-time.After(duration):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// R169: no limit covers all writes together: a storage that is slow is as good as any.
func TestSlowStorageIsWrittenCompletely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r, _ := newReplica(t, store)
		r.heard("b")
		r.record("b", many(2_000)...)
		slow(store, writeTimeout/2)
		stop := run(r.Recorder)
		defer stop()
		start := time.Now()
		for store.Version() < 2_000/maxServices || len(recalled(t, store)["b"].Services) < 2_000 {
			time.Sleep(time.Minute)
			if time.Since(start) > time.Hour {
				t.Fatalf("%d Services are written after %s", len(recalled(t, store)["b"].Services), time.Since(start))
			}
		}
	})
}

// R169: a document that cannot be written does not hold up the others, and what was
// written is not written again.
func TestFailedWritesAreRetriedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		r, _ := newReplica(t, store)
		r.heard("b")
		r.record("b", many(1_000)...)
		r.heard("h")
		r.record("h", "hub")
		var mu sync.Mutex
		calls := map[string]int{}
		count := func(call recordtest.Call) {
			mu.Lock()
			defer mu.Unlock()
			calls[call.Name]++
		}
		store.Before(func(ctx context.Context, call recordtest.Call) error {
			count(call)
			if call.Name != "contact.h" {
				return nil
			}
			<-ctx.Done() // never answers
			return ctx.Err()
		})
		stop := run(r.Recorder)
		time.Sleep(10 * time.Minute)
		if got := len(recalled(t, store)["b"].Services); got != 1_000 {
			t.Errorf("%d Services are written", got)
		}
		store.Before(func(_ context.Context, call recordtest.Call) error {
			count(call)
			return nil
		})
		time.Sleep(time.Minute)
		if got := names(recalled(t, store)["h"]); got != "hub" {
			t.Errorf("of h is recalled %q", got)
		}
		stop()
		for name, count := range calls {
			if refused := name == "contact.h"; refused && count < 10 || !refused && name != "" && count > 1 {
				t.Errorf("%d attempts to write %s", count, name)
			}
		}
	})
}

// A write may fail although it was committed. If the content is then the one before,
// it must be written, too.
func TestOutcomeOfAFailedWriteIsUnknown(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", "web")
	w.flush()
	store.After(func(context.Context, recordtest.Call) error { return errors.New("connection lost") })
	w.record("b", "api")
	if w.Flush(t.Context()) {
		t.Fatal("the failure went unnoticed")
	}
	ref, _ := service(t, "b", "api")
	w.Record(0, "b", "uid-b", ref, nil)
	store.After(nil)
	w.flush()
	if got := names(recalled(t, store)["b"]); got != "web" {
		t.Errorf("recalled are %q, want web", got)
	}
}

// R165: a replica that was paused with a change pending does not overwrite what the next
// writer has recorded, although it does not know yet that the election is lost, nor that it
// has not heard from the member for a while.
func TestWriterThatWasPausedDoesNotOverwriteTheNextOne(t *testing.T) {
	for name, pause := range map[string]func(*recordtest.Store, *replica){
		"before a write": func(*recordtest.Store, *replica) {},
		"during a write": func(store *recordtest.Store, paused *replica) {
			store.After(func(context.Context, recordtest.Call) error { return context.DeadlineExceeded })
			if paused.Flush(t.Context()) {
				t.Fatal("the failure went unnoticed")
			}
			store.After(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := recordtest.New()
			paused := newWriter(t, store)
			paused.heard("b")
			paused.record("b", "web")
			paused.flush()
			paused.record("b", "api")
			pause(store, paused)

			next := newWriter(t, store)
			next.record("b", "web", "api", "new")
			next.heard("b")
			next.flush()

			before := store.Version()
			paused.flush()
			if got := names(recalled(t, store)["b"]); got != "api,new,web" || store.Version() != before {
				t.Errorf("recorded are %q after %d writes of the replica that was paused", got, store.Version()-before)
			}
			paused.heard("b") // it has caught up
			paused.record("b", "new", "newest")
			paused.flush()
			if got := names(recalled(t, store)["b"]); got != "api,new,newest,web" {
				t.Errorf("recorded are %q when it was elected again", got)
			}
		})
	}
}

// R169: the writer repairs documents that were deleted, damaged or restored meanwhile when
// it notices one of them, as soon as it hears from the member.
func TestChangedDocumentsAreRepaired(t *testing.T) {
	for name, change := range map[string]func(document []byte) []byte{
		"deleted":  func([]byte) []byte { return nil },
		"damaged":  func([]byte) []byte { return []byte("broken") },
		"emptied":  func([]byte) []byte { return []byte{} },
		"restored": func(document []byte) []byte { return append(document, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := recordtest.New()
				r, _ := newReplica(t, store)
				stop := run(r.Recorder)
				defer stop()
				r.heard("b")
				r.record("b", many(200)...)
				time.Sleep(time.Minute)
				documents, _, err := store.List(t.Context())
				membertest.Must(t, err)
				for name := range documents {
					_, _, err := store.Update(t.Context(), name, func(current []byte) ([]byte, error) { return change(current), nil })
					membertest.Must(t, err)
				}
				r.record("b", "new")
				time.Sleep(time.Minute)
				r.heard("b")
				time.Sleep(time.Minute)
				if got := recalled(t, store)["b"]; len(got.Services) != 201 || got.Incomplete {
					t.Errorf("%d of 201 Services are recalled; incomplete: %t", len(got.Services), got.Incomplete)
				}
				if stored, _, _ := store.List(t.Context()); len(stored) != len(documents) {
					t.Errorf("stored are %d documents, want %d", len(stored), len(documents))
				}
			})
		})
	}
}

// unwritten returns how many documents were never written.
func (r *replica) unwritten() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for id, member := range r.members {
		for prefix := range member.services.chunks {
			if stored := r.writing.stored[document{member: id, prefix: prefix}]; len(stored) != 1 {
				count++
			}
		}
	}
	return count
}

// A member may be forgotten while its documents are written.
func TestForgottenMemberIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pause := range 20 {
			store := recordtest.New()
			r, _ := newReplica(t, store)
			slow(store, 10*time.Millisecond)
			stop := run(r.Recorder)
			r.heard("b")
			r.record("b", many(200)...) // eight documents or so
			time.Sleep(writeDelay + time.Duration(pause)*5*time.Millisecond)
			r.Forget("b")
			time.Sleep(time.Minute)
			if documents, _, _ := store.List(t.Context()); len(documents) > 0 {
				t.Errorf("after a pause of %d: %d documents are left", pause, len(documents))
			}
			stop()
		}
	})
}

// R169: with many Services of several members, and changes that arrive all the time,
// everything is written.
func TestWritingKeepsUpWithChanges(t *testing.T) {
	const services, members, delay = 2_000, 3, 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		ids := map[string]string{}
		for i := range members {
			ids[fmt.Sprintf("member-m%d", i)] = fmt.Sprintf("m%d", i)
		}
		r := &replica{NewRecorder(store, Unopposed, clock.RealClock{}), t}
		_, err := r.Load(t.Context(), ids)
		membertest.Must(t, err)
		slow(store, delay)
		stop := run(r.Recorder)
		begin := time.Now()
		for _, id := range ids {
			r.heard(id)
			r.record(id, many(services)...)
		}
		var stopped atomic.Bool
		changes := make(chan struct{})
		go func() { // 50 changes a second
			defer close(changes)
			for i := 0; !stopped.Load(); i++ {
				ref, changed := service(t, "m1", fmt.Sprintf("web-%d", i*37%services))
				changed.Spec.ExportedLabels = map[string]string{"round": fmt.Sprint(i)}
				r.Record(0, "m1", "uid-m1", ref, changed)
				time.Sleep(20 * time.Millisecond)
			}
		}()
		for r.unwritten() > 0 {
			time.Sleep(time.Second)
			if time.Since(begin) > 10*time.Minute {
				t.Fatalf("%d documents are not written after %s", r.unwritten(), time.Since(begin))
			}
		}
		took, documents := time.Since(begin), store.Version()
		before := store.Version()
		time.Sleep(5 * time.Second)
		rewritten := store.Version() - before
		stopped.Store(true)
		<-changes
		stop()
		t.Logf("%d Services of %d members, %s a write: stored after %s with %d writes; then %d writes for 250 changes",
			services*members, members, delay, took, documents, rewritten)
		if documents > 4*services*members/maxServices {
			t.Errorf("%d writes for %d Services", documents, services*members)
		}
		if rewritten == 0 || rewritten > 250 {
			t.Errorf("%d writes for 250 changes", rewritten)
		}
		after := NewRecorder(store, Unopposed, clock.RealClock{})
		store.Before(nil)
		got, err := after.Load(t.Context(), ids)
		membertest.Must(t, err)
		for id, member := range got {
			if len(member.Services) != services {
				t.Errorf("%d Services are recalled of %s", len(member.Services), id)
			}
		}
	})
}

// view is the store of one replica, which counts its writes.
type view struct {
	*recordtest.Store
	writes *atomic.Int32
}

func (v view) Update(ctx context.Context, name string, update func([]byte) ([]byte, error)) ([]byte, string, error) {
	v.writes.Add(1)
	return v.Store.Update(ctx, name, update)
}

var _ record.Store = view{}

// R165: of several replicas one writes, also when that one ends.
func TestOneReplicaWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, client := recordtest.New(), fake.NewClientset()
		writes := map[string]*atomic.Int32{"first": {}, "second": {}}
		start := func(name string) (*replica, func()) {
			elect, err := ByLease(client.CoordinationV1(), "mcs-system", name)
			membertest.Must(t, err)
			r := &replica{NewRecorder(view{store, writes[name]}, elect, clock.RealClock{}), t}
			_, err = r.Load(t.Context(), map[string]string{"member-b": "b"})
			membertest.Must(t, err)
			return r, run(r.Recorder)
		}
		first, stopFirst := start("first")
		time.Sleep(time.Second)
		second, stopSecond := start("second")
		defer func() { stopSecond() }()
		both := func(services ...string) {
			for _, r := range []*replica{first, second} {
				r.heard("b")
				r.record("b", services...)
			}
		}
		both("web")
		time.Sleep(5 * time.Minute)
		if got := names(recalled(t, store)["b"]); got != "web" || writes["second"].Load() > 0 {
			t.Errorf("recalled are %q after %d writes of the second replica", got, writes["second"].Load())
		}
		both("api")
		stopFirst()
		second.record("b", "late")
		former := writes["first"].Load()
		time.Sleep(leaseDuration + 6*retryPeriod) // it retries after up to 2.2 periods
		if got := names(recalled(t, store)["b"]); got != "api,late,web" || writes["first"].Load() != former || writes["second"].Load() == 0 {
			t.Errorf("recalled are %q after %d writes of the second replica", got, writes["second"].Load())
		}
		// A replica with the same identity does not wait for its own Lease.
		stopSecond()
		second, stopSecond = start("second")
		second.record("b", "again")
		second.heard("b")
		time.Sleep(retryPeriod)
		if got := names(recalled(t, store)["b"]); !strings.Contains(got, "again") {
			t.Errorf("recalled are %q", got)
		}
	})
}

// R165: what only the other replica hears is recorded: the one that is elected hands over,
// and both write in turns if each misses something.
func TestReplicasHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, client := recordtest.New(), fake.NewClientset()
		start := func(name string) (*replica, func()) {
			elect, err := ByLease(client.CoordinationV1(), "mcs-system", name)
			membertest.Must(t, err)
			r := &replica{NewRecorder(store, elect, clock.RealClock{}), t}
			_, err = r.Load(t.Context(), map[string]string{"member-b": "b", "member-h": "h"})
			membertest.Must(t, err)
			return r, run(r.Recorder)
		}
		first, stopFirst := start("first")
		defer stopFirst()
		time.Sleep(time.Second)
		second, stopSecond := start("second")
		defer stopSecond()
		first.heard("b")
		second.heard("h")
		second.record("h", "hub")
		first.HandOver()
		time.Sleep(handOverTime)
		if got := recalled(t, store); len(got) != 1 {
			t.Fatalf("recalled are %v; a replica handed over before its time", got)
		}
		first.record("b", "web") // not written yet
		first.HandOver()
		time.Sleep(handOverTime)
		if got := recalled(t, store); names(got["b"]) != "web" || names(got["h"]) != "hub" {
			t.Fatalf("recalled are %q of b and %q of h", names(got["b"]), names(got["h"]))
		}
		first.record("b", "api")
		time.Sleep(minTerm)
		second.HandOver()
		time.Sleep(handOverTime)
		if got := recalled(t, store); names(got["b"]) != "api,web" {
			t.Errorf("recalled are %q of b", names(got["b"]))
		}
	})
}

// A replica that lost the election, such as one that cannot reach the host, does not
// write until it is elected again.
func TestLostElectionEndsWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := recordtest.New()
		elections := make(chan context.Context)
		r := &replica{NewRecorder(store, func(ctx context.Context, lead func(context.Context)) {
			for {
				select {
				case elected := <-elections:
					lead(elected)
				case <-ctx.Done():
					return
				}
			}
		}, clock.RealClock{}), t}
		stop := run(r.Recorder)
		defer stop()
		for _, name := range []string{"web", "api"} {
			elected, lose := context.WithCancel(t.Context())
			elections <- elected
			r.heard("b")
			r.record("b", name)
			time.Sleep(2 * writeDelay)
			lose()
			before := store.Version()
			r.record("b", name+"-unelected")
			time.Sleep(time.Hour)
			if got := store.Version() - before; got != 0 {
				t.Errorf("%d writes without being elected", got)
			}
		}
		if got := names(recalled(t, store)["b"]); got != "api,web,web-unelected" {
			t.Errorf("recalled are %q", got)
		}
	})
}
