// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// side is one of the two storages, before the move.
type side struct {
	name   string
	marker *marker.Marker
	// empty is true if the storage holds no objects.
	empty bool
}

// observed is everything that a decision depends on.
type observed struct {
	source, target side
	// copied is the copy of the marker in the namespace of the installation.
	copied     *marker.Marker
	clusterUID types.UID
}

// decision is what to do.
type decision struct {
	// copy is false if there is nothing to move.
	copy bool
	// storageID is the ID of both storages after the move.
	storageID string
}

// RefusedError is returned for a move that would lose objects.
type RefusedError struct{ reason string }

func (e *RefusedError) Error() string { return e.reason }

// IsRefused reports whether err is a RefusedError.
func IsRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// decide returns a RefusedError if the move would lose objects. newID is the ID of a
// source that has none.
func decide(o observed, newID string) (decision, error) {
	source, target := o.source.marker, o.target.marker
	if err := o.checkSource(); err != nil {
		return decision{}, err
	}
	switch {
	case target != nil && target.MovingFrom != "": // resume
		return decision{copy: true, storageID: target.StorageID}, o.checkResume()
	case target != nil && target.MovedTo != "": // back to where it was before
		if source == nil || source.StorageID != target.StorageID || source.MovedTo != "" {
			return decision{}, refuse("%s was moved to %s, which is not %s: move from there", o.target.name, target.MovedTo, o.source.name)
		}
		return decision{copy: true, storageID: source.StorageID}, nil
	case target != nil:
		return decision{}, o.checkTargetInUse()
	case !o.target.empty:
		return decision{}, refuse("%s holds objects that were not moved there: delete them, or use it without --migrate-from", o.target.name)
	case source == nil && o.source.empty:
		return decision{}, refuse("there is nothing to move in %s: check the flags that describe it, or remove --migrate-from", o.source.name)
	case source != nil && source.MovedTo != "":
		return decision{}, refuse("%s is outdated because its objects were moved to %s: move from there", o.source.name, source.MovedTo)
	case source != nil:
		return decision{copy: true, storageID: source.StorageID}, nil
	}
	return decision{copy: true, storageID: newID}, nil
}

// checkSource returns an error if the source is not the storage of this cluster.
func (o observed) checkSource() error {
	source, copied := o.source.marker, o.copied
	if copied != nil && copied.ClusterUID != o.clusterUID {
		copied = nil
	}
	switch {
	case source != nil && source.ClusterUID != o.clusterUID:
		return refuse("%s holds the state of another cluster: the kube-system UID is %s there and %s here", o.source.name, source.ClusterUID, o.clusterUID)
	case source != nil && source.MovingFrom != "":
		return refuse("%s is incomplete because moving objects to it from %s was interrupted: complete that first", o.source.name, source.MovingFrom)
	case source != nil && copied != nil && copied.StorageID != source.StorageID:
		return refuse("%s (storage %s) is not the storage that this cluster used last (%s): move from that one", o.source.name, source.StorageID, copied.StorageID)
	case source == nil && copied != nil && o.target.marker == nil:
		return refuse("%s has no storage marker and is not the storage that this cluster used last (%s): move from that one", o.source.name, copied.StorageID)
	}
	return nil
}

// checkResume returns an error if the source is not the one that the move was started
// with. What it does not hold would be deleted from the target.
func (o observed) checkResume() error {
	source, target := o.source.marker, o.target.marker
	switch {
	case target.MovingFrom != o.source.name:
		return refuse("%s already holds a part of the objects of %s, not of %s: move from the former, or delete what is in %s",
			o.target.name, target.MovingFrom, o.source.name, o.target.name)
	case source == nil && o.source.empty:
		return refuse("%s was lost since objects were moved from it, and %s holds what was moved so far: restore the former from a backup, or accept the latter by restarting mcs-apiserver with --accept-storage instead of --migrate-from",
			o.source.name, o.target.name)
	case source != nil && source.StorageID != target.StorageID:
		return refuse("%s already holds a part of the objects of storage %s, and %s is storage %s now: restore the former from a backup, or delete what is in %s",
			o.target.name, target.StorageID, o.source.name, source.StorageID, o.target.name)
	}
	return nil
}

// checkTargetInUse returns nil if the source was moved to the target, which is in use
// since.
func (o observed) checkTargetInUse() error {
	source := o.source.marker
	if source == nil && o.source.empty || source != nil && source.MovedTo != "" {
		return nil
	}
	return refuse("%s is in use already (storage %s), and %s was not moved to it: nothing is overwritten; remove --migrate-from, or delete what is in %s first",
		o.target.name, o.target.marker.StorageID, o.source.name, o.target.name)
}
