// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package opener opens storage when it is available, and is neither lost nor the
// storage of another cluster.
package opener

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

const (
	// retryInterval is the time between two attempts to open storage.
	retryInterval = time.Second
	// attemptTimeout limits one attempt.
	attemptTimeout = 10 * time.Second
)

// Storage must be opened before it is used.
type Storage interface {
	// Gate is closed while the storage cannot be used.
	Gate() *gate.Gate
	// Prepare returns an error if the storage is not available.
	Prepare(ctx context.Context) error
	// Marker is where the storage keeps its marker.
	Marker() marker.Place
	// Empty reports whether the storage holds no objects.
	Empty(ctx context.Context) (bool, error)
	// Open opens the gate. It is called after Prepare, when the marker was verified.
	Open(ctx context.Context) error
	// Confirm closes the gate if the storage can no longer be used.
	Confirm(ctx context.Context) error
}

// Cluster is the host cluster.
type Cluster interface {
	// UID returns the UID of the cluster.
	UID(ctx context.Context) (types.UID, error)
	// Marker is where the cluster keeps a copy of the marker.
	Marker() marker.Place
	// Traces returns objects that show that storage was in use.
	Traces(ctx context.Context) ([]string, error)
}

// Opener opens storage.
type Opener struct {
	storage Storage
	// storageType is the value of --storage.
	storageType string
	cluster     Cluster
	// accept is true until the storage was opened, if an administrator accepts the
	// content that it has when the server starts.
	accept  bool
	recheck chan struct{}
}

// New returns an Opener. With accept, lost storage and storage of another cluster
// are opened as well, once.
func New(storage Storage, storageType string, cluster Cluster, accept bool) *Opener {
	return &Opener{storage: storage, storageType: storageType, cluster: cluster, accept: accept, recheck: make(chan struct{}, 1)}
}

// Recheck makes Run check the storage again soon. It does not block.
func (o *Opener) Recheck() {
	select {
	case o.recheck <- struct{}{}:
	default:
	}
}

// Run opens the storage whenever its gate is closed, until the context ends.
func (o *Opener) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	var reported string
	for {
		var retry <-chan time.Time
		changed, reason := o.storage.Gate().State()
		if reason == nil {
			o.confirm(ctx)
		} else if err := o.open(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			o.storage.Gate().Close(err)
			if err.Error() != reported {
				logger.Error(err, "Storage cannot be used, retrying")
			}
			reported, retry = err.Error(), time.After(retryInterval)
		} else {
			logger.Info("Opened storage")
			reported = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-o.recheck:
		case <-retry:
		}
	}
}

// confirm checks open storage. Only a definite answer closes the gate: requests
// report other errors themselves.
func (o *Opener) confirm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := o.storage.Confirm(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Failed to confirm that storage can be used", "err", err)
	}
}

func (o *Opener) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if err := o.storage.Prepare(ctx); err != nil {
		return err
	}
	uid, err := o.cluster.UID(ctx)
	if err != nil {
		return fmt.Errorf("read the UID of the cluster: %w", err)
	}
	err = marker.Check{
		Stored: o.storage.Marker(), Copy: o.cluster.Marker(), Type: o.storageType,
		Empty: o.storage.Empty, Traces: o.cluster.Traces,
		ClusterUID: uid, Accept: o.accept,
	}.Run(ctx)
	if err != nil {
		return err
	}
	if err := o.storage.Open(ctx); err != nil {
		return err
	}
	o.accept = false // what is lost from now on was not accepted
	return nil
}
