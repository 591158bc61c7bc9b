// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marker distinguishes new storage from storage that was lost, or that
// belongs to another cluster.
//
// If lost storage were taken for new storage, the cluster would withdraw all of
// its exports and leave its ClusterSet. Therefore a marker is written to new
// storage, and a copy of the marker to the namespace of the installation.
package marker

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Name is the name of the ConfigMap that holds a marker. Tools that restore
// ConfigMaps in the order of their names restore the marker after all objects, so
// that a namespace with a marker is complete.
const Name = "storage-marker"

// Marker identifies storage, and the cluster whose state it holds.
type Marker struct {
	// StorageID is generated for new storage.
	StorageID string `json:"storageID"`
	// ClusterUID is the UID of the cluster's namespace kube-system.
	ClusterUID types.UID `json:"clusterUID"`
	// MovedTo is set if the objects were moved to another storage. What is left is outdated.
	MovedTo string `json:"movedTo,omitempty"`
	// MovingFrom is set until all objects of another storage were moved into this one.
	MovingFrom string `json:"movingFrom,omitempty"`
	// Type is the value of --storage. Only copies have it, so that a copy says where
	// the storage is; copies that earlier versions wrote do not.
	Type string `json:"type,omitempty"`
}

// Observed is the state before storage is used.
type Observed struct {
	// Stored is the marker in the storage, and Copy the marker in the namespace of
	// the installation; nil if absent.
	Stored, Copy *Marker
	// Type is the value of --storage.
	Type string
	// Empty is true if the storage holds no objects.
	Empty bool
	// AlwaysMarked is true if no release used such storage without a marker.
	AlwaysMarked bool
	// Traces are objects of the cluster that mcs-apiserver or mcs-controller
	// created, such as derived Services.
	Traces []string
	// ClusterUID is the UID of this cluster.
	ClusterUID types.UID
}

// Decision lists the markers to write. Nothing is written for the zero value.
type Decision struct {
	// WriteStored and WriteCopy must be written before the storage is used, in
	// this order: a copy without an original indicates a loss.
	WriteStored, WriteCopy *Marker
}

// LostError is returned for storage that must not be used.
type LostError struct{ Problem, Remedy string }

func (e *LostError) Error() string { return e.Problem + ": " + e.Remedy }

// IsLost reports whether err is a LostError.
func IsLost(err error) bool {
	var lost *LostError
	return errors.As(err, &lost)
}

const (
	acceptFlag    = "--accept-storage"
	migrateFlag   = "--migrate-from"
	restoreRemedy = "restore the storage from a backup, or accept its present content by restarting mcs-apiserver with " + acceptFlag
)

// Evaluate returns a LostError unless the storage is new, or is the storage that
// this cluster used before. newID is the ID for new storage. accepted means that
// an administrator accepts the content of the storage.
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
	copied := wanted
	copied.Type = observed.Type
	if observed.Copy == nil || *observed.Copy != copied {
		decision.WriteCopy = &copied
	}
	return decision, nil
}

func check(o Observed) error {
	// A copy of another cluster was restored here with the installation.
	own := o.Copy != nil && o.Copy.ClusterUID == o.ClusterUID
	switch {
	case o.Stored != nil && o.Stored.ClusterUID != o.ClusterUID:
		return &LostError{fmt.Sprintf("storage holds the state of another cluster: the kube-system UID is %s there and %s here", o.Stored.ClusterUID, o.ClusterUID), restoreRemedy}
	case o.Stored != nil && o.Stored.MovedTo != "":
		return &LostError{"storage is outdated: its objects were moved to " + o.Stored.MovedTo,
			"use that storage (--storage), or move its objects back by restarting mcs-apiserver with " + migrateFlag +
				"; only if they are lost, accept the outdated content by restarting it with " + acceptFlag}
	case o.Stored != nil && o.Stored.MovingFrom != "":
		return &LostError{"storage is incomplete: moving objects from " + o.Stored.MovingFrom + " was interrupted",
			"resume by restarting mcs-apiserver with " + migrateFlag + ", or accept what was moved so far by restarting it with " + acceptFlag}
	case o.Stored != nil && own && o.Stored.StorageID != o.Copy.StorageID:
		return &LostError{fmt.Sprintf("storage %s is not the storage %s that this cluster has used before", o.Stored.StorageID, o.Copy.StorageID),
			"move the objects of the other storage into this one by restarting mcs-apiserver with " + migrateFlag + ", or accept its present content by restarting it with " + acceptFlag}
	case o.Stored == nil && own:
		return missing(o.Copy, o.Type)
	case o.Stored == nil && !o.Empty && o.AlwaysMarked:
		return &LostError{"storage is incomplete: it has objects but no marker",
			"complete restoring it, with its marker last, or accept its present content by restarting mcs-apiserver with " + acceptFlag}
	case o.Stored == nil && o.Empty && len(o.Traces) > 0:
		return &LostError{"storage is empty, but the cluster was in use: found " + strings.Join(o.Traces, ", "),
			"if the cluster used another storage (--storage), move its objects into this one by restarting mcs-apiserver with " + migrateFlag + "; otherwise " + restoreRemedy}
	}
	return nil
}

// missing returns the error for storage without a marker, in a cluster whose copy says
// that it used storage before.
func missing(copied *Marker, storageType string) error {
	switch copied.Type {
	case storageType:
		return &LostError{fmt.Sprintf("storage %s was lost: its marker is missing", copied.StorageID), restoreRemedy}
	case "":
		return &LostError{fmt.Sprintf("storage %s was lost, or is another one: its marker is missing", copied.StorageID),
			"if this cluster has used another storage than --storage=" + storageType + " until now, use that again, or move its objects by restarting mcs-apiserver with " +
				migrateFlag + "; the default of earlier versions was --storage=embedded (artifacts/embedded); otherwise " + restoreRemedy}
	}
	return &LostError{fmt.Sprintf("this cluster has stored its objects with --storage=%s until now (storage %s), not with --storage=%s", copied.Type, copied.StorageID, storageType),
		fmt.Sprintf("apply the manifests with --storage=%s again, or move the objects by restarting mcs-apiserver with %s=%s; only if they are lost, accept that by restarting it with %s",
			copied.Type, migrateFlag, copied.Type, acceptFlag)}
}
