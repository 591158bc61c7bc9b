// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The defaults of Kubernetes. A process that cannot renew the lease stops writing
// before another one can acquire it.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Exclusively calls move while this process holds a lease, and returns its result. Of
// several replicas, one moves objects and the others wait. The context of move
// ends when the lease is lost.
func Exclusively(ctx context.Context, lock resourcelock.Interface, move func(ctx context.Context) error) error {
	// The lease is released after move has returned, also if the context ends before.
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var begun atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				if !begun.CompareAndSwap(false, true) {
					return
				}
				leading, cancel := context.WithCancel(leading)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				result <- move(leading)
				release()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if begun.CompareAndSwap(false, true) { // do not begin anymore
			result <- ctx.Err()
			release()
		}
	})()
	elector.Run(holding)
	return <-result
}
