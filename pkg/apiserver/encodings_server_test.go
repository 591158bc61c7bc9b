// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// served are two servers of the same stores: one that keeps encodings, and one that
// encodes objects for each reader.
type served struct {
	stores       map[schema.GroupResource]*virtual.Store
	budget       *encoded.Budget
	kept, usual  *httptest.Server
	asPeer       *httptest.Server // kept, as it is seen by a peer
	asSecondPeer *httptest.Server
}

// usualStorage reads a store into hub types.
type usualStorage struct {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.SingularNameProvider
}

// namespaced is the only method of a strategy that a read-only store calls.
type namespaced struct {
	rest.RESTUpdateStrategy
	is bool
}

func (n namespaced) NamespaceScoped() bool { return n.is }

// newServed serves all virtual resources. Their versions do not change by themselves.
func newServed(t *testing.T) *served {
	t.Helper()
	virtual.SupportWatchProgress()
	clock := testingclock.NewFakeClock(time.Now())
	s := &served{stores: map[schema.GroupResource]*virtual.Store{}, budget: encoded.NewBudget(1 << 20)}
	versions := virtual.NewVersionSource(clock)
	kept := &apiGroups{storage: map[string]map[string]map[string]rest.Storage{}}
	usual := &apiGroups{storage: map[string]map[string]map[string]rest.Storage{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for _, resource := range virtualResources(func(string, string) (int32, int32, bool) { return 1, 1, true }) {
		store := virtual.NewStore(virtual.Config{
			Resource: resource.Plural, NewFunc: resource.NewFunc, NewListFunc: resource.NewListFunc,
			Namespaced: resource.Namespaced, Versions: versions, Clock: clock, Encodings: s.budget,
		})
		s.stores[resource.Plural] = store
		if err := resource.addStorage(store, kept.add); err != nil {
			t.Fatal(err)
		}
		hub := newUsualStorage(t, store, resource)
		for _, version := range resource.versions {
			usual.add(version, resource.Plural.Resource, hub)
		}
		running.Go(func() { store.Run(ctx) })
		store.MarkSynced()
	}
	s.kept = serveGroups(t, kept.infos(), nil)
	s.asPeer = serveGroups(t, kept.infos(), &peerview.View{Self: "east", Peer: "west"})
	s.asSecondPeer = serveGroups(t, kept.infos(), &peerview.View{Self: "east", Peer: "north"})
	infos := usual.infos()
	for _, info := range infos {
		info.NegotiatedSerializer = withoutProtobuf{Codecs}
	}
	s.usual = serveGroups(t, infos, nil)
	t.Cleanup(func() { clock.Step(time.Minute) }) // ends what waits in watch caches
	return s
}

func newUsualStorage(t *testing.T, store *virtual.Store, resource virtualResource) rest.Storage {
	t.Helper()
	hub := &genericregistry.Store{
		NewFunc: resource.NewFunc, NewListFunc: resource.NewListFunc,
		DefaultQualifiedResource: resource.Plural, SingularQualifiedResource: resource.Singular,
		UpdateStrategy: namespaced{is: resource.Namespaced}, DeleteStrategy: Scheme, TableConvertor: resource.Table,
	}
	if err := hub.CompleteWithOptions(&generic.StoreOptions{RESTOptions: store.RESTOptions(Codecs.LegacyCodec(resource.versions[0]))}); err != nil {
		t.Fatal(err)
	}
	return usualStorage{hub, hub, hub, hub, hub, hub}
}

func serveGroups(t *testing.T, groups []*genericapiserver.APIGroupInfo, view *peerview.View) *httptest.Server {
	t.Helper()
	config := genericapiserver.NewConfig(Codecs)
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &restclient.Config{}
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	namer := openapinamer.NewDefinitionNamer(Scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	api, err := config.Complete(nil).New("encodings", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	if err := api.InstallAPIGroups(groups...); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if view != nil {
			r = r.WithContext(peerview.WithAccess(r.Context(), peerview.Access{View: *view}))
		}
		api.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		api.Destroy()
	})
	return server
}
