// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var (
	timing   = Timing{LeaseDuration: 6 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second}
	resource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)

// lease is a Lease with optimistic locking.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	// changed is closed and replaced whenever the Lease changes.
	changed chan struct{}
}

func newLease() *lease { return &lease{changed: make(chan struct{})} }

// replica is a candidate for a lease that may be cut off from it.
type replica struct {
	Candidate
	name    string
	lease   *lease
	version int
	// ready and connected are the state of the replica. If it is blind, its watch of the
	// Lease shows nothing.
	ready, connected, blind atomic.Bool
	// late is whether responses to its writes take as long as they may.
	late atomic.Bool
	// requests is how often it has read the Lease.
	requests atomic.Int32
	// leading is the number of times that lead runs now, terms how often it ran.
	leading, terms atomic.Int32
	stop           context.CancelFunc
	ended          chan error
}

// start starts a replica that is ready and connected.
func start(t *testing.T, name string, shared *lease, lead func(context.Context) error) *replica {
	t.Helper()
	return startWith(t, name, shared, lead, nil, nil)
}

// startWith starts a replica with an outlook, unless that is nil, that tells whether it leads.
func startWith(t *testing.T, name string, shared *lease, lead func(context.Context) error, outlook *Outlook, leads func(bool)) *replica {
	t.Helper()
	r := &replica{name: name, lease: shared, ended: make(chan error, 1)}
	r.ready.Store(true)
	r.connected.Store(true)
	health := NewHealth(func(context.Context) error {
		if !r.ready.Load() {
			return errors.New("not ready")
		}
		return nil
	})
	r.Candidate = Candidate{Lock: r, Watch: r.watch, Timing: timing, Health: health, Leading: leads}
	if outlook != nil {
		r.Yield, r.Hesitate = outlook.Yield, outlook.Hesitate
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	probing := make(chan error)
	go func() { probing <- health.Run(ctx) }()
	go func() {
		err := r.Run(ctx, func(ctx context.Context) error {
			r.leading.Add(1)
			defer r.leading.Add(-1)
			r.terms.Add(1)
			return lead(ctx)
		})
		stop()
		r.ended <- errors.Join(err, <-probing)
	}()
	return r
}

// end ends a replica as a signal would.
func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// reach returns an error if the replica is cut off: its requests time out.
func (r *replica) reach(ctx context.Context) error {
	if r.connected.Load() {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, timing.RenewDeadline/2)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// watch implements Candidate.Watch.
func (r *replica) watch(ctx context.Context, observe func(resourcelock.LeaderElectionRecord)) {
	for seen := 0; ctx.Err() == nil; {
		r.lease.mu.Lock()
		reached := r.connected.Load() && !r.blind.Load()
		if reached && r.lease.version > seen {
			seen = r.lease.version
			observe(*r.lease.record)
		}
		changed := r.lease.changed
		r.lease.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(time.Minute): // it may be reached again
		}
	}
}

func (r *replica) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r.requests.Add(1)
	if err := r.reach(ctx); err != nil {
		return nil, nil, err
	}
	r.lease.mu.Lock()
	defer r.lease.mu.Unlock()
	if r.lease.record == nil {
		return nil, nil, apierrors.NewNotFound(resource, "lease")
	}
	r.version = r.lease.version
	record := *r.lease.record
	data, err := json.Marshal(record)
	return &record, data, err
}

func (r *replica) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.write(ctx, record, func() bool { return r.lease.record == nil })
}

func (r *replica) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.write(ctx, record, func() bool { return r.lease.version == r.version })
}

func (r *replica) write(ctx context.Context, record resourcelock.LeaderElectionRecord, allowed func() bool) error {
	if err := r.reach(ctx); err != nil {
		return err
	}
	if r.late.Load() {
		defer time.Sleep(timing.timeout())
	}
	r.lease.mu.Lock()
	defer r.lease.mu.Unlock()
	if !allowed() {
		return apierrors.NewConflict(resource, "lease", errors.New("changed"))
	}
	r.lease.record = &record
	r.lease.version++
	close(r.lease.changed)
	r.lease.changed = make(chan struct{})
	r.version = r.lease.version
	return nil
}

func (r *replica) RecordEvent(string) {}
func (r *replica) Identity() string   { return r.name }
func (r *replica) Describe() string   { return "mcs-system/test" }

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return ""
	}
	return l.record.HolderIdentity
}

func untilCanceled(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// within waits until a condition holds, in the time of the bubble.
func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	begun := time.Now()
	for !condition() {
		if time.Since(begun) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%s: after %s", what, time.Since(begun))
}

// R155: leadership moves away from a replica whose server is not ready, and the process of
// that replica goes on and can lead again.
func TestLeadershipFollowsTheReadinessOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newLease()
		first := start(t, "first", shared, untilCanceled)
		within(t, 2*settling, "first leads", func() bool { return first.leading.Load() == 1 })
		second := start(t, "second", shared, untilCanceled)
		time.Sleep(time.Minute)
		if second.terms.Load() != 0 || first.terms.Load() != 1 {
			t.Fatalf("terms: first %d, second %d", first.terms.Load(), second.terms.Load())
		}

		first.ready.Store(false)
		within(t, 5*time.Second, "second takes over", func() bool { return second.leading.Load() == 1 })
		if first.leading.Load() != 0 {
			t.Error("first leads without a ready server")
		}
		second.ready.Store(false)
		within(t, 5*time.Second, "nobody leads", func() bool { return shared.holder() == "" })
		time.Sleep(time.Minute)
		if first.terms.Load() != 1 || second.terms.Load() != 1 {
			t.Error("a replica without a ready server campaigned")
		}
		first.ready.Store(true)
		within(t, 5*time.Second, "first leads again", func() bool { return first.leading.Load() == 1 })

		first.end(t)
		if shared.holder() != "" {
			t.Error("Lease was not released at the end of the process")
		}
		second.ready.Store(true)
		within(t, 5*time.Second, "second leads again", func() bool { return second.leading.Load() == 1 })
		second.end(t)
	})
}

// R156: a leader that cannot reach the kube-apiserver stops writing before its Lease
// expires, and campaigns again when it can.
func TestLeaderWithoutConnectionStopsBeforeItsLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newLease()
		first := start(t, "first", shared, untilCanceled)
		within(t, 2*settling, "first leads", func() bool { return first.leading.Load() == 1 })
		second := start(t, "second", shared, untilCanceled)
		time.Sleep(10 * time.Second)

		first.connected.Store(false)
		within(t, timing.LeaseDuration, "first stops", func() bool { return first.leading.Load() == 0 })
		if second.terms.Load() != 0 {
			t.Error("the Lease expired before the leader stopped")
		}
		within(t, 2*timing.LeaseDuration, "second takes over", func() bool { return second.leading.Load() == 1 })
		second.end(t)
		first.connected.Store(true)
		within(t, 10*time.Second, "first leads again", func() bool { return first.leading.Load() == 1 })
		first.end(t)
	})
}

// R524: a candidate tells when it begins to lead and when it has stopped, however that comes about.
func TestCandidateTellsWhetherItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		r := startWith(t, "first", newLease(), untilCanceled, nil, leads.Store)
		within(t, 2*settling, "it leads", leads.Load)
		r.ready.Store(false)
		within(t, 5*time.Second, "it steps down", func() bool { return !leads.Load() })
		r.ready.Store(true)
		within(t, 5*time.Second, "it leads again", leads.Load)
		r.connected.Store(false)
		within(t, timing.LeaseDuration, "it loses its Lease", func() bool { return !leads.Load() })
		r.end(t)
		ctx, stop := context.WithCancel(t.Context())
		alone := Candidate{Leading: leads.Store}
		if err := alone.Run(ctx, func(context.Context) error {
			if !leads.Load() {
				t.Error("a candidate without Lease does not tell that it leads")
			}
			stop()
			return nil
		}); err != nil || leads.Load() {
			t.Errorf("leads %t after the end, error %v", leads.Load(), err)
		}
	})
}

// R192: a Lease is acquired when it expires, as soon as it was released, and without
// requests until then. A replica whose watch shows nothing needs twice as long at most.
func TestLeaseIsAcquiredAsSoonAsItIsVacant(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(*replica)
		blind bool
		limit time.Duration
	}{
		"expired":            {func(leader *replica) { leader.connected.Store(false) }, false, timing.LeaseDuration + 100*time.Millisecond},
		"expired, no watch":  {func(leader *replica) { leader.connected.Store(false) }, true, 2*timing.LeaseDuration + 100*time.Millisecond},
		"released":           {func(leader *replica) { leader.stop() }, false, 100 * time.Millisecond},
		"released, no watch": {func(leader *replica) { leader.stop() }, true, timing.LeaseDuration + 100*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // attempts were at random times
				synctest.Test(t, func(t *testing.T) {
					shared := newLease()
					first := start(t, "first", shared, untilCanceled)
					within(t, 2*settling, "first leads", func() bool { return first.leading.Load() == 1 })
					second := start(t, "second", shared, untilCanceled)
					second.blind.Store(test.blind)
					time.Sleep(time.Minute)
					if requests := second.requests.Load(); !test.blind && requests > 1 {
						t.Errorf("second read the Lease %d times", requests)
					}
					test.end(first)
					within(t, test.limit, "second takes over", func() bool { return second.leading.Load() == 1 })
					second.end(t)
					first.end(t)
				})
			}
		})
	}
}

// The Lease is held until the leader has stopped, however long that takes.
func TestLeaseIsReleasedWhenTheLeaderHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ending = 20 * time.Second
		shared := newLease()
		first := start(t, "first", shared, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(ending)
			return nil
		})
		within(t, 2*settling, "first leads", func() bool { return first.leading.Load() == 1 })
		second := start(t, "second", shared, untilCanceled)
		first.ready.Store(false)
		within(t, ending+10*time.Second, "second takes over", func() bool {
			if second.terms.Load() > 0 && first.leading.Load() > 0 {
				t.Fatal("two replicas lead")
			}
			return second.leading.Load() == 1
		})
		first.end(t)
		second.end(t)
	})
}

func TestFirstErrorOfALeaderEndsTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		shared := newLease()
		replica := start(t, "first", shared, func(context.Context) error { return failed })
		if err := <-replica.ended; !errors.Is(err, failed) {
			t.Errorf("got %v", err)
		}
		if shared.holder() != "" {
			t.Error("Lease was not released")
		}
	})
}

// R156: whatever happens to readiness, connections and processes, at most one replica
// leads, and one does when all is well again.
func TestAtMostOneReplicaLeads(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible
			shared, leaders := newLease(), atomic.Int32{}
			lead := func(ctx context.Context) error {
				if leaders.Add(1) > 1 {
					t.Errorf("seed %d: two replicas lead", seed)
				}
				<-ctx.Done()
				time.Sleep(200 * time.Millisecond) // requests in flight
				leaders.Add(-1)
				return nil
			}
			replicas := []*replica{start(t, "a", shared, lead), start(t, "b", shared, lead), start(t, "c", shared, lead)}
			for range 200 {
				one := replicas[random.IntN(len(replicas))]
				switch random.IntN(5) {
				case 0:
					one.ready.Store(random.IntN(2) == 0)
				case 1:
					one.connected.Store(random.IntN(2) == 0)
				case 2:
					time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
				case 3:
					one.blind.Store(random.IntN(2) == 0)
				case 4:
					one.late.Store(random.IntN(2) == 0)
				}
			}
			for _, one := range replicas {
				one.ready.Store(true)
				one.connected.Store(true)
				one.late.Store(false)
			}
			within(t, 20*time.Second, "one leads", func() bool { return leaders.Load() == 1 })
			for _, one := range replicas {
				one.end(t)
			}
		})
	}
}

func TestTimingMustNotAllowTwoLeaders(t *testing.T) {
	for _, test := range []struct {
		lease, renew, retry time.Duration
		valid               bool
	}{
		{6 * time.Second, 3 * time.Second, time.Second, true},
		{5500 * time.Millisecond, 3 * time.Second, time.Second, false},
		{15 * time.Second, 8 * time.Second, 2 * time.Second, true},
		{15 * time.Second, 10 * time.Second, 2 * time.Second, false}, // a response may take 5 s
		{3 * time.Second, 1500 * time.Millisecond, 400 * time.Millisecond, true},
		{3 * time.Second, 2 * time.Second, 400 * time.Millisecond, false},         // or 1 s
		{3900 * time.Millisecond, 2 * time.Second, 400 * time.Millisecond, false}, // the Lease has whole seconds
		{6 * time.Second, 5 * time.Second, time.Second, false},
		{6 * time.Second, 2 * time.Second, time.Second, false},
		{6 * time.Second, 3 * time.Second, 0, false},
	} {
		if err := (Timing{test.lease, test.renew, test.retry}).Validate(); (err == nil) != test.valid {
			t.Errorf("%s, %s, %s: %v", test.lease, test.renew, test.retry, err)
		}
	}
}
