// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is where the server is put together: the API groups, the
// storage behind each resource, and what it takes to serve them.
package apiserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/clusterclaim"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceimport"
)

// Config is what a server is made of.
type Config struct {
	Generic *genericapiserver.RecommendedConfig
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
	return CompletedConfig{&completedConfig{generic: c.Generic.Complete(), client: client}}, nil
}

// New assembles the server. Nothing runs yet.
func (c CompletedConfig) New() (*genericapiserver.GenericAPIServer, error) {
	services := c.generic.SharedInformerFactory.Core().V1().Services()
	getter := serviceexport.NewServiceGetter(services.Lister(), c.client.CoreV1())

	server, err := c.generic.New("mcs-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	options := frozenLocations{c.generic.RESTOptionsGetter}
	exports, err := serviceexport.NewStorage(Scheme, options, getter)
	if err != nil {
		return nil, err
	}
	imports, err := serviceimport.NewStorage(Scheme, options)
	if err != nil {
		return nil, err
	}
	claims, err := clusterclaim.NewStorage(Scheme, options)
	if err != nil {
		return nil, err
	}

	named := map[string]rest.Storage{
		"serviceexports":        exports.NamedExport,
		"serviceexports/status": exports.Status,
		"serviceimports":        imports.NamedImport,
	}
	x := groupInfo(multicluster.XGroupName, map[string]map[string]rest.Storage{"v1alpha1": named, "v1beta1": named})
	kep := groupInfo(multicluster.GroupName, map[string]map[string]rest.Storage{
		"v1": {"clusterclaims": claims},
		"v1alpha1": {
			"serviceexports":        exports.Export,
			"serviceexports/status": exports.Status,
			"serviceimports":        imports.Import,
		},
	})
	// In one call, so that server-side apply knows the types of both groups:
	// the owners of an object's fields may have written it through either.
	if err := server.InstallAPIGroups(x, kep); err != nil {
		return nil, fmt.Errorf("install the API groups: %w", err)
	}
	return server, server.AddPostStartHook("storage-readiness", server.StorageReadinessHook.Hook)
}

func groupInfo(group string, resources map[string]map[string]rest.Storage) *genericapiserver.APIGroupInfo {
	info := genericapiserver.NewDefaultAPIGroupInfo(group, Scheme, metav1.ParameterCodec, Codecs)
	info.VersionedResourcesStorageMap = resources
	info.NegotiatedSerializer = withoutProtobuf{info.NegotiatedSerializer}
	return &info
}
