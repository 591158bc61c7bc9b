// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func storageNamespace(uid types.UID, deleting bool) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mcs-storage", UID: uid, ResourceVersion: "50"}}
	if deleting {
		namespace.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return namespace
}

func TestOnlyTheLivingNamespaceConfirmsAnAbsence(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "mcs-storage")
	for what, c := range map[string]struct {
		namespace *corev1.Namespace
		err       error
		want      string
		lost      bool
	}{
		"alive":         {namespace: storageNamespace("one", false)},
		"being deleted": {namespace: storageNamespace("one", true), want: "is being deleted: wait until it is deleted and created again, then restore its ConfigMaps", lost: true},
		"gone":          {err: notFound, want: "was deleted", lost: true},
		"made again":    {namespace: storageNamespace("two", false), want: "created again", lost: true},
		"unreachable":   {err: errors.New("connection refused"), want: "connection refused"},
	} {
		guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) { return c.namespace, c.err })
		guard.Open("one", 1)
		err := guard.Confirm(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
		if err != nil && !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v is not 503", what, err)
		}
		if err := guard.Gate().Usable(); (err != nil) != c.lost {
			t.Errorf("%s: usable: %v, want lost=%v", what, err, c.lost)
		}
	}
}

// A read that is in progress when an event arrives may have been answered before
// the event, and confirms nothing.
func TestConfirmationsShareAReadThatStartsAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		deleting := atomic.Bool{}
		guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) {
			reads.Add(1)
			answer := storageNamespace("one", deleting.Load())
			time.Sleep(time.Second)
			return answer, nil
		})
		guard.Open("one", 1)
		confirm := func() chan error {
			result := make(chan error, 1)
			go func() { result <- guard.Confirm(t.Context()) }()
			return result
		}
		first := confirm()
		synctest.Wait()
		deleting.Store(true)
		var later []chan error
		for range 50 {
			later = append(later, confirm())
		}
		if err := <-first; err != nil {
			t.Errorf("the read before the deletion failed: %v", err)
		}
		for _, result := range later {
			if err := <-result; err == nil {
				t.Error("an absence was confirmed by a read that started before it")
			}
		}
		if got := reads.Load(); got != 2 {
			t.Errorf("%d reads for 51 confirmations, want 2", got)
		}
	})
}

// R143, R658: all who observe the same deletion, or an earlier one, share a read, also when it is over.
// Those who observe a later one, or know no version, need another read.
func TestConfirmationsOfOneDeletionShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) {
			reads.Add(1)
			time.Sleep(10 * time.Millisecond)
			return storageNamespace("one", false), nil
		})
		guard.Open("one", 1)
		confirm := func(version uint64) {
			go func() {
				if err := guard.confirm(t.Context(), "one", version); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		expect := func(what string, want int32) {
			t.Helper()
			time.Sleep(100 * time.Millisecond)
			if got := reads.Swap(0); got != want {
				t.Errorf("%s: %d reads, want %d", what, got, want)
			}
		}
		for _, version := range []uint64{100, 100, 99} {
			confirm(version)
		}
		expect("during the read", 1)
		confirm(100)
		confirm(98)
		expect("after the read", 0)
		confirm(101)
		confirm(102)
		confirm(101)
		expect("a later deletion during the read", 2)
		confirm(0)
		expect("an unknown version", 1)
		time.Sleep(2 * maxShared) // the host is restored from a backup
		confirm(0)
		expect("an unknown version after a while", 1)
		confirm(50)
		expect("versions that begin anew", 1)
		confirm(60)
		expect("a later deletion after that", 1)
		confirm(60)
		expect("the same deletion", 0)
	})
}

// A read that failed is not shared by those who come later.
func TestConfirmationIsRepeatedAfterAFailure(t *testing.T) {
	failure := errors.New("connection refused")
	guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) {
		return storageNamespace("one", false), failure
	})
	guard.Open("one", 1)
	if err := guard.confirm(t.Context(), "one", 100); err == nil {
		t.Error("a failed read confirmed a deletion")
	}
	failure = nil
	if err := guard.confirm(t.Context(), "one", 100); err != nil {
		t.Error(err)
	}
}

// R143: a deletion that is reported to somebody else while the namespace is being deleted is not
// confirmed because an earlier one was.
func TestConfirmationEndsWithTheNamespace(t *testing.T) {
	deleting := false
	guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) {
		return storageNamespace("one", deleting), nil
	})
	guard.Open("one", 1)
	if err := guard.confirm(t.Context(), "one", 100); err != nil {
		t.Fatal(err)
	}
	deleting = true
	for _, version := range []uint64{101, 101, 100} {
		if err := guard.confirm(t.Context(), "one", version); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a deletion at version %d was confirmed: %v", version, err)
		}
	}
}

// What was observed in a namespace is not confirmed by the next namespace of the
// same name, even if its content was restored.
func TestReopenedNamespaceDoesNotConfirmAnEarlierAbsence(t *testing.T) {
	alive := storageNamespace("one", false)
	guard := NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) { return alive, nil })
	guard.Open("one", 1)
	before, err := guard.usable()
	if err != nil {
		t.Fatal(err)
	}
	alive = storageNamespace("two", false)
	guard.Open("two", 2)
	if err := guard.confirm(t.Context(), before.uid, 0); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want 503", err)
	}
	if err := guard.Confirm(t.Context()); err != nil {
		t.Errorf("the namespace that was opened last: %v", err)
	}
}
