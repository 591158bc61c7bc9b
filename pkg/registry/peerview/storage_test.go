// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package peerview_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/install"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/clusterset/exportedendpointslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

func TestMain(m *testing.M) {
	virtual.SupportWatchProgress()
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"), // ends after three seconds
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"),
	)
}

// patience is how long tests wait for an event.
const patience = 20 * time.Second

// newSlices returns a store of ExportedEndpointSlices and its REST storage.
func newSlices(t *testing.T) (*virtual.Store, *readonly.REST) {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	resource := exportedendpointslice.Resource()
	store := virtual.NewStore(virtual.Config{
		Resource: resource.Plural, NewFunc: resource.NewFunc, NewListFunc: resource.NewListFunc, Namespaced: true,
		Versions: virtual.NewVersionSource(clock.RealClock{}),
	})
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(clustersetv1alpha1.SchemeGroupVersion)
	storage, err := readonly.New(scheme, store.RESTOptions(codec), resource)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	store.MarkSynced()
	return store, storage
}

// slice returns a slice of a cluster, with an endpoint on a node.
func slice(name, cluster string) *clusterset.ExportedEndpointSlice {
	return &clusterset.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid", Labels: clusterset.SourceLabels(cluster, "web")},
		Spec: clusterset.ExportedEndpointSliceSpec{Cluster: cluster, Service: "web", Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.1.0.1"}, Zone: ptr.To("a"), NodeName: ptr.To("node-1"),
			Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "node-1"}}},
		}}},
	}
}

var (
	own   = peerview.View{Self: "east", Peer: "west"}
	relay = peerview.View{Self: "east", Peer: "west", Relayed: true}
)

// as returns the context of a request of a peer, of anybody else if the view is nil.
func as(t *testing.T, view *peerview.View) context.Context {
	ctx := request.WithNamespace(t.Context(), "shop")
	if view != nil {
		ctx = peerview.WithAccess(ctx, peerview.Access{View: *view})
	}
	return ctx
}

func exposed(object runtime.Object) bool {
	endpoint := encoded.Unwrap(object).(*clusterset.ExportedEndpointSlice).Spec.Endpoints[0]
	return endpoint.NodeName != nil || endpoint.Hints != nil
}

// R251, R252: a peer sees what this cluster exports, and what other clusters export only
// if this cluster relays it; nothing says where endpoints run. Others see everything.
func TestPeersReadWhatTheyMaySee(t *testing.T) {
	store, storage := newSlices(t)
	for _, cluster := range []string{"east", "north", "west"} {
		store.Set(slice(cluster, cluster))
	}
	for _, test := range []struct {
		name     string
		view     *peerview.View
		selector labels.Selector
		want     []string
	}{
		{"another client", nil, nil, []string{"east", "north", "west"}},
		{"peer", &own, nil, []string{"east"}},
		{"peer that asks for everything", &own, labels.Everything(), []string{"east"}},
		{"peer that asks for another cluster", &own, labels.SelectorFromSet(labels.Set{multicluster.SourceClusterLabel: "north"}), nil},
		{"peer of a hub", &relay, nil, []string{"east", "north"}},
		{"peer of a hub that asks for one cluster", &relay, labels.SelectorFromSet(labels.Set{multicluster.SourceClusterLabel: "north"}), []string{"north"}},
		{"peer of a cluster without an ID", &peerview.View{Peer: "west"}, nil, nil},
		{"peer of a cluster with an invalid ID", &peerview.View{Self: "-", Peer: "west"}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := as(t, test.view)
			list, err := storage.List(ctx, &internalversion.ListOptions{LabelSelector: test.selector})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, item := range list.(*encoded.List).Items {
				names = append(names, item.GetName())
				if exposed(&item) != (test.view == nil) {
					t.Errorf("listed %s with %+v", item.GetName(), encoded.Unwrap(&item))
				}
			}
			if !slices.Equal(names, test.want) {
				t.Errorf("listed %v, want %v", names, test.want)
			}
			if version := list.(*encoded.List).ResourceVersion; version == "" {
				t.Error("the list has no resource version")
			}
			if test.selector != nil {
				return // does not apply to get
			}
			for _, name := range []string{"east", "north", "west"} {
				object, err := storage.Get(ctx, name, &metav1.GetOptions{})
				visible := slices.Contains(test.want, name)
				switch {
				case visible && (err != nil || exposed(object) != (test.view == nil)):
					t.Errorf("got %s: %v %v", name, object, err)
				case !visible && !apierrors.IsNotFound(err):
					t.Errorf("got %s: %v %v, want not found", name, object, err)
				}
			}
		})
	}
	if held, _ := store.Get("shop", "east"); !exposed(held) {
		t.Error("the held object was modified")
	}
}

func next(t *testing.T, watcher watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, ok := <-watcher.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		return event
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return watch.Event{}
}

// R253: an object that enters or leaves the view of a peer is added or deleted for it.
// Resource versions increase, and a watch can continue from each of them.
func TestObjectsLeaveTheViewOfAPeer(t *testing.T) {
	store, storage := newSlices(t)
	ctx, cancel := context.WithCancel(as(t, &own))
	defer cancel()
	store.Set(slice("kept", "east"))
	store.Set(slice("moving", "north"))
	watchFrom := func(version string) watch.Interface {
		t.Helper()
		watcher, err := storage.Watch(ctx, &internalversion.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(watcher.Stop)
		return watcher
	}
	watcher := watchFrom("")
	var versions, seen []string
	expect := func(watcher watch.Interface, want string) {
		t.Helper()
		event := next(t, watcher)
		metadata, err := meta.Accessor(event.Object)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s", event.Type, metadata.GetName()); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if exposed(event.Object) {
			t.Errorf("%s shows %+v", want, event.Object)
		}
		versions, seen = append(versions, metadata.GetResourceVersion()), append(seen, want)
	}
	expect(watcher, "ADDED kept")
	for i, step := range []struct{ cluster, want string }{{"east", "ADDED moving"}, {"east", "MODIFIED moving"}, {"north", "DELETED moving"}, {"north", ""}, {"east", "ADDED moving"}} {
		changed := slice("moving", step.cluster)
		changed.Spec.Endpoints[0].Addresses = []string{fmt.Sprintf("10.1.0.%d", i+2)}
		store.Set(changed)
		if step.want != "" {
			expect(watcher, step.want)
		}
	}
	if !slices.IsSortedFunc(versions, func(a, b string) int { return number(t, a) - number(t, b) }) {
		t.Errorf("versions are %v", versions)
	}
	for i, version := range slices.Clone(versions) {
		if i == 0 {
			continue // may be from before the watch cache began
		}
		continued := watchFrom(version)
		for _, event := range slices.Clone(seen[i+1 : 5]) {
			expect(continued, event)
		}
	}
	store.Delete("shop", "kept")
	expect(watcher, "DELETED kept")
}

func number(t *testing.T, version string) int {
	t.Helper()
	number, err := strconv.Atoi(version)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// R252: also if the watch cache encodes objects once for several watchers.
func TestManyWatchesOfPeersAreRedacted(t *testing.T) {
	store, storage := newSlices(t)
	var watchers []watch.Interface
	for range 5 {
		watcher, err := storage.Watch(as(t, &own), &internalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		watchers = append(watchers, watcher)
	}
	all, err := storage.Watch(as(t, nil), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Stop()
	store.Set(slice("web", "east"))
	for _, watcher := range watchers {
		if event := next(t, watcher); exposed(event.Object) {
			t.Errorf("a peer sees %+v", event.Object)
		}
	}
	seen := next(t, all).Object
	if _, ok := seen.(runtime.CacheableObject); !ok {
		t.Errorf("the watch cache does not share %T: the test is void", seen)
	}
	if !exposed(seen) {
		t.Error("another client does not see nodes")
	}
}

// R253: when a peer gets another view, its watches make it list again, and it cannot
// continue an earlier watch.
func TestWatchesEndWhenTheViewOfAPeerChanges(t *testing.T) {
	store, storage := newSlices(t)
	store.Set(slice("web", "east"))
	held, _ := store.Get("shop", "web")
	version := held.(*clusterset.ExportedEndpointSlice).ResourceVersion
	expectExpired := func(watcher watch.Interface) {
		t.Helper()
		if event := next(t, watcher); event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Fatalf("got %s %+v, want an error that makes the peer list again", event.Type, event.Object)
		}
		if event, ok := <-watcher.ResultChan(); ok {
			t.Errorf("got %s after the error", event.Type)
		}
	}
	changed := make(chan struct{})
	open, err := storage.Watch(peerview.WithAccess(as(t, nil), peerview.Access{View: own, Changed: changed}), &internalversion.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	store.Set(slice("db", "east"))
	if event := next(t, open); event.Type != watch.Added {
		t.Fatalf("got %s", event.Type)
	}
	close(changed)
	expectExpired(open)

	since := peerview.Access{View: relay, Since: virtual.IssuedAt(uint64(number(t, version))).Add(time.Millisecond)}
	late, err := storage.Watch(peerview.WithAccess(as(t, nil), since), &internalversion.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Stop()
	expectExpired(late)
	fresh, err := storage.Watch(peerview.WithAccess(as(t, nil), since), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Stop()
	if event := next(t, fresh); event.Type != watch.Added {
		t.Errorf("got %s", event.Type)
	}
}

// R622, R623: an object that is for some clusters only does not exist for others, which see it deleted
// when it is not for them any more.
func TestObjectsAreForAnAudience(t *testing.T) {
	store, storage := newSlices(t)
	of := func(audience *clusterset.Audience) *clusterset.ExportedEndpointSlice {
		made := slice("web", "east")
		made.Spec.Audience = audience
		return made
	}
	store.Set(of(clusterset.NewAudience("north", "west")))
	readers := map[string]*peerview.View{"west": {Self: "east", Peer: "west"}, "wes": {Self: "east", Peer: "wes"}, "another client": nil}
	watchers := map[string]watch.Interface{}
	for name, view := range readers {
		watcher, err := storage.Watch(as(t, view), &internalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		watchers[name] = watcher
	}
	for i, step := range []struct {
		audience *clusterset.Audience
		visible  []string
		events   map[string]watch.EventType
	}{
		{clusterset.NewAudience("north", "west"), []string{"west", "another client"}, map[string]watch.EventType{"west": watch.Added, "another client": watch.Added}},
		{clusterset.NewAudience("wes"), []string{"wes", "another client"}, map[string]watch.EventType{"west": watch.Deleted, "wes": watch.Added, "another client": watch.Modified}},
		{clusterset.NewAudience(), []string{"another client"}, map[string]watch.EventType{"wes": watch.Deleted, "another client": watch.Modified}},
		{nil, []string{"west", "wes", "another client"}, map[string]watch.EventType{"west": watch.Added, "wes": watch.Added, "another client": watch.Modified}},
	} {
		if i > 0 {
			store.Set(of(step.audience))
		}
		for name, want := range step.events {
			if event := next(t, watchers[name]); event.Type != want {
				t.Errorf("step %d: %s gets %s, want %s", i, name, event.Type, want)
			}
		}
		for name, view := range readers {
			visible := slices.Contains(step.visible, name)
			list, err := storage.List(as(t, view), &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "web")})
			if err != nil || len(list.(*encoded.List).Items) == 1 != visible {
				t.Errorf("step %d: %s lists %v, %v", i, name, list, err)
			}
			if _, err := storage.Get(as(t, view), "web", &metav1.GetOptions{}); apierrors.IsNotFound(err) == visible {
				t.Errorf("step %d: %s gets %v", i, name, err)
			}
		}
	}
}
