// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
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

// watchServices returns the limited watch of Services, of which some are known.
func watchServices(f *Feed, incoming watch.Interface, known ...*clustersetv1alpha1.ExportedService) watch.Interface {
	limits := &limits{feed: f, kind: exports.Services, keys: sets.New[exports.Key]()}
	for _, object := range known {
		key, _ := exports.KeyOf(object)
		limits.keys.Insert(key)
	}
	return newLimitedWatch(incoming, limits.check, f.expiry(exports.Services))
}

// R201: objects are counted by key, however they arrive.
func TestWatchEndsAtTheLimit(t *testing.T) {
	atMost(t, [exports.Kinds]int{exports.Services: 2, exports.EndpointSlices: 2})
	sink, b := newTestFeed(t)
	incoming := watch.NewFakeWithChanSize(10, false)
	limited := watchServices(b, incoming, membertest.ExportedService("b", "1"))
	incoming.Add(membertest.ExportedService("b", "2"))
	incoming.Modify(membertest.ExportedService("b", "2"))
	incoming.Delete(membertest.ExportedService("b", "2"))
	incoming.Add(membertest.ExportedService("b", "2"))
	incoming.Add(membertest.ExportedService("b", "2"))
	incoming.Modify(membertest.ExportedService("b", "3"))
	incoming.Add(membertest.ExportedService("b", "4"))
	var got []watch.EventType
	for event := range limited.ResultChan() {
		got = append(got, event.Type)
		if event.Type == watch.Error && !apierrors.IsRequestEntityTooLargeError(apierrors.FromObject(event.Object)) {
			t.Errorf("the watch ends with %+v", event.Object)
		}
	}
	if fmt.Sprint(got) != "[ADDED MODIFIED DELETED ADDED ADDED ERROR]" {
		t.Errorf("got %v", got)
	}
	if !incoming.IsStopped() {
		t.Error("the watch of the member is still open")
	}
	sink.expectFailure(t, "more than 2 exportedservices")
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
	limited := watchServices(b, incoming)
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

// awaitLimit follows the Services that are selected until their list exceeds a limit.
func awaitLimit(t *testing.T, b *Feed, selector string, list cache.ListWithContextFunc) {
	t.Helper()
	source := &cache.ListWatch{
		ListWithContextFunc: list,
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, errors.New("nothing to watch")
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.follow(ctx, exports.Services, selector, &clustersetv1alpha1.ExportedService{}, source)
	}()
	membertest.Eventually(t, "the list ends", func() bool { return b.overLimit(exports.Services) != nil })
	cancel()
	<-ended
}

// A member can split a list into any number of pages.
func TestListEndsAtTheLimit(t *testing.T) {
	atMost(t, [exports.Kinds]int{exports.Services: 2, exports.EndpointSlices: 2})
	sink, b := newTestFeed(t)
	b.client = fake.NewSimpleClientset()
	pages := make(chan string, 1000)
	awaitLimit(t, b, "selector", func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
		select {
		case pages <- options.LabelSelector:
		default:
		}
		return &clustersetv1alpha1.ExportedServiceList{
			ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "more"},
			Items:    []clustersetv1alpha1.ExportedService{*membertest.ExportedService("b", "other")},
		}, nil
	})
	sink.expectFailure(t, "more than 2 exportedservices")
	if got := sink.objects(); len(got) > 0 {
		t.Errorf("part of a list that exceeds the limit was passed on: %v", got)
	}
	if len(pages) != 3 || <-pages != "selector" {
		t.Errorf("%d pages were read, want 3", len(pages))
	}
}

// R200: a list ends, even if none of its pages contains anything.
func TestListOfEmptyPagesEnds(t *testing.T) {
	sink, b := newTestFeed(t)
	b.client = fake.NewSimpleClientset()
	var pages atomic.Int32
	awaitLimit(t, b, "", func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		pages.Add(1)
		return &clustersetv1alpha1.ExportedServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: "more"}}, nil
	})
	sink.expectFailure(t, "in more than 200 pages")
	if got := pages.Load(); got != maxPages+1 {
		t.Errorf("%d pages were read", got)
	}
}

// R200: lists of both kinds are not decoded at the same time.
func TestKindsAreListedOneAfterTheOther(t *testing.T) {
	_, b := newTestFeed(t)
	listed := &clustersetv1alpha1.ExportedServiceList{}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	outer := &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		inner := &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			t.Error("another kind is listed at the same time")
			return listed, nil
		}}
		if _, err := b.list(canceled, inner, metav1.ListOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return listed, nil
	}}
	for range 2 {
		if got, err := b.list(t.Context(), outer, metav1.ListOptions{}); got != listed || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

// R200: what a member says in errors is logged, and shortened before. Their reason stays.
func TestErrorsOfAMemberAreShortened(t *testing.T) {
	_, b := newTestFeed(t)
	long := strings.Repeat("lies ", 1<<20)
	expired := apierrors.NewResourceExpired(long)
	for name, err := range map[string]error{
		"status": b.failed(exports.Services, expired), "other": b.failed(exports.Services, errors.New(long)),
		"event":  watchError(t, b, &expired.ErrStatus),
		"object": watchError(t, b, &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Name: long}}),
	} {
		if len(err.Error()) > 2*maxError || apierrors.IsResourceExpired(err) != (name == "status" || name == "event") {
			t.Errorf("%s: %d bytes, expired is %v", name, len(err.Error()), apierrors.IsResourceExpired(err))
		}
	}
}

// watchError returns the error that the reflector gets of an event.
func watchError(t *testing.T, b *Feed, object runtime.Object) error {
	t.Helper()
	incoming := watch.NewFakeWithChanSize(1, false)
	limited := watchServices(b, incoming)
	incoming.Error(object)
	event := <-limited.ResultChan()
	limited.Stop()
	for range limited.ResultChan() {
	}
	return apierrors.FromObject(event.Object)
}

// An expired resource version is not a failure to be reported.
func TestExpiredVersionIsNotAFailure(t *testing.T) {
	sink, b := newTestFeed(t)
	for _, err := range []error{apierrors.NewResourceExpired("too old"), &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonGone, Code: http.StatusGone}}} {
		if got := b.failed(exports.Services, err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
		sink.expectFailure(t, "")
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

// R201: objects that do not fit into the memory limit while everything is listed are
// passed on without their content, before all of them are in memory.
func TestListIsLimitedInMemory(t *testing.T) {
	sink, b := newTestFeed(t)
	small, large := membertest.ExportedSlice("b", "web", "small"), membertest.ExportedSlice("b", "web", "large")
	for range 900 {
		large.Spec.Endpoints = append(large.Spec.Endpoints, large.Spec.Endpoints[0])
	}
	b.config.MemoryLimit = exports.Footprint(small) + exports.Footprint(large) - 1
	limits := &limits{feed: b, kind: exports.EndpointSlices, keys: sets.New[exports.Key](), initial: true}
	store := &objectStore{feed: b, kind: exports.EndpointSlices}
	pass := func(eventType watch.EventType, object runtime.Object) runtime.Object {
		t.Helper()
		event, err := limits.check(watch.Event{Type: eventType, Object: object})
		membertest.Must(t, err)
		return event.Object
	}
	passed := pass(watch.Added, large)
	replaced := pass(watch.Added, small)
	if passed != large || exports.Footprint(replaced) >= exports.Footprint(small) {
		t.Errorf("passed on %+v and %+v", passed, replaced)
	}
	membertest.Must(t, store.Replace([]any{passed, replaced}, "1"))
	if got := sink.objects(); len(got) != 1 || got[0] != large.Name {
		t.Errorf("%v are admitted", got)
	}
	refused := sink.arrivals[1]
	if refused.Object.Name != small.Name || refused.Object.Cluster != "b" || refused.Err == nil || !strings.Contains(refused.Err.Error(), "raise memory-limit in its Secret") {
		t.Errorf("got %+v", refused)
	}
	if want := int32(len(small.Spec.Endpoints)); refused.Object.Endpoints != want || want == 0 { //nolint:gosec // a few
		t.Errorf("it counts %d endpoints, want the %d that the member counts: nothing that it withdraws would be confirmed", refused.Object.Endpoints, want)
	}
	// Afterwards, objects are passed to the sink one by one.
	pass(watch.Bookmark, &clustersetv1alpha1.ExportedEndpointSlice{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	if got := pass(watch.Modified, small); got != small {
		t.Errorf("passed on %+v after everything was listed", got)
	}
}

// R201: an event that a reflector ignores ends the watch, so that a bookmark with another
// object does not end the count of what the reflector keeps.
func TestUnexpectedEventsEndTheWatch(t *testing.T) {
	ended := metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
	for name, event := range map[string]watch.Event{
		"bookmark with another object": {Type: watch.Bookmark, Object: &clustersetv1alpha1.Member{ObjectMeta: ended}},
		"bookmark of another kind":     {Type: watch.Bookmark, Object: &clustersetv1alpha1.ExportedEndpointSlice{ObjectMeta: ended}},
		"object of another kind":       {Type: watch.Added, Object: membertest.ExportedSlice("b", "web", "a")},
		"another object":               {Type: watch.Modified, Object: &clustersetv1alpha1.Member{}},
		"another type":                 {Type: "OTHER", Object: membertest.ExportedService("b", "web")},
	} {
		t.Run(name, func(t *testing.T) {
			sink, b := newTestFeed(t)
			limits := &limits{feed: b, kind: exports.Services, keys: sets.New[exports.Key](), initial: true}
			if _, err := limits.check(event); err == nil || !limits.initial || len(limits.keys) > 0 {
				t.Errorf("got %v, with %d objects, everything is known: %t", err, len(limits.keys), !limits.initial)
			}
			sink.expectFailure(t, "unexpected event")
			claims := &claimLimit{pace: func() {}}
			if _, err := claims.check(event); err == nil || claims.known {
				t.Errorf("the watch of ClusterClaims: %v, everything is known: %t", err, claims.known)
			}
		})
	}
}

// R201: what stands in for an object that does not fit is small, whatever the object is like.
func TestStandInsAreSmall(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	metadata := metav1.ObjectMeta{Namespace: long, Name: long, ResourceVersion: long, UID: "1", Labels: map[string]string{long: long}, Annotations: map[string]string{long: long}}
	for _, object := range []runtime.Object{
		&clustersetv1alpha1.ExportedService{ObjectMeta: metadata, Spec: clustersetv1alpha1.ExportedServiceSpec{Cluster: long, Service: long, Path: []string{long}}},
		&clustersetv1alpha1.ExportedEndpointSlice{ObjectMeta: metadata, Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{Cluster: long, Service: long, Path: []string{long}}},
	} {
		small := standIn(object)
		if size := exports.Footprint(small); size > 4<<10 {
			t.Errorf("the stand-in of %T takes %d bytes", object, size)
		}
		before, _ := exports.KeyOf(object)
		if after, ok := exports.KeyOf(small); !ok || after != before {
			t.Errorf("the stand-in of %T has key %.300v, want %.300v", object, after, before)
		}
	}
}

// R201: a list that does not fit into the memory limit ends.
func TestPagesAreLimitedInMemory(t *testing.T) {
	sink, b := newTestFeed(t)
	b.client, b.config.MemoryLimit = fake.NewSimpleClientset(), 10_000
	awaitLimit(t, b, "", func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return &clustersetv1alpha1.ExportedServiceList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: make([]clustersetv1alpha1.ExportedService, 3)}, nil
	})
	sink.expectFailure(t, "more than fits into its memory limit of 10000")
}

// R523: the sink is told which list was requested, because it may have objects that were not
// admitted before, also if an attempt to list them failed.
func TestRequestedListsAreMarked(t *testing.T) {
	sink, b := newTestFeed(t)
	store := &objectStore{feed: b, kind: exports.EndpointSlices}
	reread := func() bool {
		membertest.Must(t, store.Replace([]any{membertest.ExportedSlice("b", "web", "web-1")}, ""))
		return sink.arrivals[len(sink.arrivals)-1].Reread
	}
	b.listing(exports.EndpointSlices)
	if reread() {
		t.Error("the first list counts as requested")
	}
	b.Reread()
	for range 2 {
		b.listing(exports.EndpointSlices)
	}
	if !reread() {
		t.Error("a list that was requested is not marked")
	}
	b.listing(exports.EndpointSlices)
	if reread() {
		t.Error("the next list counts as requested, too")
	}
}

// R202: everything is listed again when there may be room, but not all the time.
func TestRereadEndsTheWatches(t *testing.T) {
	sink, b := newTestFeed(t)
	expired := func(watcher watch.Interface) bool {
		select {
		case event := <-watcher.ResultChan():
			return apierrors.IsResourceExpired(apierrors.FromObject(event.Object))
		case <-t.Context().Done():
			return false
		}
	}
	first := watchServices(b, watch.NewFake())
	b.Reread()
	if !expired(first) || !expired(watchServices(b, watch.NewFake())) {
		t.Fatal("the watch continues, or another one without a list")
	}
	b.listing(exports.Services)
	second := watchServices(b, watch.NewFake())
	b.Reread()
	select {
	case event := <-second.ResultChan():
		t.Fatalf("the second watch ended at once: %+v", event)
	default:
	}
	sink.clock.Step(rereadInterval)
	b.rereadIfDue()
	if !expired(second) {
		t.Error("the request was forgotten")
	}
	b.listing(exports.Services)
	third := watchServices(b, watch.NewFake())
	sink.clock.Step(rereadInterval)
	b.rereadIfDue()
	select {
	case event := <-third.ResultChan():
		t.Errorf("the third watch ended without a request: %+v", event)
	default:
	}
	third.Stop()
	for range third.ResultChan() {
	}
}

// Only the claims that matter are kept, and a watch cannot begin with any number.
func TestClaimsAreLimited(t *testing.T) {
	sink, _ := newTestFeed(t)
	store := &claimStore{sink: sink, claims: map[string]*multiclusterv1.ClusterClaim{}}
	membertest.Must(t, store.Replace([]any{membertest.ClusterClaim(multicluster.ClusterIDClaim, "b", membertest.Epoch), membertest.ClusterClaim("other", "x", membertest.Epoch)}, "1"))
	membertest.Must(t, store.Add(membertest.ClusterClaim("another", "x", membertest.Epoch)))
	if len(store.claims) != 1 || sink.claims.ID != "b" {
		t.Errorf("kept %v", store.claims)
	}
	paced := 0
	limit := claimLimit{pace: func() { paced++ }}
	added := watch.Event{Type: watch.Added, Object: membertest.ClusterClaim("other", "x", membertest.Epoch)}
	for range maxClaims {
		if _, err := limit.check(added); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := limit.check(added); err == nil {
		t.Error("the watch continues")
	}
	if paced > 0 {
		t.Error("the first claims are paced")
	}
	limit.events = 0
	progress := membertest.ClusterClaim("", "", membertest.Epoch)
	if _, err := limit.check(watch.Event{Type: watch.Bookmark, Object: progress}); err != nil || limit.known {
		t.Errorf("a bookmark that does not end the list: %v, everything is known: %t", err, limit.known)
	}
	limit.events = 0
	progress.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	if _, err := limit.check(watch.Event{Type: watch.Bookmark, Object: progress}); err != nil {
		t.Error(err)
	}
	for range 2 * maxClaims {
		if _, err := limit.check(added); err != nil {
			t.Fatal(err)
		}
	}
	if paced != 2*maxClaims {
		t.Errorf("%d events are paced", paced)
	}
}

// R280, R497: what all members are evaluated with comes at a pace from each: claims ten times a
// second, probes once a second, after some at once.
func TestEvaluationsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		budget := NewBudget(0)
		pace := func() { budget.probes.await(ctx, clock.RealClock{}) }
		begin := time.Now()
		for range 10 {
			budget.claims.await(ctx, clock.RealClock{})
		}
		if took := time.Since(begin); took != 9*evaluationInterval {
			t.Errorf("ten changes of claims take %s", took)
		}
		for round, want := range []time.Duration{0, probeBurst * probeInterval} {
			begin = time.Now()
			for range probeBurst {
				pace()
			}
			if took := time.Since(begin); took != want {
				t.Errorf("%d probes take %s in round %d, want %s", probeBurst, took, round, want)
			}
		}
		time.Sleep(time.Second)
		begin = time.Now()
		pace()
		if took := time.Since(begin); took > 0 {
			t.Errorf("one after a while takes %s", took)
		}
		cancel()
		pace()
		if took := time.Since(begin); took > 0 {
			t.Errorf("it takes %s to end", took)
		}
	})
}
