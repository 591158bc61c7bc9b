// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is where the server is put together: the API groups, the
// storage behind each resource, and what it takes to serve them.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/projection"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/clusterclaim"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceimport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// Config is what a server is made of.
type Config struct {
	Generic *genericapiserver.RecommendedConfig
	// Etcd is for what is neither an object nor computed: who imports are, and
	// what members exported. EtcdPrefix is where all that is ours is kept.
	Etcd       *clientv3.Client
	EtcdPrefix string
	// Namespace is where the Secrets are that make other clusters members.
	Namespace string
	// MemberTTL is how long a member may be silent before it counts as lost.
	MemberTTL time.Duration
	// LostPolicy is what then happens to its endpoints.
	LostPolicy clusterset.LostPolicy
	// ClusterSetIP is about one IP in all clusters.
	ClusterSetIP ClusterSetIPConfig
}

// ClusterSetIPConfig is about IPs that are the same in all clusters.
type ClusterSetIPConfig struct {
	// ByDefault is whether exports that do not say ask for one.
	ByDefault bool
	// Ranges are where they may be.
	Ranges []netip.Prefix
	// CIDRs is this cluster's part, unless it claims one.
	CIDRs []string
}

// NewConfig returns a Config that serves our types and documents them.
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
}

// CompletedConfig can only be had from Complete.
type CompletedConfig struct {
	*completedConfig
}

// Complete fills in what can be derived.
func (c *Config) Complete() (CompletedConfig, error) {
	client, err := kubernetes.NewForConfig(c.Generic.ClientConfig)
	if err != nil {
		return CompletedConfig{}, fmt.Errorf("make a client for the kube-apiserver: %w", err)
	}
	return CompletedConfig{&completedConfig{Config: c, generic: c.Generic.Complete(), client: client}}, nil
}

// Server is the assembled server.
type Server struct {
	generic  *genericapiserver.GenericAPIServer
	computed *computation
}

// shutdownTimeout is how long connections are waited for that have been told to
// go, or that nobody tells: HTTP/2 forgets those that are being made when the
// server begins to stop. It is well below the time that a Pod has.
const shutdownTimeout = 10 * time.Second

// New assembles the server. Nothing runs yet.
func (c CompletedConfig) New() (*Server, error) {
	// True of the etcd too, whose version has been checked.
	virtual.SupportWatchProgress()
	stores := newStores()
	computed, err := c.newComputation(stores)
	if err != nil {
		return nil, fmt.Errorf("prepare the computation of imports: %w", err)
	}
	c.generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		handler = withReaders(handler, computed.projection.Members())
		return genericapiserver.DefaultBuildHandlerChain(withComputedRefusal(handler, computed.projection), config)
	}
	server, err := c.generic.New("mcs-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	server.ShutdownTimeout = shutdownTimeout
	groups, err := c.groups(stores, computed)
	if err != nil {
		return nil, err
	}
	// In one call, so that server-side apply knows the types of all groups: the
	// owners of an object's fields may have written it through any of them.
	if err := server.InstallAPIGroups(groups...); err != nil {
		return nil, fmt.Errorf("install the API groups: %w", err)
	}
	return &Server{server, computed}, errors.Join(
		server.AddPostStartHook("storage-readiness", server.StorageReadinessHook.Hook),
		server.AddPostStartHook("computed-resources", computed.start),
	)
}

// groups are all API groups, each with its versions and resources.
func (c CompletedConfig) groups(stores projection.Stores, computed *computation) ([]*genericapiserver.APIGroupInfo, error) {
	options := frozenLocations{c.generic.RESTOptionsGetter}
	services := serviceexport.NewServiceGetter(c.generic.SharedInformerFactory.Core().V1().Services().Lister(), c.client.CoreV1())
	exports, err := serviceexport.NewStorage(Scheme, options, services, computed.preview)
	if err != nil {
		return nil, err
	}
	claims, err := clusterclaim.NewStorage(Scheme, options)
	if err != nil {
		return nil, err
	}
	imports, err := serviceimport.NewStorage(Scheme, virtualOptions(stores.ServiceImports, multiclusterxv1beta1.SchemeGroupVersion))
	if err != nil {
		return nil, err
	}
	computedREST := map[string]rest.Storage{}
	for _, resource := range computedResources(stores) {
		storage, err := readonly.New(Scheme, virtualOptions(resource.store, resource.version), resource.Resource)
		if err != nil {
			return nil, err
		}
		computedREST[resource.Plural.Resource] = storage
	}
	named := map[string]rest.Storage{
		"serviceexports":        exports.NamedExport,
		"serviceexports/status": exports.Status,
		"serviceimports":        imports.NamedImport,
	}
	return []*genericapiserver.APIGroupInfo{
		groupInfo(multicluster.XGroupName, map[string]map[string]rest.Storage{"v1alpha1": named, "v1beta1": named}),
		groupInfo(multicluster.GroupName, map[string]map[string]rest.Storage{
			"v1": {"clusterclaims": claims},
			"v1alpha1": {
				"serviceexports":        exports.Export,
				"serviceexports/status": exports.Status,
				"serviceimports":        imports.Import,
			},
		}),
		groupInfo(clusterset.GroupName, map[string]map[string]rest.Storage{"v1alpha1": {
			"exportedservices":       computedREST["exportedservices"],
			"exportedendpointslices": computedREST["exportedendpointslices"],
			"members":                computedREST["members"],
		}}),
		groupInfo(about.GroupName, map[string]map[string]rest.Storage{"v1beta1": {"clusterproperties": computedREST["clusterproperties"]}}),
	}, nil
}

func groupInfo(group string, resources map[string]map[string]rest.Storage) *genericapiserver.APIGroupInfo {
	info := genericapiserver.NewDefaultAPIGroupInfo(group, Scheme, metav1.ParameterCodec, Codecs)
	info.VersionedResourcesStorageMap = resources
	info.NegotiatedSerializer = withoutProtobuf{info.NegotiatedSerializer}
	return &info
}

var _ generic.RESTOptionsGetter = frozenLocations{}

// Run serves until the context ends. When it returns, nothing uses the etcd
// any more.
func (s *Server) Run(ctx context.Context) error {
	err := s.generic.PrepareRun().RunWithContext(ctx)
	s.computed.wait()
	return err
}
