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
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

var (
	web    = types.NamespacedName{Namespace: "shop", Name: "web"}
	behind = apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web", errors.New("changed"))
	exists = apierrors.NewAlreadyExists(schema.GroupResource{Resource: "services"}, "web")
)

// logged returns a context and a function that returns what was logged with it.
func logged(t *testing.T) (context.Context, func() string) {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	return klog.NewContext(t.Context(), logger), func() string {
		return logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	}
}

// A key that fails is retried with back-off, which starts anew after a success. Only
// errors that do not go away by themselves are logged.
func TestFailuresAreRetried(t *testing.T) {
	for _, test := range []struct {
		name   string
		errs   []error
		logged int
		passed time.Duration // until the last call
	}{
		{"success", []error{nil}, 0, 0},
		{"failures", []error{errors.New("no"), errors.New("no"), errors.New("no"), nil}, 3, 350 * time.Millisecond},
		{"conflict", []error{behind, nil}, 0, 50 * time.Millisecond},
		{"exists already", []error{exists, exists, nil}, 0, 150 * time.Millisecond},
		{"wrapped", []error{errors.Join(errors.New("write"), behind), nil}, 0, 50 * time.Millisecond},
		{"keeps existing", []error{exists, exists, exists, exists, exists, exists, exists, exists, nil}, 2, 12750 * time.Millisecond},
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
						t.Errorf("reconciled key %s, want %s", key, web)
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
				if logged := strings.Count(log(), "Failed to reconcile"); logged != test.logged {
					t.Errorf("logged %d times, want %d: %s", logged, test.logged, log())
				}
				if again := queue.NumRequeues(web); again != 0 {
					t.Errorf("%d failures are remembered after success", again)
				}
			})
		})
	}
}

func TestNothingIsReconciledBeforeTheCachesSync(t *testing.T) {
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
		time.Sleep(time.Minute) // in the bubble
		if worked.Load() {
			t.Error("reconciled a key before all caches synced")
		}
		complete.Store(true)
		time.Sleep(time.Second)
		if !worked.Load() {
			t.Error("reconciled no key after all caches synced")
		}
		cancel()
		<-ended
	})
}

func TestRunReturnsWhenCanceledBeforeTheCachesSync(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	queue := NewQueue("test")
	queue.Add(web)
	Run(ctx, queue, 1, []cache.InformerSynced{func() bool { return false }}, func(context.Context, types.NamespacedName) error {
		t.Error("reconciled a key")
		return nil
	})
	if !queue.ShuttingDown() {
		t.Error("the queue is not shut down")
	}
}

// Run waits for the keys that are being reconciled, not for those in the queue. An
// error that the cancellation caused is not logged.
func TestRunWaitsForKeysInProgress(t *testing.T) {
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
				time.Sleep(time.Second) // in the bubble
				done.Add(1)
				return ctx.Err()
			})
		}()
		synctest.Wait()
		cancel()
		<-ended
		if begun.Load() != 2 || done.Load() != 2 {
			t.Errorf("%d keys started and %d finished, want 2 for two workers", begun.Load(), done.Load())
		}
		if strings.Contains(log(), "Failed to reconcile") {
			t.Errorf("the cancellation was logged as a failure: %s", log())
		}
	})
}

func TestOnChangeHandlesEveryState(t *testing.T) {
	var seen []string
	handler := OnChange(func(object metav1.Object) { seen = append(seen, object.GetName()) })
	named := func(name string) *corev1.Service { return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	handler.OnAdd(named("added"), false)
	handler.OnUpdate(named("before"), named("after"))
	handler.OnDelete(named("deleted"))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "x", Obj: named("lost")})
	handler.OnDelete("nonsense")
	if want := []string{"added", "before", "after", "deleted", "lost"}; !slices.Equal(seen, want) {
		t.Errorf("handled %v, want %v", seen, want)
	}
}

// Nothing can be created in a terminating namespace. Such a failure is not retried,
// since the deletion of the namespace's objects causes events of its own.
func TestFailureInTerminatingNamespaceIsNotRetried(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
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
				return fmt.Errorf("write: %w", terminating)
			})
		}()
		time.Sleep(time.Hour) // in the bubble
		cancel()
		<-ended
		if calls.Load() != 1 || strings.Contains(log(), "Failed to reconcile") {
			t.Errorf("%d calls, want 1; log: %s", calls.Load(), log())
		}
	})
}

// Prometheus notices an increase only of what it has read before.
func TestPanicsAreCountedFromTheStart(t *testing.T) {
	NewQueue("quiet").ShutDown()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "mcs_controller_reconcile_panics_total" && metric.GetLabel()[0].GetValue() == "quiet" {
				if count := metric.GetCounter().GetValue(); count != 0 {
					t.Errorf("counted %v panics", count)
				}
				return
			}
		}
	}
	t.Error("there is no metric before the first panic")
}

// A panic while one key is reconciled is a failure of that key: the process goes on,
// other keys are reconciled, and the key is retried with back-off.
func TestPanicIsAFailureOfItsKey(t *testing.T) {
	for _, name := range []string{"nil pointer", "value"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, log := logged(t)
				ctx, cancel := context.WithCancel(ctx)
				queue := NewQueue("panics-" + strings.ReplaceAll(name, " ", "-"))
				other := types.NamespacedName{Namespace: "shop", Name: "other"}
				var calls []string
				start := time.Now()
				queue.Add(web)
				queue.Add(other)
				Run(ctx, queue, 1, nil, func(_ context.Context, key types.NamespacedName) error {
					calls = append(calls, fmt.Sprint(key.Name, " ", time.Since(start)))
					switch {
					case key == other:
					case len(calls) > 3:
						cancel()
					case name == "nil pointer":
						var service *corev1.Service
						_ = service.Spec.Ports
					default:
						panic("broken")
					}
					return nil
				})
				if want := []string{"web 0s", "other 0s", "web 50ms", "web 150ms"}; !slices.Equal(calls, want) {
					t.Errorf("got calls %v, want %v", calls, want)
				}
				for _, part := range []string{"Recovered from panic", `namespace="shop"`, `name="web"`, "loop_test.go", "Failed to reconcile, retrying"} {
					if !strings.Contains(log(), part) {
						t.Errorf("log does not contain %q: %s", part, log())
					}
				}
				if count, err := testutil.GetCounterMetricValue(panics.WithLabelValues(queue.name)); err != nil || count != 2 {
					t.Errorf("counted %v panics (%v), want 2", count, err)
				}
			})
		})
	}
}
