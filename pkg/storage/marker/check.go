// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package marker

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// Check verifies storage before it is used.
type Check struct {
	// Stored is in the storage, and Copy in the namespace of the installation.
	Stored, Copy Place
	// Type is the value of --storage.
	Type string
	// Empty reports whether the storage holds no objects.
	Empty func(ctx context.Context) (bool, error)
	// Traces returns a few objects of the host cluster that show that storage was
	// in use.
	Traces func(ctx context.Context) ([]string, error)
	// ClusterUID is the UID of the namespace kube-system.
	ClusterUID types.UID
	// Accept is true if an administrator accepts the content of the storage.
	Accept bool
}

// Run returns nil if the storage can be used, after writing its markers. Replicas
// that run it concurrently agree on one marker.
func (c Check) Run(ctx context.Context) error {
	for {
		err := c.runOnce(ctx)
		if !errors.Is(err, errConflict) || ctx.Err() != nil {
			return err
		}
	}
}

func (c Check) runOnce(ctx context.Context) error {
	observed, err := c.observe(ctx)
	if err != nil {
		return err
	}
	decision, err := Evaluate(observed, uuid.NewString(), c.Accept)
	if err != nil {
		return err
	}
	if decision.WriteStored != nil {
		if err := c.Stored.Put(ctx, observed.Stored, *decision.WriteStored); err != nil {
			return fmt.Errorf("write the storage marker: %w", err)
		}
	}
	if decision.WriteCopy != nil {
		if err := c.Copy.Put(ctx, observed.Copy, *decision.WriteCopy); err != nil {
			return fmt.Errorf("write the copy of the storage marker: %w", err)
		}
	}
	return nil
}

func (c Check) observe(ctx context.Context) (Observed, error) {
	_, alwaysMarked := c.Stored.(ConfigMap)
	observed := Observed{ClusterUID: c.ClusterUID, Type: c.Type, AlwaysMarked: alwaysMarked}
	var err error
	// The copy is read first, because other replicas write it last.
	if observed.Copy, err = c.Copy.Get(ctx); err != nil {
		return observed, fmt.Errorf("read the copy of the storage marker: %w", err)
	}
	if observed.Stored, err = c.Stored.Get(ctx); err != nil {
		return observed, fmt.Errorf("read the storage marker: %w", err)
	}
	if observed.Stored != nil {
		return observed, nil
	}
	if observed.Empty, err = c.Empty(ctx); err != nil {
		return observed, fmt.Errorf("check whether storage is empty: %w", err)
	}
	// Another replica may have written the marker and then objects since.
	if !observed.Empty {
		if stored, err := c.Stored.Get(ctx); err != nil || stored != nil {
			return observed, cmp.Or(err, errConflict)
		}
	}
	if observed.Traces, err = c.Traces(ctx); err != nil {
		return observed, fmt.Errorf("check whether storage was in use: %w", err)
	}
	return observed, nil
}
