// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	clustersetclient "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/typed/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

func TestMain(m *testing.M) {
	// klog starts it once per process and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// The shapes of members in tests.
const web, large = 0, 1

func startMember(t *testing.T) *Member {
	t.Helper()
	member, err := Start(Config{ID: "west", ClusterSet: "set", Number: 7, Shapes: []Shape{
		web:   {Namespace: "shop", Prefix: "web", Slices: 1, Endpoints: 10},
		large: {Namespace: "shop", Prefix: "large", Slices: 3, Endpoints: 100},
	}})
	expect.NoError(t, err)
	t.Cleanup(member.Close)
	return member
}

// clientset returns a client with the kubeconfig of the member Secret.
func clientset(t *testing.T, member *Member) versioned.Interface {
	t.Helper()
	secret := expect.Must(member.Secret(nil))(t)
	config := expect.Must(clientcmd.RESTConfigFromKubeConfig(secret[clusterset.MemberSecretKubeconfig]))(t)
	config.QPS = -1
	return expect.Must(versioned.NewForConfig(config))(t)
}

func endpointSlices(t *testing.T, member *Member) clustersetclient.ExportedEndpointSliceInterface {
	t.Helper()
	return clientset(t, member).ClusterSetV1alpha1().ExportedEndpointSlices(metav1.NamespaceAll)
}

// reflect runs a reflector for EndpointSlices until the test ends, and returns its store.
func reflect(t *testing.T, member *Member) cache.Store {
	t.Helper()
	client := clientset(t, member)
	api := client.ClusterSetV1alpha1().ExportedEndpointSlices(metav1.NamespaceAll)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, options)
		},
		WatchFuncWithContext: api.Watch,
	}, client)
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cache.NewReflector(source, &clustersetv1alpha1.ExportedEndpointSlice{}, store, 0).RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return store
}

// holds waits until a store has exactly the EndpointSlices that a list returns.
func holds(t *testing.T, store cache.Store, member *Member, count int) {
	t.Helper()
	expect.Within(t, 30*time.Second, "objects of the reflector", func(ctx context.Context) error {
		list, err := endpointSlices(t, member).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != count || len(store.List()) != count {
			return fmt.Errorf("%d are listed, and the reflector has %d, want %d", len(list.Items), len(store.List()), count)
		}
		for i := range list.Items {
			want := &list.Items[i]
			held, _, err := store.Get(want)
			if err != nil {
				return err
			}
			if slice, ok := held.(*clustersetv1alpha1.ExportedEndpointSlice); !ok || slice.ResourceVersion != want.ResourceVersion || slice.Spec.Endpoints[0].Addresses[0] != want.Spec.Endpoints[0].Addresses[0] {
				return fmt.Errorf("reflector has %v, want %v", held, want)
			}
		}
		return nil
	})
}

func TestReflectorFollowsExportsAndChanges(t *testing.T) {
	member := startMember(t)
	member.Export(web, 5)
	store := reflect(t, member)
	holds(t, store, member, 5)
	member.Export(large, 2)
	holds(t, store, member, 11)
	change := member.Change(Slice{large, 1, 2}, 3)
	if _, err := change.Sent(t.Context()); err != nil {
		t.Error(err)
	}
	holds(t, store, member, 11)
	member.Export(large, 1)
	holds(t, store, member, 8)
	member.Export(large, 2)
	holds(t, store, member, 11)
	member.Export(web, 0)
	holds(t, store, member, 6)
	if services, endpoints := member.Totals(); services != 2 || endpoints != 600 {
		t.Errorf("exports %d services and %d endpoints", services, endpoints)
	}
}

func TestListHasPages(t *testing.T) {
	member := startMember(t)
	member.Export(web, 5)
	member.Export(large, 3)
	api := endpointSlices(t, member)
	var names []string
	pages := 0
	read := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return api.List(ctx, options)
	})
	read.PageSize = 4
	expect.NoError(t, read.EachListItem(t.Context(), metav1.ListOptions{}, func(object runtime.Object) error {
		accessor, err := meta.Accessor(object)
		names = append(names, accessor.GetName())
		return err
	}))
	if pages != 4 || len(names) != 14 || len(slices.Compact(names)) != 14 {
		t.Errorf("%d pages with %v", pages, names)
	}
	first := expect.Must(api.List(t.Context(), metav1.ListOptions{Limit: 4}))(t)
	member.Change(Slice{web, 0, 0}, 1)
	if _, err := api.List(t.Context(), metav1.ListOptions{Limit: 4, Continue: first.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("list continues although it has changed: %v", err)
	}
}

// events returns the next events of a watch, as their kinds and resource versions.
func events(t *testing.T, opened watch.Interface, count int) (kinds, versions []string) {
	t.Helper()
	for range count {
		select {
		case event := <-opened.ResultChan():
			accessor := expect.Must(meta.Accessor(event.Object))(t)
			kinds, versions = append(kinds, string(event.Type)), append(versions, accessor.GetResourceVersion())
		case <-time.After(30 * time.Second):
			t.Fatalf("only got %v", kinds)
		}
	}
	return kinds, versions
}

func TestWatchContinuesAtAResourceVersion(t *testing.T) {
	member := startMember(t)
	member.Export(web, 2)
	api := endpointSlices(t, member)
	listed := expect.Must(api.List(t.Context(), metav1.ListOptions{}))(t)
	member.Export(web, 3)
	member.Change(Slice{web, 0, 0}, 1)
	member.Export(web, 2)
	opened := expect.Must(api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: listed.ResourceVersion}))(t)
	kinds, versions := events(t, opened, 3)
	opened.Stop()
	if want := []string{"ADDED", "MODIFIED", "DELETED"}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	again := expect.Must(api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: versions[0]}))(t)
	defer again.Stop()
	if _, rest := events(t, again, 2); !slices.Equal(rest, versions[1:]) {
		t.Errorf("got the versions %v, want %v", rest, versions[1:])
	}
}

func TestResourceVersionsExpire(t *testing.T) {
	member := startMember(t)
	member.Export(web, 1)
	api := endpointSlices(t, member)
	listed := expect.Must(api.List(t.Context(), metav1.ListOptions{}))(t)
	for number := range maxEvents {
		member.Change(Slice{web, 0, 0}, uint32(number))
	}
	for _, version := range []string{listed.ResourceVersion, "99999999"} {
		if _, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version}); !apierrors.IsResourceExpired(err) {
			t.Errorf("version %s: got %v", version, err)
		}
	}
}

func TestWatchEndsInTime(t *testing.T) {
	member := startMember(t)
	opened := expect.Must(endpointSlices(t, member).Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(1))}))(t)
	defer opened.Stop()
	select {
	case _, more := <-opened.ResultChan():
		if more {
			t.Error("got an event")
		}
	case <-time.After(30 * time.Second):
		t.Error("watch does not end")
	}
}

func TestObjectsAreSelectedBySourceCluster(t *testing.T) {
	member := startMember(t)
	member.Export(web, 2)
	for selector, want := range map[string]int{"": 2, "multicluster.kubernetes.io/source-cluster=west": 2, "multicluster.kubernetes.io/source-cluster=east": 0} {
		list := expect.Must(endpointSlices(t, member).List(t.Context(), metav1.ListOptions{LabelSelector: selector}))(t)
		if len(list.Items) != want {
			t.Errorf("%q: got %d, want %d", selector, len(list.Items), want)
		}
	}
}

func TestEntryCountsExports(t *testing.T) {
	member := startMember(t)
	member.Export(large, 2)
	member.SetPeers([]string{"home"})
	list := expect.Must(clientset(t, member).ClusterSetV1alpha1().Members().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=west"}))(t)
	if len(list.Items) != 1 {
		t.Fatalf("got %+v", list.Items)
	}
	if status := list.Items[0].Status; status.Exports != 2 || status.Endpoints != 600 || !status.Synced || !slices.Equal(status.Peers, []string{"home"}) {
		t.Errorf("got %+v", status)
	}
}

func TestSilentMemberAnswersWhenItResumes(t *testing.T) {
	member := startMember(t)
	member.Export(web, 1)
	api := endpointSlices(t, member)
	expect.Must(api.List(t.Context(), metav1.ListOptions{}))(t)
	opened := expect.Must(api.Watch(t.Context(), metav1.ListOptions{}))(t)
	defer opened.Stop()
	events(t, opened, 1)
	member.Silence()
	change := member.Change(Slice{web, 0, 0}, 1)
	expect.Must(change.Sent(t.Context()))(t)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := api.List(short, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent member answers: %v", err)
	}
	select {
	case event := <-opened.ResultChan():
		t.Errorf("a silent member sends %v", event)
	default:
	}
	member.Resume()
	events(t, opened, 1)
	expect.Must(api.List(t.Context(), metav1.ListOptions{}))(t)
}
