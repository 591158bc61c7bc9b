// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// atMost lowers the limits for a test.
func atMost(t *testing.T, limit [kinds]int) {
	t.Helper()
	before := mostObjects
	mostObjects = limit
	t.Cleanup(func() { mostObjects = before })
}

func TestWatchEndsWhenItBringsTooMuch(t *testing.T) {
	atMost(t, [kinds]int{services: 2, endpointSlices: 2})
	w, b := exporting(t, nil)
	incoming := watch.NewFakeWithChanSize(10, false)
	bounded := b.bounded(incoming, services, 1)
	incoming.Add(exportedService("b", "2"))
	incoming.Modify(exportedService("b", "2"))
	incoming.Delete(exportedService("b", "2"))
	incoming.Add(exportedService("b", "2"))
	incoming.Add(exportedService("b", "3"))
	incoming.Add(exportedService("b", "4"))
	var got []watch.EventType
	for event := range bounded.ResultChan() {
		got = append(got, event.Type)
		if event.Type == watch.Error && !apierrors.IsRequestEntityTooLargeError(apierrors.FromObject(event.Object)) {
			t.Errorf("the watch ends with %+v", event.Object)
		}
	}
	if fmt.Sprint(got) != "[ADDED MODIFIED DELETED ADDED ERROR]" {
		t.Errorf("got %v", got)
	}
	if !incoming.IsStopped() {
		t.Error("the member still sends")
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "TooManyExports", "more than 2 exportedservices")
	if w.exports("web") != "b" {
		t.Error("what was known before is gone")
	}
	// One kind being too many says nothing of the other.
	if b.overLimit(services) == nil || b.overLimit(endpointSlices) != nil {
		t.Errorf("services: %v, slices: %v", b.overLimit(services), b.overLimit(endpointSlices))
	}
	w.clock.Step(overLimitPause)
	if err := b.overLimit(services); err != nil {
		t.Errorf("it is never asked again: %v", err)
	}
}

// Nobody may be there to take the last events. That nothing is left waiting
// shows at the end of all tests.
func TestStoppedWatchLeavesNothingBehind(t *testing.T) {
	_, b := exporting(t, nil)
	incoming := watch.NewFakeWithChanSize(10, false)
	bounded := b.bounded(incoming, services, 0)
	incoming.Add(exportedService("b", "1"))
	incoming.Add(exportedService("b", "2"))
	<-bounded.ResultChan()
	bounded.Stop()
	bounded.Stop()
	for range bounded.ResultChan() {
	}
	if !incoming.IsStopped() {
		t.Error("the watch of the member goes on")
	}
}

// A member can answer a list in any number of pages.
func TestListEndsWhenItBringsTooMuch(t *testing.T) {
	atMost(t, [kinds]int{services: 2, endpointSlices: 2})
	w, b := exporting(t, nil)
	b.client = fake.NewSimpleClientset()
	pages := make(chan string, 1000)
	source := &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			select {
			case pages <- options.LabelSelector:
			default:
			}
			return &clustersetv1alpha1.ExportedServiceList{
				ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "more"},
				Items:    []clustersetv1alpha1.ExportedService{*exportedService("b", "other")},
			}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errors.New("there is nothing to watch")
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.follow(ctx, services, "selector", &clustersetv1alpha1.ExportedService{}, source)
	}()
	eventually(t, "the pages come to an end", func() bool { return b.overLimit(services) != nil })
	cancel()
	<-ended
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "TooManyExports", "more than 2 exportedservices")
	if w.exports("web") != "b" || w.exports("other") != "" {
		t.Error("what was known has changed")
	}
	if len(pages) != 3 || <-pages != "selector" {
		t.Errorf("%d pages were read, want 3", len(pages))
	}
}

// A version that has expired is no failure to be shown.
func TestExpiredVersionIsNoFailure(t *testing.T) {
	w, b := exporting(t, nil)
	for _, err := range []error{apierrors.NewResourceExpired("too old"), &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: http.StatusGone}}} {
		if got := b.failed(services, err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
		expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	}
}

// A reflector waits without looking at its context for a member that refuses
// connections, which would keep this server from ending.
func TestReflectorCannotWaitPastTheEnd(t *testing.T) {
	streaming := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
	for _, err := range []error{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), apierrors.NewTooManyRequests("busy", 1)} {
		hidden := interruptible(err, streaming)
		if utilnet.IsConnectionRefused(hidden) || apierrors.IsTooManyRequests(hidden) || hidden.Error() != err.Error() {
			t.Errorf("%v became %v", err, hidden)
		}
		if got := interruptible(err, metav1.ListOptions{}); !errors.Is(got, err) {
			t.Errorf("a watch that could go on has to begin anew after %v", err)
		}
	}
	expired := apierrors.NewResourceExpired("too old")
	if got := interruptible(expired, streaming); !apierrors.IsResourceExpired(got) {
		t.Errorf("%v became %v", expired, got)
	}
}
