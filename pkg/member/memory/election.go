// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaseName is the name of the Lease of the replica that writes.
const LeaseName = "mcs-apiserver-memory"

// The Lease is renewed rarely: another replica may take its time to take over,
// because all of them know what is to be written. It is not released, so that the
// last writes of a replica that ends cannot overlap with those of the next one.
const (
	leaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 5 * time.Second
)

// handOverTime is how long a replica that handed over does not campaign: the Lease
// expires, and another replica notices that.
const handOverTime = leaseDuration + 6*retryPeriod

// Election calls lead whenever this replica is elected, with a context that ends with
// the election. If lead returns before, another replica should be elected. Election
// returns when its context has ended and lead has returned.
type Election func(ctx context.Context, lead func(elected context.Context))

// Unopposed is the election of the only replica.
func Unopposed(ctx context.Context, lead func(context.Context)) {
	for ctx.Err() == nil {
		lead(ctx)
	}
}

// ByLease returns an election among the replicas that use the same Lease. identity
// identifies this replica, and is the same after a restart, so that it does not have
// to wait for its own Lease to expire.
func ByLease(client coordinationv1client.LeasesGetter, namespace, identity string) (Election, error) {
	elected := make(chan context.Context, 1)
	config := leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Name: LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { elected <- ctx },
			OnStoppedLeading: func() {},
		},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return nil, fmt.Errorf("set up election by Lease %s/%s: %w", namespace, LeaseName, err)
	}
	return func(ctx context.Context, lead func(context.Context)) {
		for ctx.Err() == nil {
			if !campaign(ctx, elector, elected, lead) {
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(handOverTime):
			}
		}
	}, nil
}

// campaign takes part in the election until the Lease is lost, or lead returned although
// it was not. It reports whether that is so.
func campaign(ctx context.Context, elector *leaderelection.LeaderElector, elected <-chan context.Context, lead func(context.Context)) (handedOver bool) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	leadUntil(ended, elected, func(leading context.Context) {
		lead(leading)
		handedOver = handedOver || leading.Err() == nil
		end()
	})
	return handedOver
}

// leadUntil calls lead with every context that it receives until an election has ended.
// A context that arrives later has ended, too.
func leadUntil(ended <-chan struct{}, elected <-chan context.Context, lead func(context.Context)) {
	for {
		select {
		case leading := <-elected:
			lead(leading)
		case <-ended:
			return
		}
	}
}
