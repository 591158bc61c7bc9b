// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver assembles the server: its API groups, the storage of each
// resource, and the computation of the virtual resources.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/patience"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/categorized"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/clusterclaim"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/clusterprofile"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/placementdecision"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/opener"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// Config is the configuration of a server.
type Config struct {
	Generic *genericapiserver.RecommendedConfig
	// Storage is where objects are stored. AcceptStorage opens it even if it is lost,
	// or belongs to another cluster.
	Storage       Storage
	AcceptStorage bool
	// StorageReplaced, if set, is closed when the server has to be restarted, because its
	// storage was lost and can be used again.
	StorageReplaced <-chan struct{}
	// StorageType is the value of --storage.
	StorageType string
	// ReplicaID identifies this replica among those that share the storage. It is
	// empty if this is the only one.
	ReplicaID string
	// StorageNamespace holds the objects, if they are stored in the host cluster.
	StorageNamespace string
	// Migration, if set, moves everything from another storage before Storage is opened.
	Migration *Migration
	// Records stores documents that are not API objects, without a watch cache.
	Records generic.RESTOptionsGetter
	// Namespace contains the Secrets and Leases of members.
	Namespace string
	// MemberTTL is how long a member can be unreachable before it is lost.
	MemberTTL time.Duration
	// LostPolicy is what happens to the endpoints of a lost member.
	LostPolicy   clusterset.LostPolicy
	ClusterSetIP ClusterSetIPConfig
}

// Storage is opened by the server and closed by its caller.
type Storage interface {
	opener.Storage
	Close()
}

// ClusterSetIPConfig configures shared ClusterSet IPs.
type ClusterSetIPConfig struct {
	// ByDefault is whether exports request a shared ClusterSet IP unless their
	// annotation says otherwise.
	ByDefault bool
	// Ranges are the ClusterSet IP ranges.
	Ranges []netip.Prefix
	// CIDRs are the allocation CIDRs of this cluster. If empty, those of its
	// ClusterClaim are used.
	CIDRs []string
}

// NewConfig returns a Config for our API types and their OpenAPI documents.
func NewConfig() *Config {
	generic := genericapiserver.NewRecommendedConfig(Codecs)
	namer := openapinamer.NewDefinitionNamer(Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	generic.OpenAPIConfig.Info.Title = "mcs-apiserver"
	generic.OpenAPIV3Config.Info.Title = "mcs-apiserver"
	return &Config{Generic: generic}
}

type completedConfig struct {
	*Config
	generic genericapiserver.CompletedConfig
	client  kubernetes.Interface
	// informed is the client of informers, and failure their last error.
	informed kubernetes.Interface
	failure  *informerFailure
}

// CompletedConfig is returned by Complete only.
type CompletedConfig struct {
	*completedConfig
}

// Complete fills in derived fields.
func (c *Config) Complete() (CompletedConfig, error) {
	client, err := kubernetes.NewForConfig(c.Generic.ClientConfig)
	if err != nil {
		return CompletedConfig{}, fmt.Errorf("create client for the host cluster: %w", err)
	}
	if authorization := &c.Generic.Authorization; authorization.Authorizer != nil {
		authorization.Authorizer = authorizeOwnAccount(authorization.Authorizer, c.Namespace)
	}
	failure := &informerFailure{}
	informed, err := patience.NewForConfig(c.Generic.ClientConfig, failure.set, kubernetes.NewForConfigAndClient)
	if err != nil {
		return CompletedConfig{}, fmt.Errorf("create client of informers for the host cluster: %w", err)
	}
	return CompletedConfig{&completedConfig{Config: c, generic: c.Generic.Complete(), client: client, informed: informed, failure: failure}}, nil
}

// Server is the assembled server.
type Server struct {
	generic  *genericapiserver.GenericAPIServer
	computed *computation
	opening  *opening
}

// shutdownTimeout is how long the server waits for connections to close. HTTP/2
// does not notify connections that are being established when the shutdown
// begins. It is well below the termination grace period of a Pod.
const shutdownTimeout = 10 * time.Second

// New assembles the server. It starts nothing.
func (c CompletedConfig) New() (*Server, error) {
	// Only etcd storage has other watch caches, and its version has been checked.
	virtual.SupportWatchProgress()
	var computed *computation // before any request
	resources := virtualResources(func(name, peer string) (exports, endpoints int32, known bool) {
		return computed.projection.Members().Visible(name, peer)
	})
	stores := newStores(resources)
	computed, err := c.newComputation(stores)
	if err != nil {
		return nil, fmt.Errorf("set up virtual resources: %w", err)
	}
	opening, err := c.newOpening()
	if err != nil {
		return nil, err
	}
	returned := &returnedAPI{handback.NewSignal(), c.informed, c.Namespace}
	c.generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		handler = withOpenStorage(handler, c.Storage.Gate(), c.needsStorage(resources, computed), config.ShutdownInitiatedNotify())
		handler = withPeers(handler, c.newPeerRequests(config, computed))
		handler = genericapiserver.DefaultBuildHandlerChain(withVirtualRefusal(handler, resources, computed.projection), config)
		if proxies := config.Authentication.RequestHeaderConfig; proxies != nil {
			handler = withHandback(withKnownProxies(handler, proxies), proxies, returned.Signal)
		}
		return handler
	}
	server, err := c.generic.New("mcs-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	server.ShutdownTimeout = shutdownTimeout
	groups, err := c.groups(resources, stores, computed)
	if err != nil {
		return nil, err
	}
	// All groups are installed in one call, so that server-side apply knows the
	// types of all of them: a field manager may have used any group.
	if err := server.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("install API groups: %w", err)
	}
	return &Server{server, computed, opening}, errors.Join(
		server.AddPostStartHook("storage", opening.start),
		server.AddPostStartHook("virtual-resources", computed.start),
		server.AddPostStartHook("returned-api", returned.start),
		server.AddReadyzChecks(healthz.NamedCheck("storage", computed.storageReady), healthz.NamedCheck("virtual-resources", computed.ready)),
	)
}

// needsStorage returns which requests fail while storage is closed: all for stored
// resources, and those for virtual resources until these were computed. The storage
// namespace itself holds no objects of the API.
func (c CompletedConfig) needsStorage(resources []virtualResource, computed *computation) func(*request.RequestInfo) bool {
	virtual := adviceFor(resources)
	return func(info *request.RequestInfo) bool {
		if c.StorageNamespace != "" && info.Namespace == c.StorageNamespace {
			return false
		}
		_, isVirtual := virtual[schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}]
		return !isVirtual || !computed.computed.Load()
	}
}

// apiGroups collects REST storage by group-version and keeps the order in which
// groups were added.
type apiGroups struct {
	names   []string
	storage map[string]map[string]map[string]rest.Storage
}

func (g *apiGroups) add(version schema.GroupVersion, resource string, storage rest.Storage) {
	versions := g.storage[version.Group]
	if versions == nil {
		versions = map[string]map[string]rest.Storage{}
		g.storage[version.Group] = versions
		g.names = append(g.names, version.Group)
	}
	if versions[version.Version] == nil {
		versions[version.Version] = map[string]rest.Storage{}
	}
	versions[version.Version][resource] = storage
}

func (g *apiGroups) infos() []*genericapiserver.APIGroupInfo {
	var infos []*genericapiserver.APIGroupInfo
	for _, name := range g.names {
		info := genericapiserver.NewDefaultAPIGroupInfo(name, Scheme, metav1.ParameterCodec, Codecs)
		info.VersionedResourcesStorageMap = g.storage[name]
		info.NegotiatedSerializer = encoded.NewSerializer(withoutProtobuf{info.NegotiatedSerializer})
		infos = append(infos, &info)
	}
	return infos
}

// groups returns all API groups with their versions and resources.
func (c CompletedConfig) groups(resources []virtualResource, stores map[schema.GroupResource]*virtual.Store, computed *computation) ([]*genericapiserver.APIGroupInfo, error) {
	groups := &apiGroups{storage: map[string]map[string]map[string]rest.Storage{}}
	options := frozenLocations{c.generic.RESTOptionsGetter}
	services := serviceexport.NewServiceGetter(c.generic.SharedInformerFactory.Core().V1().Services().Lister(), c.client.CoreV1())
	origins := serviceexport.NewOriginGetter(c.generic.SharedInformerFactory.Core().V1().Namespaces().Lister(), c.client.CoreV1())
	exports, err := serviceexport.NewStorage(Scheme, options, services, origins, computed.preview)
	if err != nil {
		return nil, err
	}
	for _, version := range []schema.GroupVersion{multiclusterxv1beta1.SchemeGroupVersion, multiclusterxv1alpha1.SchemeGroupVersion} {
		groups.add(version, "serviceexports", exports.NamedExport)
		groups.add(version, "serviceexports/status", exports.Status)
	}
	groups.add(multiclusterv1alpha1.SchemeGroupVersion, "serviceexports", exports.Export)
	groups.add(multiclusterv1alpha1.SchemeGroupVersion, "serviceexports/status", exports.Status)
	claims, err := clusterclaim.NewStorage(Scheme, options)
	if err != nil {
		return nil, err
	}
	groups.add(multiclusterv1.SchemeGroupVersion, "clusterclaims", claims)
	profiles, err := clusterprofile.NewStorage(Scheme, options)
	if err != nil {
		return nil, err
	}
	groups.add(multiclusterxv1alpha1.SchemeGroupVersion, "clusterprofiles", categorized.REST{Store: profiles.Profile})
	groups.add(multiclusterxv1alpha1.SchemeGroupVersion, "clusterprofiles/status", profiles.Status)
	decisions, err := placementdecision.NewStorage(Scheme, options)
	if err != nil {
		return nil, err
	}
	groups.add(multiclusterxv1alpha1.SchemeGroupVersion, "placementdecisions", categorized.REST{Store: decisions})
	for _, resource := range resources {
		if err := resource.addStorage(stores[resource.Plural], groups.add); err != nil {
			return nil, err
		}
	}
	return groups.infos(), nil
}

var _ generic.RESTOptionsGetter = frozenLocations{}

// Run serves until the context ends. When it returns, storage is no longer in use.
func (s *Server) Run(ctx context.Context) error {
	err := s.generic.PrepareRun().RunWithContext(ctx)
	s.computed.wait()
	s.opening.wait()
	return err
}
