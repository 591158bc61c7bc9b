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
	lock := func(identity string) resourcelock.Interface {
		return &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "exclusive"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
	}
	// The first one holds the lease until the second one has given up.
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
	second := make(chan error, 1)
	go func() {
		second <- migrate.Exclusively(ctx, lock("second"), func(context.Context) error { return errors.New("moved at the same time") })
	}()
	third := func() {
		results <- migrate.Exclusively(t.Context(), lock("third"), func(context.Context) error {
			if others := active.Load(); others != 0 || ended.Load() != 1 {
				return fmt.Errorf("%d others move at the same time", others)
			}
			return nil
		})
	}
	go third()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("second: %v", err)
	}
	close(proceed)
	for range 2 {
		expect.NoError(t, <-results)
	}
}
