// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

const (
	// writers is how many items are written at the same time.
	writers = 8
	// callTimeout limits each call of a storage.
	callTimeout = 10 * time.Second
)

// Backend is where objects are stored.
type Backend interface {
	// Prepare returns an error if the storage is not available.
	Prepare(ctx context.Context) error
	// Marker is where the storage keeps its marker.
	Marker() marker.Place
	// Empty reports whether the storage holds no objects.
	Empty(ctx context.Context) (bool, error)
	// Open makes the storage usable. It is called when the storage has a marker.
	Open(ctx context.Context) error
}

// Storage is one end of a move. Nobody else uses the same Backend, but the objects
// in it.
type Storage struct {
	// Name describes the storage in messages and in the marker of the other one.
	Name    string
	Backend Backend
	// Collections is what is stored, by kind.
	Collections map[string]Collection
}

// Move moves everything from a source to a target.
type Move struct {
	Source, Target Storage
	// Copy is the copy of the storage marker in the namespace of the installation.
	Copy       marker.Place
	ClusterUID types.UID
	// Progress is called with what is being done.
	Progress func(text string)
}

// Run moves everything, or resumes a move, and returns nil when the target is
// complete. No other process may move into the same target meanwhile.
func (m Move) Run(ctx context.Context) error {
	before, err := m.observe(ctx)
	if err != nil {
		return err
	}
	decided, err := decide(before, uuid.NewString())
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("source", m.Source.Name, "target", m.Target.Name)
	if !decided.copy {
		logger.Info("Objects were moved already; remove --migrate-from")
		return nil
	}
	complete := marker.Marker{StorageID: decided.storageID, ClusterUID: m.ClusterUID}
	incomplete, outdated := complete, complete
	incomplete.MovingFrom, outdated.MovedTo = m.Source.Name, m.Target.Name
	// The order matters: at each point, at most one of the two can be served, and
	// that one is complete.
	if err := put(ctx, m.Target.Backend.Marker(), before.target.marker, incomplete); err != nil {
		return fmt.Errorf("write the storage marker of %s: %w", m.Target.Name, err)
	}
	if err := m.open(ctx); err != nil {
		return err
	}
	if _, err := m.copyAll(ctx); err != nil {
		return err
	}
	if err := put(ctx, m.Source.Backend.Marker(), before.source.marker, outdated); err != nil {
		return fmt.Errorf("write the storage marker of %s: %w", m.Source.Name, err)
	}
	// A server that still used the source may have written to it.
	count, err := m.copyAll(ctx)
	if err != nil {
		return err
	}
	if err := put(ctx, m.Target.Backend.Marker(), &incomplete, complete); err != nil {
		return fmt.Errorf("write the storage marker of %s: %w", m.Target.Name, err)
	}
	logger.Info("Moved all objects; remove --migrate-from", "count", count)
	return nil
}

func put(ctx context.Context, place marker.Place, existing *marker.Marker, wanted marker.Marker) error {
	if existing != nil && *existing == wanted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return place.Put(ctx, existing, wanted)
}

func (m Move) observe(ctx context.Context) (observed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o := observed{clusterUID: m.ClusterUID}
	var err error
	if o.source, err = m.Source.observe(ctx); err != nil {
		return o, err
	}
	if o.target, err = m.Target.observe(ctx); err != nil {
		return o, err
	}
	if o.copied, err = m.Copy.Get(ctx); err != nil {
		return o, fmt.Errorf("read the copy of the storage marker: %w", err)
	}
	return o, nil
}

func (s Storage) observe(ctx context.Context) (side, error) {
	observed := side{name: s.Name}
	err := s.Backend.Prepare(ctx)
	if err != nil {
		return observed, err
	}
	if observed.marker, err = s.Backend.Marker().Get(ctx); err != nil {
		return observed, fmt.Errorf("read the storage marker of %s: %w", s.Name, err)
	}
	if observed.empty, err = s.Backend.Empty(ctx); err != nil {
		return observed, fmt.Errorf("check whether %s is empty: %w", s.Name, err)
	}
	return observed, nil
}

func (m Move) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return errors.Join(m.Source.Backend.Open(ctx), m.Target.Backend.Open(ctx))
}

// copyAll makes the target hold the same as the source, and returns the number of
// items.
func (m Move) copyAll(ctx context.Context) (count int, _ error) {
	for _, kind := range slices.Sorted(maps.Keys(m.Source.Collections)) {
		copied, err := m.copyKind(ctx, kind, m.Source.Collections[kind], m.Target.Collections[kind])
		if err != nil {
			return 0, fmt.Errorf("move %s from %s to %s: %w", kind, m.Source.Name, m.Target.Name, err)
		}
		count += copied
	}
	return count, nil
}

func (m Move) copyKind(ctx context.Context, kind string, source, target Collection) (int, error) {
	items, err := list(ctx, source)
	if err != nil {
		return 0, fmt.Errorf("list the source: %w", err)
	}
	held, err := list(ctx, target)
	if err != nil {
		return 0, fmt.Errorf("list the target: %w", err)
	}
	missing, superfluous := difference(items, held)
	klog.FromContext(ctx).Info("Moving objects", "kind", kind, "source", m.Source.Name, "target", m.Target.Name,
		"count", len(items), "missing", len(missing), "superfluous", len(superfluous))
	m.Progress(fmt.Sprintf("%s are being moved from %s to %s: %d of %d are left", kind, m.Source.Name, m.Target.Name, len(missing), len(items)))
	return len(items), errors.Join(
		forEach(ctx, missing, func(ctx context.Context, key string) error { return target.Put(ctx, key, items[key]) }),
		forEach(ctx, superfluous, target.Delete),
	)
}

func list(ctx context.Context, collection Collection) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return collection.List(ctx)
}

// forEach calls do for each key, several at a time, until one fails.
func forEach(ctx context.Context, keys []string, do func(ctx context.Context, key string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, key := range keys {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			if err := do(ctx, key); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		})
	}
	return group.Wait()
}
