// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

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

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// atMost lowers the limits for a test.
func atMost(t *testing.T, limit [exports.Kinds]int) {
	t.Helper()
	before := maxObjects
	maxObjects = limit
	t.Cleanup(func() { maxObjects = before })
}

func TestWatchEndsAtTheLimit(t *testing.T) {
	atMost(t, [exports.Kinds]int{exports.Services: 2, exports.EndpointSlices: 2})
	sink, b := newTestFeed(t)
	incoming := watch.NewFakeWithChanSize(10, false)
	limited := b.limit(incoming, exports.Services, 1)
	incoming.Add(membertest.ExportedService("b", "2"))
	incoming.Modify(membertest.ExportedService("b", "2"))
	incoming.Delete(membertest.ExportedService("b", "2"))
	incoming.Add(membertest.ExportedService("b", "2"))
	incoming.Add(membertest.ExportedService("b", "3"))
	incoming.Add(membertest.ExportedService("b", "4"))
	var got []watch.EventType
	for event := range limited.ResultChan() {
		got = append(got, event.Type)
		if event.Type == watch.Error && !apierrors.IsRequestEntityTooLargeError(apierrors.FromObject(event.Object)) {
			t.Errorf("the watch ends with %+v", event.Object)
		}
	}
	if fmt.Sprint(got) != "[ADDED MODIFIED DELETED ADDED ERROR]" {
		t.Errorf("got %v", got)
	}
	if !incoming.IsStopped() {
		t.Error("the watch of the member is still open")
	}
	sink.expectFailure(t, exports.Services, "more than 2 exportedservices")
	// The limit of one kind does not affect the other.
	if b.overLimit(exports.Services) == nil || b.overLimit(exports.EndpointSlices) != nil {
		t.Errorf("services: %v, slices: %v", b.overLimit(exports.Services), b.overLimit(exports.EndpointSlices))
	}
	sink.clock.Step(overLimitPause)
	if err := b.overLimit(exports.Services); err != nil {
		t.Errorf("the feed is not read again: %v", err)
	}
}

// The reader may be gone before the last events. Leaked goroutines are found at
// the end of all tests.
func TestStoppedWatchLeavesNothingBehind(t *testing.T) {
	_, b := newTestFeed(t)
	incoming := watch.NewFakeWithChanSize(10, false)
	limited := b.limit(incoming, exports.Services, 0)
	incoming.Add(membertest.ExportedService("b", "1"))
	incoming.Add(membertest.ExportedService("b", "2"))
	<-limited.ResultChan()
	limited.Stop()
	limited.Stop()
	for range limited.ResultChan() {
	}
	if !incoming.IsStopped() {
		t.Error("the watch of the member is still open")
	}
}

// A member can split a list into any number of pages.
func TestListEndsAtTheLimit(t *testing.T) {
	atMost(t, [exports.Kinds]int{exports.Services: 2, exports.EndpointSlices: 2})
	sink, b := newTestFeed(t)
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
				Items:    []clustersetv1alpha1.ExportedService{*membertest.ExportedService("b", "other")},
			}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errors.New("nothing to watch")
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.follow(ctx, exports.Services, "selector", &clustersetv1alpha1.ExportedService{}, source)
	}()
	membertest.Eventually(t, "the list ends", func() bool { return b.overLimit(exports.Services) != nil })
	cancel()
	<-ended
	sink.expectFailure(t, exports.Services, "more than 2 exportedservices")
	if got := sink.objects(); len(got) > 0 {
		t.Errorf("part of a list that exceeds the limit was passed on: %v", got)
	}
	if len(pages) != 3 || <-pages != "selector" {
		t.Errorf("%d pages were read, want 3", len(pages))
	}
}

// An expired resource version is not a failure to be reported.
func TestExpiredVersionIsNotAFailure(t *testing.T) {
	sink, b := newTestFeed(t)
	for _, err := range []error{apierrors.NewResourceExpired("too old"), &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: http.StatusGone}}} {
		if got := b.failed(exports.Services, err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
		sink.expectFailure(t, exports.Services, "")
	}
}

// A reflector ignores its context while it waits for a member that refuses
// connections, which would keep this server from stopping.
func TestReflectorCannotWaitPastTheEnd(t *testing.T) {
	streaming := metav1.ListOptions{SendInitialEvents: ptr.To(true)}
	for _, err := range []error{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), apierrors.NewTooManyRequests("busy", 1)} {
		hidden := interruptible(err, streaming)
		if utilnet.IsConnectionRefused(hidden) || apierrors.IsTooManyRequests(hidden) || hidden.Error() != err.Error() {
			t.Errorf("%v became %v", err, hidden)
		}
		if got := interruptible(err, metav1.ListOptions{}); !errors.Is(got, err) {
			t.Errorf("a watch that could continue has to start again after %v", err)
		}
	}
	expired := apierrors.NewResourceExpired("too old")
	if got := interruptible(expired, streaming); !apierrors.IsResourceExpired(got) {
		t.Errorf("%v became %v", expired, got)
	}
}
