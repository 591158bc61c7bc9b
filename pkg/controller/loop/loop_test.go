// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var (
	web    = types.NamespacedName{Namespace: "shop", Name: "web"}
	behind = apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", errors.New("changed"))
	exists = apierrors.NewAlreadyExists(schema.GroupResource{Resource: "services"}, "web")
)

// logged is a context whose log can be read.
func logged(t *testing.T) (context.Context, func() string) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	return klog.NewContext(t.Context(), logger), func() string {
		return logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	}
}

// A key that fails is tried again, later and later, and starts anew once it
// succeeded. Only what does not go away by itself is told.
func TestFailuresAreTriedAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		errs   []error
		told   int
		passed time.Duration // until all is done
	}{
		{"success", []error{nil}, 0, 0},
		{"failures", []error{errors.New("no"), errors.New("no"), errors.New("no"), nil}, 3, 350 * time.Millisecond},
		{"conflict", []error{behind, nil}, 0, 50 * time.Millisecond},
		{"made already", []error{exists, exists, nil}, 0, 150 * time.Millisecond},
		{"wrapped", []error{errors.Join(errors.New("write"), behind), nil}, 0, 50 * time.Millisecond},
		{"always in the way", []error{exists, exists, exists, exists, exists, exists, exists, exists, nil}, 2, 12750 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, log := logged(t)
				ctx, cancel := context.WithCancel(ctx)
				queue := NewQueue("test")
				start, calls := time.Now(), 0
				var passed time.Duration
				queue.Add(web)
				Run(ctx, queue, 3, nil, func(_ context.Context, key types.NamespacedName) error {
					if key != web {
						t.Errorf("key %s", key)
					}
					err := test.errs[calls]
					if calls++; calls == len(test.errs) {
						passed = time.Since(start)
						cancel()
					}
					return err
				})
				if calls != len(test.errs) || passed != test.passed {
					t.Errorf("%d calls in %s, want %d in %s", calls, passed, len(test.errs), test.passed)
				}
				if told := strings.Count(log(), "Trying again"); told != test.told {
					t.Errorf("told %d times, want %d: %s", told, test.told, log())
				}
				if again := queue.NumRequeues(web); again != 0 {
					t.Errorf("after success %d failures are remembered", again)
				}
			})
		})
	}
}

func TestNothingIsDoneBeforeTheCachesAreComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var complete, worked atomic.Bool
		queue := NewQueue("test")
		queue.Add(web)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx, queue, 1, []cache.InformerSynced{func() bool { return true }, complete.Load}, func(context.Context, types.NamespacedName) error {
				worked.Store(true)
				return nil
			})
		}()
		time.Sleep(time.Minute) // of the bubble's time
		if worked.Load() {
			t.Error("it works although a cache is not complete")
		}
		complete.Store(true)
		time.Sleep(time.Second)
		if !worked.Load() {
			t.Error("it does not work although all caches are complete")
		}
		cancel()
		<-ended
	})
}

func TestEndBeforeTheCachesAreComplete(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	queue := NewQueue("test")
	queue.Add(web)
	Run(ctx, queue, 1, []cache.InformerSynced{func() bool { return false }}, func(context.Context, types.NamespacedName) error {
		t.Error("it works")
		return nil
	})
	if !queue.ShuttingDown() {
		t.Error("the queue is left running")
	}
}

// The end does not wait for what is still to be done, but for what is being
// done; what failed because of it is no failure.
func TestEndWaitsForWhatIsBeingDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, log := logged(t)
		ctx, cancel := context.WithCancel(ctx)
		queue := NewQueue("test")
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			queue.Add(types.NamespacedName{Name: name})
		}
		var begun, done atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx, queue, 2, nil, func(ctx context.Context, _ types.NamespacedName) error {
				begun.Add(1)
				<-ctx.Done()
				time.Sleep(time.Second) // of the bubble's time
				done.Add(1)
				return ctx.Err()
			})
		}()
		synctest.Wait()
		cancel()
		<-ended
		if begun.Load() != 2 || done.Load() != 2 {
			t.Errorf("%d were begun and %d done, want 2 by the two workers", begun.Load(), done.Load())
		}
		if strings.Contains(log(), "Trying again") {
			t.Errorf("the end was taken for a failure: %s", log())
		}
	})
}

func TestEveryChangeIsSeen(t *testing.T) {
	var seen []string
	handler := OnChange(func(object metav1.Object) { seen = append(seen, object.GetName()) })
	named := func(name string) *corev1.Service { return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	handler.OnAdd(named("added"), false)
	handler.OnUpdate(named("before"), named("after"))
	handler.OnDelete(named("deleted"))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "x", Obj: named("lost")})
	handler.OnDelete("nonsense")
	if want := []string{"added", "before", "after", "deleted", "lost"}; !slices.Equal(seen, want) {
		t.Errorf("seen are %v, want %v", seen, want)
	}
}

// In a namespace that is being deleted nothing can be made: that is not tried
// again, since the end of what it was for is an event of its own.
func TestNothingIsTriedAgainInANamespaceThatIsGoing(t *testing.T) {
	going := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	synctest.Test(t, func(t *testing.T) {
		ctx, log := logged(t)
		ctx, cancel := context.WithCancel(ctx)
		queue := NewQueue("test")
		var calls atomic.Int32
		queue.Add(web)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(ctx, queue, 1, nil, func(context.Context, types.NamespacedName) error {
				calls.Add(1)
				return fmt.Errorf("write: %w", going)
			})
		}()
		time.Sleep(time.Hour) // of the bubble's time
		cancel()
		<-ended
		if calls.Load() != 1 || strings.Contains(log(), "Trying again") {
			t.Errorf("%d calls, and said: %s", calls.Load(), log())
		}
	})
}
