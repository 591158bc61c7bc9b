// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Watch returns a function for Candidate.Watch that watches a Lease.
func Watch(client kubernetes.Interface, namespace, name string) func(context.Context, func(resourcelock.LeaderElectionRecord)) {
	leases := client.CoordinationV1().Leases(namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return leases.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return leases.Watch(ctx, options)
		},
	}, client)
	return func(ctx context.Context, observe func(resourcelock.LeaderElectionRecord)) {
		changed := func(object any) {
			if lease, ok := object.(*coordinationv1.Lease); ok {
				observe(*resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec))
			}
		}
		// A Lease that is deleted is not vacant: its holder leads, and creates it again.
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: &coordinationv1.Lease{}, Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    changed,
			UpdateFunc: func(_, object any) { changed(object) },
		}})
		informer.RunWithContext(ctx)
	}
}

// vacancy is when a replica may acquire a Lease, by what it has observed of the Lease. As
// long as it has observed nothing, it may try.
type vacancy struct {
	// identity is that of this replica.
	identity string

	mu     sync.Mutex
	record resourcelock.LeaderElectionRecord
	// since is when the record was first observed.
	since time.Time
	// changed is closed and replaced whenever the record changes.
	changed chan struct{}
}

func newVacancy(identity string) *vacancy {
	return &vacancy{identity: identity, changed: make(chan struct{})}
}

// observe takes the present state of the Lease. Its own times are not compared with those
// of this replica: clocks differ.
func (v *vacancy) observe(record resourcelock.LeaderElectionRecord) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if equality.Semantic.DeepEqual(v.record, record) {
		return
	}
	v.record, v.since = record, time.Now()
	close(v.changed)
	v.changed = make(chan struct{})
}

// from returns when the Lease is vacant if it does not change.
func (v *vacancy) from() (at time.Time, changed <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.record.HolderIdentity == "" || v.record.HolderIdentity == v.identity {
		return v.since, v.changed
	}
	return v.since.Add(time.Duration(v.record.LeaseDurationSeconds) * time.Second), v.changed
}

// now reports whether the Lease has been vacant for a time.
func (v *vacancy) now(delay time.Duration) bool {
	at, _ := v.from()
	return !time.Now().Before(at.Add(delay))
}

// await waits until the Lease has been vacant for the time that delay returns, which is
// asked every period while the Lease is vacant. It reports false if the context was
// canceled before.
func (v *vacancy) await(ctx context.Context, period time.Duration, delay func() time.Duration) bool {
	for ctx.Err() == nil {
		at, changed := v.from()
		wait := time.Until(at)
		if wait <= 0 {
			if wait = min(period, time.Until(at.Add(delay()))); wait <= 0 {
				return true
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}
