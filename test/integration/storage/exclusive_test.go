// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/migrate"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R178: of several replicas, one at a time moves objects.
func TestOneReplicaAtATimeMoves(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(expect.Must(plane.AdminConfig())(t))
	expect.NoError(t, err)
	lock := func(identity string) *observedLock {
		return &observedLock{Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "exclusive"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}, read: make(chan struct{}, 100)}
	}
	// The first one holds the lease until both others have tried to acquire it, and the second
	// one has given up.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, proceed := make(chan struct{}), make(chan struct{})
	results := make(chan error, 3)
	var active, ended atomic.Int32
	go func() {
		results <- migrate.Exclusively(t.Context(), lock("first"), func(context.Context) error {
			active.Add(1)
			close(begun)
			<-proceed
			active.Add(-1)
			ended.Add(1)
			return nil
		})
	}()
	<-begun
	second, locks := make(chan error, 1), []*observedLock{lock("second"), lock("third")}
	go func() {
		second <- migrate.Exclusively(ctx, locks[0], func(context.Context) error { return errors.New("moved at the same time") })
	}()
	third := func() {
		results <- migrate.Exclusively(t.Context(), locks[1], func(context.Context) error {
			if others := active.Load(); others != 0 || ended.Load() != 1 {
				return fmt.Errorf("%d others move at the same time", others)
			}
			return nil
		})
	}
	go third()
	for _, lock := range locks {
		for range 2 { // the first attempt has ended when the second one begins
			select {
			case <-lock.read:
			case err := <-second:
				t.Fatalf("the second one did not wait for the first one: %v", err)
			case err := <-results:
				t.Fatalf("the third one did not wait for the first one: %v", err)
			}
		}
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("second: %v", err)
	}
	close(proceed)
	for range 2 {
		expect.NoError(t, <-results)
	}
}

// observedLock observes attempts to acquire a lock, each of which reads it first.
type observedLock struct {
	resourcelock.Interface
	read chan struct{}
}

// Get implements resourcelock.Interface.
func (l *observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	select {
	case l.read <- struct{}{}:
	default:
	}
	return l.Interface.Get(ctx)
}
