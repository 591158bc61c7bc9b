// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiserver"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
)

const (
	// storageCluster, storageEtcd and storageEmbedded are the values of --storage.
	storageCluster  = "cluster"
	storageEtcd     = "etcd"
	storageEmbedded = "embedded"

	defaultStorageNamespace = "mcs-storage"
	defaultDataDir          = "/var/lib/mcs-apiserver"
	// defaultEtcdPrefix separates our keys from others in a shared etcd.
	defaultEtcdPrefix = "/registry/mcs-apiserver"
)

// storageTypes are the values of --storage and --migrate-from.
var storageTypes = []string{storageCluster, storageEtcd, storageEmbedded}

// StorageOptions configures where objects are stored.
type StorageOptions struct {
	// Type is cluster, etcd or embedded.
	Type string
	// Namespace holds the objects in the host cluster.
	Namespace string
	// DataDir is the data directory of the embedded etcd.
	DataDir string
	// Accept opens storage that is lost or belongs to another cluster.
	Accept bool
	// MigrateFrom is the type of the storage to move objects from; empty if none.
	MigrateFrom string
	// Space is that of the embedded etcd, if the server uses it.
	Space etcd.Space
	// Etcd is for all types: some of its options are not about etcd.
	Etcd *genericoptions.EtcdOptions

	// external is the external etcd, which is the source or the target of a migration.
	external storagebackend.TransportConfig

	// flags are the flags of this group and those of Etcd.
	flags *pflag.FlagSet
}

func newStorageOptions(etcd *genericoptions.EtcdOptions) *StorageOptions {
	return &StorageOptions{Type: storageCluster, Namespace: defaultStorageNamespace, DataDir: defaultDataDir, Etcd: etcd}
}

// AddFlags adds the flags of this group.
func (o *StorageOptions) AddFlags(flags *pflag.FlagSet) {
	o.flags = flags
	flags.StringVar(&o.Type, "storage", o.Type,
		"Where ServiceExports, ClusterClaims and other objects are stored: cluster stores them in ConfigMaps of the host cluster, in the namespace "+
			"--storage-namespace; etcd in an external etcd, --etcd-servers; embedded in an etcd of this process, in --data-dir. "+
			"embedded allows only one replica.")
	flags.StringVar(&o.Namespace, "storage-namespace", o.Namespace,
		"Namespace of the ConfigMaps with --storage=cluster. mcs-controller creates it. It must not be used for anything else.")
	flags.StringVar(&o.DataDir, "data-dir", o.DataDir, "Data directory of the embedded etcd with --storage=embedded.")
	flags.BoolVar(&o.Accept, "accept-storage", o.Accept,
		"Accept the present content of the storage, even if objects were lost or if it belongs to another cluster. Otherwise "+
			"mcs-apiserver does not become ready with such storage. Remove the flag when mcs-apiserver is ready.")
	flags.StringVar(&o.MigrateFrom, "migrate-from", o.MigrateFrom,
		"Move all objects from this storage (cluster, etcd or embedded) to --storage before it is used. The flags of both are "+
			"required, such as --data-dir for embedded. The other storage cannot be used afterwards. Stop all replicas that use it before. "+
			"Remove the flag when mcs-apiserver is ready.")
	o.Etcd.AddFlags(flags)
}

// Embedded reports whether this process runs the embedded etcd.
func (o *StorageOptions) Embedded() bool { return o.Type == storageEmbedded }

// complete sets the etcd options of the library, nil if etcd is not used.
func (o *StorageOptions) complete(recommended *genericoptions.RecommendedOptions) {
	o.external = o.Etcd.StorageConfig.Transport
	switch o.Type {
	case storageCluster:
		recommended.Etcd = nil
	case storageEmbedded:
		o.Etcd.StorageConfig.Transport = storagebackend.TransportConfig{
			ServerList: []string{etcd.EmbeddedEndpoint(o.DataDir)}, TracerProvider: o.external.TracerProvider, EgressLookup: o.external.EgressLookup,
		}
	}
}

func (o *StorageOptions) validate() []error {
	if !slices.Contains(storageTypes, o.Type) {
		return []error{fmt.Errorf("--storage %q: must be %s", o.Type, strings.Join(storageTypes, " or "))}
	}
	return slices.Concat(o.validateType("storage", o.Type), o.validateMigration(), o.misplacedFlags())
}

// validateType returns the errors in the flags of a storage that a flag names.
func (o *StorageOptions) validateType(flag, storage string) []error {
	switch storage {
	case storageCluster:
		if err := configmap.ValidateNamespace(o.Namespace); err != nil {
			return []error{fmt.Errorf("--storage-namespace %q: %w", o.Namespace, err)}
		}
	case storageEtcd:
		if len(o.external.ServerList) == 0 {
			return []error{fmt.Errorf("--%s=etcd requires --etcd-servers", flag)}
		}
	case storageEmbedded:
		if err := etcd.ValidateDataDir(o.DataDir); err != nil {
			return []error{fmt.Errorf("--data-dir: %w", err)}
		}
	}
	return nil
}

// misplacedFlags returns an error for each flag that was set although it has no
// effect.
func (o *StorageOptions) misplacedFlags() []error {
	var errs []error
	o.flags.VisitAll(func(flag *pflag.Flag) {
		wanted := storageOf(flag.Name)
		used := strings.Contains(wanted, o.Type) || o.MigrateFrom != "" && strings.Contains(wanted, o.MigrateFrom)
		if flag.Changed && !used {
			errs = append(errs, fmt.Errorf("--%s requires --storage=%s, but --storage is %s: remove the flag, or change --storage", flag.Name, wanted, o.Type))
		}
	})
	return errs
}

// storageOf returns the values of --storage with which a flag has an effect.
func storageOf(flag string) string {
	switch flag {
	case "storage", "accept-storage", "migrate-from", "delete-collection-workers", "enable-garbage-collector":
		return strings.Join(storageTypes, " or ")
	case "storage-namespace":
		return storageCluster
	case "data-dir":
		return storageEmbedded
	case "etcd-servers", "etcd-servers-overrides", "etcd-cafile", "etcd-certfile", "etcd-keyfile":
		return storageEtcd
	}
	return storageEtcd + " or " + storageEmbedded
}

// applyTo sets the storage of the server, after the options of the library were
// applied.
func (o *StorageOptions) applyTo(ctx context.Context, config *apiserver.Config) error {
	config.AcceptStorage, config.Migration = o.Accept, o.migration(config)
	config.StorageType = o.Type
	if o.Type == storageCluster {
		return o.applyCluster(config)
	}
	return o.applyEtcd(ctx, config)
}

func (o *StorageOptions) applyCluster(config *apiserver.Config) error {
	backend, err := configmap.NewBackend(config.Generic.ClientConfig, o.Namespace)
	if err != nil {
		return err
	}
	options := configmap.RESTOptions{
		Backend:                 backend,
		DeleteCollectionWorkers: o.Etcd.DeleteCollectionWorkers,
		EnableGarbageCollection: o.Etcd.EnableGarbageCollection,
		ObjectCountTracker:      config.Generic.StorageObjectCountTracker,
	}
	config.Storage, config.StorageNamespace = backend, o.Namespace
	config.Generic.RESTOptionsGetter, config.Records = options, options
	return nil
}

func (o *StorageOptions) applyEtcd(ctx context.Context, config *apiserver.Config) error {
	client, err := etcd.Connect(ctx, o.Etcd.StorageConfig.Transport)
	if err != nil {
		return err
	}
	if err := etcd.CheckVersion(ctx, client); err != nil {
		return errors.Join(err, client.Close())
	}
	space := o.space(o.Etcd.StorageConfig.Transport)
	backend := etcd.NewBackend(client, o.Etcd.StorageConfig.Prefix)
	config.Storage, config.StorageReplaced = backend, backend.Replaced()
	config.Records = backend.Guard(etcd.Limit(etcd.WithoutWatchCache(config.Generic.RESTOptionsGetter), space))
	config.Generic.RESTOptionsGetter = backend.Guard(etcd.Limit(config.Generic.RESTOptionsGetter, space))
	return nil
}

// space returns the space of an etcd.
func (o *StorageOptions) space(transport storagebackend.TransportConfig) etcd.Space {
	if o.Embedded() && o.Space != nil && slices.Equal(transport.ServerList, []string{etcd.EmbeddedEndpoint(o.DataDir)}) {
		return o.Space
	}
	return etcd.ExternalSpace(transport.ServerList)
}
