// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marker tells lost or foreign storage from storage that is new.
//
// Storage that is empty because it was lost would make this cluster withdraw
// everything that it exports, and leave its ClusterSet. So a marker is written
// into new storage, and a copy of it into the namespace of the installation: one
// without the other says what happened.
package marker

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Marker identifies storage, and the cluster whose state it holds.
type Marker struct {
	// StorageID is made when the storage is new.
	StorageID string `json:"storageID"`
	// ClusterUID is the UID of the cluster's namespace kube-system.
	ClusterUID types.UID `json:"clusterUID"`
}

// Observed is what is known before the storage is used.
type Observed struct {
	// Stored is the marker in the storage, and Copy the one in the namespace of
	// the installation; nil if there is none.
	Stored, Copy *Marker
	// Empty is whether the storage holds no objects.
	Empty bool
	// Traces are objects in the cluster that this server or its controller made
	// earlier, such as derived Services.
	Traces []string
	// ClusterUID is this cluster's.
	ClusterUID types.UID
}

// Decision is what to do about the markers. The zero value is to use the
// storage as it is.
type Decision struct {
	// WriteStored and WriteCopy are to be written before the storage is used, in
	// this order: a copy without its original would look like a loss.
	WriteStored, WriteCopy *Marker
}

// LostError says that the storage must not be used.
type LostError struct{ Problem, Remedy string }

func (e *LostError) Error() string { return e.Problem + ": " + e.Remedy }

// IsLost reports whether an error says that storage must not be used.
func IsLost(err error) bool {
	var lost *LostError
	return errors.As(err, &lost)
}

const (
	acceptFlag    = "--accept-storage"
	restoreRemedy = "restore the storage from a backup, or accept its present content by restarting mcs-apiserver with " + acceptFlag
)

// Evaluate decides whether storage is the one that this cluster has used before,
// or new. newID is the ID of storage that is new. With accepted, an administrator
// has said that the content of the storage is right as it is.
func Evaluate(observed Observed, newID string, accepted bool) (Decision, error) {
	if err := check(observed); err != nil && !accepted {
		return Decision{}, err
	}
	wanted := Marker{StorageID: newID, ClusterUID: observed.ClusterUID}
	if observed.Stored != nil {
		wanted.StorageID = observed.Stored.StorageID
	}
	var decision Decision
	if observed.Stored == nil || *observed.Stored != wanted {
		decision.WriteStored = &wanted
	}
	if observed.Copy == nil || *observed.Copy != wanted {
		decision.WriteCopy = &wanted
	}
	return decision, nil
}

func check(o Observed) error {
	switch {
	case o.Stored != nil && o.Stored.ClusterUID != o.ClusterUID:
		return &LostError{fmt.Sprintf("storage holds the state of another cluster (its kube-system UID is %s, and that of this cluster %s)", o.Stored.ClusterUID, o.ClusterUID), restoreRemedy}
	case o.Stored != nil && o.Copy != nil && o.Copy.ClusterUID == o.ClusterUID && o.Stored.StorageID != o.Copy.StorageID:
		return &LostError{fmt.Sprintf("storage %s is not the storage %s that this cluster has used before", o.Stored.StorageID, o.Copy.StorageID),
			"copy the objects of the other storage into this one, or accept its present content by restarting mcs-apiserver with " + acceptFlag}
	case o.Stored == nil && o.Copy != nil && o.Copy.ClusterUID == o.ClusterUID:
		return &LostError{fmt.Sprintf("storage %s was lost: its marker is missing", o.Copy.StorageID), restoreRemedy}
	case o.Stored == nil && o.Copy == nil && o.Empty && len(o.Traces) > 0:
		return &LostError{"storage is empty, although this cluster was in use: found " + strings.Join(o.Traces, ", "), restoreRemedy}
	}
	return nil
}
