// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/clusterclaim"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/clusterprofile"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/placementdecision"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/migrate"
)

const (
	// migrationLease is the name of the Lease that a replica holds while it moves objects.
	migrationLease = "mcs-apiserver-migration"
	// migrationRetry is the time between two attempts to move objects.
	migrationRetry = 2 * time.Second
)

// StorageAccess is access to storage that is independent of the storage of the server.
type StorageAccess struct {
	// Name describes the storage.
	Name    string
	Backend migrate.Backend
	// Options add no watch cache.
	Options generic.RESTOptionsGetter
	// Close must be called.
	Close func()
}

// Migration moves everything from another storage into that of the server.
type Migration struct {
	// Source and Target open the other storage and that of the server.
	Source, Target func(ctx context.Context) (*StorageAccess, error)
}

// migration moves objects before the storage is opened.
type migration struct {
	Migration
	cluster hostCluster
	// storage is the gate of the target.
	storage *gate.Gate
	lock    resourcelock.Interface
}

// newMigration returns nil if nothing is to be moved.
func (c CompletedConfig) newMigration() (*migration, error) {
	if c.Migration == nil {
		return nil, nil //nolint:nilnil // documented
	}
	// A replica that was killed while it moved objects continues when it is restarted,
	// without waiting until its Lease expires.
	identity := c.ReplicaID
	if identity == "" {
		var err error
		if identity, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("identify this replica: %w", err)
		}
	}
	return &migration{
		Migration: *c.Migration, cluster: hostCluster{c.client, c.Namespace}, storage: c.Storage.Gate(),
		lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: migrationLease}, Client: c.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
	}, nil
}

// run returns when everything was moved, or the context ends.
func (m *migration) run(ctx context.Context) {
	m.storage.Close(errors.New("waiting for another replica that moves objects to this storage"))
	var reported string
	for {
		err := migrate.Exclusively(ctx, m.lock, m.move)
		if err == nil || ctx.Err() != nil {
			return
		}
		m.storage.Close(err)
		if err.Error() != reported {
			klog.FromContext(ctx).Error(err, "Failed to move objects to this storage, retrying")
			reported = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(migrationRetry):
		}
	}
}

func (m *migration) move(ctx context.Context) error {
	target, err := m.Target(ctx)
	if err != nil {
		return err
	}
	defer target.Close()
	err = m.moveTo(ctx, target)
	if err == nil || migrate.IsRefused(err) {
		return err
	}
	// A source that was moved may have been removed.
	held, markerErr := target.Backend.Marker().Get(ctx)
	if markerErr == nil && held != nil && held.MovingFrom == "" && held.MovedTo == "" {
		klog.FromContext(ctx).Info("Storage is in use already; remove --migrate-from", "storage", target.Name, "source", err.Error())
		return nil
	}
	return err
}

func (m *migration) moveTo(ctx context.Context, target *StorageAccess) error {
	if err := target.Backend.Prepare(ctx); err != nil { // before an embedded etcd is started
		return err
	}
	uid, err := m.cluster.UID(ctx)
	if err != nil {
		return fmt.Errorf("read the UID of the cluster: %w", err)
	}
	source, err := m.Source(ctx)
	if err != nil {
		return err
	}
	defer source.Close()
	from, closeSource, err := source.open()
	if err != nil {
		return err
	}
	defer closeSource()
	to, closeTarget, err := target.open()
	if err != nil {
		return err
	}
	defer closeTarget()
	return migrate.Move{
		Source: from, Target: to, Copy: m.cluster.Marker(), ClusterUID: uid,
		Progress: func(text string) { m.storage.Close(errors.New(text)) },
	}.Run(ctx)
}

// open returns everything that is stored. The caller must call destroy.
func (a *StorageAccess) open() (_ migrate.Storage, destroy func(), err error) {
	opened := migrate.Storage{Name: a.Name, Backend: a.Backend, Collections: map[string]migrate.Collection{}}
	records := &records{options: a.Options}
	var stores []*genericregistry.Store
	destroy = func() {
		records.close()
		for _, store := range stores {
			store.Destroy()
		}
	}
	defer func() {
		if err != nil {
			destroy()
		}
	}()
	if stores, err = newStoredRegistries(a.Options); err != nil {
		return opened, nil, err
	}
	for _, store := range stores {
		opened.Collections[store.DefaultQualifiedResource.String()] = migrate.Objects{
			Storage: store.Storage.Storage, Prefix: locations[store.DefaultQualifiedResource].prefix, Codec: store.Storage.Codec, New: store.NewFunc, NewList: store.NewListFunc,
		}
	}
	for _, kind := range recordKinds {
		records, err := records.open(kind)
		if err != nil {
			return opened, nil, err
		}
		opened.Collections[kind] = migrate.Records{Store: records}
	}
	return opened, destroy, nil
}

// newStoredRegistries returns the registries of all stored resources. They are good
// for access to their storage only.
func newStoredRegistries(options generic.RESTOptionsGetter) (stores []*genericregistry.Store, err error) {
	options = frozenLocations{options}
	defer func() {
		if err == nil {
			return
		}
		for _, store := range stores {
			store.Destroy()
		}
		stores = nil
	}()
	exports, err := serviceexport.NewStorage(Scheme, options, nil, nil, nil)
	if err != nil {
		return stores, err
	}
	stores = append(stores, exports.Export.Store)
	claims, err := clusterclaim.NewStorage(Scheme, options)
	if err != nil {
		return stores, err
	}
	stores = append(stores, claims.Store)
	profiles, err := clusterprofile.NewStorage(Scheme, options)
	if err != nil {
		return stores, err
	}
	stores = append(stores, profiles.Profile)
	decisions, err := placementdecision.NewStorage(Scheme, options)
	if err != nil {
		return stores, err
	}
	return append(stores, decisions), nil
}
