// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiserver"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
)

// validateMigration returns the errors in --migrate-from.
func (o *StorageOptions) validateMigration() []error {
	switch {
	case o.MigrateFrom == "":
		return nil
	case !slices.Contains(storageTypes, o.MigrateFrom):
		return []error{fmt.Errorf("--migrate-from %q: must be %s", o.MigrateFrom, strings.Join(storageTypes, " or "))}
	case o.MigrateFrom == o.Type:
		return []error{fmt.Errorf("--migrate-from %q: must not be the same as --storage", o.MigrateFrom)}
	case o.Accept:
		return []error{errors.New("--migrate-from and --accept-storage: only one can be set")}
	}
	return o.validateType("migrate-from", o.MigrateFrom)
}

// migration returns nil if nothing is to be moved.
func (o *StorageOptions) migration(config *apiserver.Config) *apiserver.Migration {
	if o.MigrateFrom == "" {
		return nil
	}
	access := func(storage string) func(context.Context) (*apiserver.StorageAccess, error) {
		return func(ctx context.Context) (*apiserver.StorageAccess, error) { return o.access(ctx, storage, config) }
	}
	return &apiserver.Migration{Source: access(o.MigrateFrom), Target: access(o.Type)}
}

// access opens a storage that the flags describe.
func (o *StorageOptions) access(ctx context.Context, storage string, config *apiserver.Config) (*apiserver.StorageAccess, error) {
	switch storage {
	case storageCluster:
		backend, err := configmap.NewBackend(config.Generic.ClientConfig, o.Namespace)
		if err != nil {
			return nil, err
		}
		return &apiserver.StorageAccess{
			Name: "the ConfigMaps in namespace " + o.Namespace, Backend: backend, Options: configmap.RESTOptions{Backend: backend}, Close: backend.Close,
		}, nil
	case storageEmbedded:
		return o.embeddedAccess(ctx)
	}
	access, err := o.etcdAccess(ctx, o.external)
	if err != nil {
		return nil, err
	}
	access.Name = "the etcd at " + strings.Join(o.external.ServerList, ", ")
	return access, nil
}

// embeddedAccess runs the embedded etcd, unless the server does.
func (o *StorageOptions) embeddedAccess(ctx context.Context) (*apiserver.StorageAccess, error) {
	stop := func() {}
	if !o.Embedded() {
		embedded, err := etcd.StartExistingEmbedded(ctx, o.DataDir)
		if err != nil {
			return nil, err
		}
		stop = embedded.Close
	}
	access, err := o.etcdAccess(ctx, storagebackend.TransportConfig{ServerList: []string{etcd.EmbeddedEndpoint(o.DataDir)}})
	if err != nil {
		stop()
		return nil, err
	}
	disconnect := access.Close
	access.Name, access.Close = "the embedded etcd in "+o.DataDir, func() {
		disconnect()
		stop()
	}
	return access, nil
}

func (o *StorageOptions) etcdAccess(ctx context.Context, transport storagebackend.TransportConfig) (*apiserver.StorageAccess, error) {
	options, err := o.etcdOptions(transport)
	if err != nil {
		return nil, err
	}
	client, err := etcd.Connect(ctx, transport)
	if err != nil {
		return nil, err
	}
	backend := etcd.NewBackend(client, o.Etcd.StorageConfig.Prefix)
	return &apiserver.StorageAccess{
		Backend: backend, Close: backend.Close,
		Options: etcd.Limit(etcd.WithoutWatchCache(options), o.space(transport)),
	}, nil
}

// etcdOptions returns what the options of the library, such as those for encryption,
// mean for another etcd.
func (o *StorageOptions) etcdOptions(transport storagebackend.TransportConfig) (generic.RESTOptionsGetter, error) {
	options := *o.Etcd
	options.StorageConfig.Transport, options.SkipHealthEndpoints = transport, true
	config := genericapiserver.NewConfig(apiserver.Codecs)
	if err := options.ApplyTo(config); err != nil {
		return nil, err
	}
	return config.RESTOptionsGetter, nil
}
