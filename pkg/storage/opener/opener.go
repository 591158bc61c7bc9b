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
	// attemptsToReport is after how many attempts with the same result that is reported to
	// the cluster. Those at the first start usually succeed sooner.
	attemptsToReport = 5
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
	// Report tells administrators why storage cannot be used.
	Report(ctx context.Context, reason error) error
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
	registerMetrics()
	logger := klog.FromContext(ctx)
	var failed failures
	for {
		var retry <-chan time.Time
		changed, reason := o.storage.Gate().State()
		o.observe(reason)
		if reason == nil {
			o.confirm(ctx)
		} else if err := o.open(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			o.storage.Gate().Close(err)
			o.report(ctx, failed.add(err), err)
			retry = time.After(retryInterval)
		} else {
			logger.Info("Opened storage")
			failed = failures{}
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

// failures counts attempts that failed for the same reason.
type failures struct {
	reason string
	count  int
}

// add returns how often the reason has occurred in a row.
func (f *failures) add(err error) int {
	if f.reason != err.Error() {
		*f = failures{reason: err.Error()}
	}
	f.count++
	return f.count
}

// report reports an attempt that failed: the first one for a reason in the log, and if it
// persists, to the cluster.
func (o *Opener) report(ctx context.Context, attempts int, reason error) {
	logger := klog.FromContext(ctx)
	switch attempts {
	case 1:
		logger.Error(reason, "Storage cannot be used, retrying")
	case attemptsToReport:
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		if err := o.cluster.Report(ctx, reason); err != nil {
			logger.Error(err, "Failed to record an Event that storage cannot be used")
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
