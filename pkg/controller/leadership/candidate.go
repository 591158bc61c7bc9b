// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leadership decides which replica may write. A replica that loses its Lease,
// or gives it up because it is not able to lead, stops writing and campaigns again
// later; its process and its caches remain.
package leadership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// releaseTimeout limits the request that releases a Lease. Without it, the Lease expires.
const releaseTimeout = 2 * time.Second

// Timing is how often a Lease is renewed, and when it expires. A leader that cannot renew
// its Lease stops writing when RetryPeriod and RenewDeadline have passed since it received
// the last response, which must be before LeaseDuration has since the request took effect.
type Timing struct {
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// timeout returns how long a response takes at most. It is that of
// resourcelock.NewFromKubeconfig.
func (t Timing) timeout() time.Duration { return max(time.Second, t.RenewDeadline/2) }

// Validate returns an error for a timing with which two replicas could write at a time.
func (t Timing) Validate() error {
	if t.RetryPeriod <= 0 || t.RenewDeadline <= 2*t.RetryPeriod {
		return fmt.Errorf("renew deadline %s must be more than twice the retry period %s, which must be positive", t.RenewDeadline, t.RetryPeriod)
	}
	if t.LeaseDuration.Truncate(time.Second) <= t.RenewDeadline+t.RetryPeriod+t.timeout() {
		return fmt.Errorf("lease duration %s, in whole seconds, must be longer than renew deadline %s, retry period %s and the timeout of a request %s together: otherwise a leader without connection writes after its Lease expired",
			t.LeaseDuration, t.RenewDeadline, t.RetryPeriod, t.timeout())
	}
	return nil
}

// Candidate campaigns for a Lease.
type Candidate struct {
	// Lock is the Lease; nil to lead without one. Its requests must have a timeout, as
	// those of resourcelock.NewFromKubeconfig have.
	Lock resourcelock.Interface
	// Watch passes on every state of the Lease until its context is canceled. So a replica
	// that waits for the Lease to expire notices at once, and makes no requests meanwhile.
	Watch func(ctx context.Context, observe func(resourcelock.LeaderElectionRecord))
	Timing
	// Health decides when the candidate campaigns; nil for always.
	Health *Health
	// Yield returns when another replica should lead instead, or its context is canceled;
	// nil for never. It is called whenever this replica leads. Another replica then has
	// twice LeaseDuration to acquire the Lease, before this one campaigns again.
	Yield func(context.Context)
	// Hesitate reports whether any other replica should lead rather than this one; nil for
	// never. Others can then acquire the Lease LeaseDuration earlier.
	Hesitate func() bool
	// Leading is called when this replica begins to lead, and when it has stopped; nil for
	// never. The metric of the library does not tell that a replica steps down.
	Leading func(bool)
}

// errYielded is why a replica that could lead does not.
var errYielded = errors.New("another replica should lead")

// Run calls lead whenever this replica holds the Lease, and cancels its context when the
// replica should not lead any more. The Lease is released after lead has returned. Run
// returns when the context is canceled, or with the first error of lead.
func (c *Candidate) Run(ctx context.Context, lead func(context.Context) error) error {
	lead = c.reported(lead)
	var lease *vacancy
	if c.Lock != nil {
		lease = newVacancy(c.Lock.Identity())
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { c.Watch(watching, lease.observe) })
		defer watch.Wait()
		defer stop()
	}
	for ctx.Err() == nil {
		able, cancel := c.awaitHealth(ctx)
		err := c.campaign(able, lease, lead)
		cancel()
		switch {
		case errors.Is(err, errYielded):
			select {
			case <-ctx.Done():
			case <-time.After(2 * c.LeaseDuration): // others may hesitate, too
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// reported returns a function that leads and calls Leading.
func (c *Candidate) reported(lead func(context.Context) error) func(context.Context) error {
	if c.Leading == nil {
		return lead
	}
	return func(ctx context.Context) error {
		c.Leading(true)
		defer c.Leading(false)
		return lead(ctx)
	}
}

// awaitHealth returns a context that is canceled when the replica becomes unhealthy.
func (c *Candidate) awaitHealth(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Health == nil {
		return context.WithCancel(ctx)
	}
	return c.Health.Await(ctx)
}

// campaign waits until the Lease is vacant, tries to acquire it, and leads. It returns when
// another replica was faster, the context is canceled or the Lease was lost, after lead has
// returned.
func (c *Candidate) campaign(ctx context.Context, lease *vacancy, lead func(context.Context) error) error {
	if c.Lock == nil {
		return lead(ctx)
	}
	klog.FromContext(ctx).Info("Leading when no other replica does", "lease", c.Lock.Describe())
	if !lease.await(ctx, c.RetryPeriod, c.hesitation) {
		return nil
	}
	// The Lease is renewed until lead has returned: a leader that is told to stop still
	// has requests in flight.
	holding, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	lock := &observedLock{Interface: c.Lock, lease: lease, hesitation: c.hesitation, held: drop}
	stopAcquiring := context.AfterFunc(ctx, func() {
		if !lock.acquired.Load() {
			drop()
		}
	})
	defer stopAcquiring()

	led := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: c.Lock.Describe(),
		LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod,
		// The library would release the Lease before it tells the leader to stop, and wait
		// for the response for another renew deadline.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				defer drop()
				led <- c.leadWhile(ctx, held, lead)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("set up leader election: %w", err)
	}
	elector.Run(holding)
	if !lock.acquired.Load() {
		return nil
	}
	err = <-led
	c.release(ctx)
	return err
}

// hesitation returns for how long the Lease must have been vacant.
func (c *Candidate) hesitation() time.Duration {
	if c.Hesitate != nil && c.Hesitate() {
		return c.LeaseDuration
	}
	return 0
}

// leadWhile leads until one of the contexts is canceled or another replica should lead.
func (c *Candidate) leadWhile(ctx, held context.Context, lead func(context.Context) error) error {
	leading, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(held, func() { stop(nil) })()
	var yielding sync.WaitGroup
	if c.Yield != nil {
		yielding.Go(func() {
			c.Yield(leading)
			stop(errYielded) // unless it was stopped before
		})
	}
	err := lead(leading)
	cause := context.Cause(leading)
	stop(nil)
	yielding.Wait()
	if err == nil && errors.Is(cause, errYielded) {
		return errYielded
	}
	return err
}

// release lets another replica acquire the Lease at once, unless it was lost.
func (c *Candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	record, _, err := c.Lock.Get(ctx)
	if err == nil && record.HolderIdentity != c.Lock.Identity() {
		return
	}
	if err == nil {
		now := metav1.Now()
		err = c.Lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
		})
	}
	if err != nil {
		klog.FromContext(ctx).Info("Failed to release Lease; other replicas wait until it expires", "lease", c.Lock.Describe(), "err", err)
	}
}

// observedLock observes that the elector acquired the Lease. The elector calls
// OnStartedLeading in a goroutine that may not have begun when the elector returns.
// Before, it decides whether the Lease has expired: the elector has not observed it long
// enough.
type observedLock struct {
	resourcelock.Interface
	acquired   atomic.Bool
	lease      *vacancy
	hesitation func() time.Duration
	// held ends the attempt to acquire the Lease.
	held func()
}

// RecordEvent implements resourcelock.Interface. The elector calls it whenever it has
// acquired the Lease, before OnStartedLeading.
func (l *observedLock) RecordEvent(event string) {
	l.acquired.Store(true)
	l.Interface.RecordEvent(event)
}

// Get implements resourcelock.Interface. It shows a Lease that has expired as released.
func (l *observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil || l.acquired.Load() {
		return record, raw, err
	}
	l.lease.observe(*record)
	shown := *record
	switch {
	case !l.lease.now(l.hesitation()):
		shown.HolderIdentity, shown.LeaseDurationSeconds = "another replica", max(1, shown.LeaseDurationSeconds)
		l.held()
	case shown.HolderIdentity != l.Identity():
		shown.HolderIdentity = ""
	}
	return &shown, raw, nil
}
