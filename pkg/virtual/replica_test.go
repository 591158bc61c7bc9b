// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/compatibility"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

const (
	resourcePath = "/apis/multicluster.x-k8s.io/v1beta1/serviceimports"
	// patience is for what has to happen, on however slow a machine.
	patience = 30 * time.Second
)

var (
	imports = multiclusterxv1beta1.SchemeGroupVersion.WithResource("serviceimports")
	scheme  = runtime.NewScheme()
	codecs  = serializer.NewCodecFactory(scheme)
)

func init() {
	utilruntime.Must(multicluster.AddToScheme(scheme))
	utilruntime.Must(multiclusterxv1beta1.Install(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{},
		&metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
}

// replica is an HTTP server with one virtual resource.
type replica struct {
	*virtual.Store
	// storage is what the REST storage reads, below HTTP.
	storage storage.Interface
	url     string
	seen    *queries
	end     func()
}

// readOnly has the read methods of a registry.
type readOnly struct {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.SingularNameProvider
}

// scope is the only method of a strategy that a read-only registry calls.
type scope struct {
	rest.RESTUpdateStrategy
	namespaced bool
}

func (s scope) NamespaceScoped() bool { return s.namespaced }

// newReplica serves a store that is not synced, until the test ends or end is
// called.
func newReplica(t testing.TB, clock clock.WithTicker) *replica {
	t.Helper()
	store, registry := newRegistry(t, clock)
	api := newAPI(t, readOnly{registry, registry, registry, registry, registry, registry})

	seen := &queries{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.add(r.URL.Query())
		api.Handler.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	end := sync.OnceFunc(func() {
		cancel()
		running.Wait()
		server.CloseClientConnections()
		server.Close()
		api.Destroy()
	})
	t.Cleanup(end)
	return &replica{Store: store, storage: registry.Storage.Storage, url: server.URL, seen: seen, end: end}
}

// newRegistry returns a store that is not synced and does not run, and the registry
// that reads it.
func newRegistry(t testing.TB, clock clock.WithTicker) (*virtual.Store, *genericregistry.Store) {
	t.Helper()
	store := virtual.NewStore(virtual.Config{
		Resource:    multicluster.XResource("serviceimports"),
		NewFunc:     func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc: func() runtime.Object { return &multicluster.ServiceImportList{} },
		Namespaced:  true,
		Versions:    virtual.NewVersionSource(clock),
		Clock:       clock,
	})
	registry := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc:               func() runtime.Object { return &multicluster.ServiceImportList{} },
		DefaultQualifiedResource:  multicluster.XResource("serviceimports"),
		SingularQualifiedResource: multicluster.XResource("serviceimport"),
		UpdateStrategy:            scope{namespaced: true},
		DeleteStrategy:            scheme,
		TableConvertor:            rest.NewDefaultTableConvertor(multicluster.XResource("serviceimports")),
	}
	codec := codecs.LegacyCodec(multiclusterxv1beta1.SchemeGroupVersion)
	if err := registry.CompleteWithOptions(&generic.StoreOptions{RESTOptions: store.RESTOptions(codec)}); err != nil {
		t.Fatal(err)
	}
	return store, registry
}

func newAPI(t testing.TB, storage rest.Storage) *genericapiserver.GenericAPIServer {
	t.Helper()
	config := genericapiserver.NewConfig(codecs)
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &restclient.Config{}
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	namer := openapinamer.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	api, err := config.Complete(nil).New("virtual", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(multicluster.XGroupName, scheme, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap = map[string]map[string]rest.Storage{"v1beta1": {"serviceimports": storage}}
	if err := api.InstallAPIGroups(&group); err != nil {
		t.Fatal(err)
	}
	return api
}

// newSyncedReplica returns a replica whose store is synced.
func newSyncedReplica(t testing.TB, objects ...runtime.Object) *replica {
	t.Helper()
	r := newReplica(t, clock.RealClock{})
	for _, object := range objects {
		r.Set(object)
	}
	r.MarkSynced()
	return r
}

// queries returns the queries of all requests so far.
type queries struct {
	mu  sync.Mutex
	all []url.Values
}

func (q *queries) add(query url.Values) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, query)
}

func (q *queries) count(match func(url.Values) bool) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	matching := 0
	for _, query := range q.all {
		if match(query) {
			matching++
		}
	}
	return matching
}

// serviceImport returns an import whose IP is the only thing that changes.
func serviceImport(namespace, name, ip string, labels map[string]string) *multicluster.ServiceImport {
	return &multicluster.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Labels: labels},
		Spec:       multicluster.ServiceImportSpec{Type: multicluster.ClusterSetIP, IPs: []string{ip}},
	}
}

func versionOf(t testing.TB, object runtime.Object) string {
	t.Helper()
	accessor, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	return accessor.GetResourceVersion()
}
