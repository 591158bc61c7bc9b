// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// record is the part of a ServiceImport that cannot be computed: its UID, its
// creation time and the transition times of its conditions.
type record struct {
	UID        types.UID             `json:"uid"`
	Created    metav1.Time           `json:"created"`
	Conditions map[string]transition `json:"conditions,omitempty"`

	revision int64
	// deleted is true if the record was deleted at the revision. It is kept until
	// the watch has passed that revision, so that an older event cannot restore it.
	deleted bool
}

// expectedRevision returns the revision that etcd should have for the key.
func (r record) expectedRevision() int64 {
	if r.deleted {
		return 0
	}
	return r.revision
}

// transition is a condition status and when the condition took it.
type transition struct {
	Status metav1.ConditionStatus `json:"status"`
	Since  metav1.Time            `json:"since"`
}

// desiredRecord returns the record for an import with the given conditions.
// held is the current record if exists is true; previous are the conditions
// that this replica served last.
func desiredRecord(at time.Time, held record, exists bool, conditions, previous []metav1.Condition) record {
	now := metav1.NewTime(at).Rfc3339Copy()
	desired := record{UID: held.UID, Created: held.Created, Conditions: map[string]transition{}}
	if !exists {
		desired.UID, desired.Created = uuid.NewUUID(), now
	}
	for _, condition := range conditions {
		written, ok := held.Conditions[condition.Type]
		switch {
		case ok && written.Status == condition.Status:
			desired.Conditions[condition.Type] = written
		case !exists || changed(condition, previous):
			desired.Conditions[condition.Type] = transition{condition.Status, now}
		case ok:
			desired.Conditions[condition.Type] = written
		}
	}
	for conditionType, written := range held.Conditions {
		// A condition that this replica never served was written by another replica.
		if _, ok := desired.Conditions[conditionType]; !ok && !contains(previous, conditionType) {
			desired.Conditions[conditionType] = written
		}
	}
	return desired
}

// changed reports whether the status of a condition differs from the previous one.
func changed(condition metav1.Condition, previous []metav1.Condition) bool {
	for _, old := range previous {
		if old.Type == condition.Type {
			return old.Status != condition.Status
		}
	}
	return true
}

func contains(conditions []metav1.Condition, conditionType string) bool {
	return slices.ContainsFunc(conditions, func(condition metav1.Condition) bool { return condition.Type == conditionType })
}

// apply copies the record into the metadata and conditions of an import.
func (r record) apply(metadata *metav1.ObjectMeta, conditions, previous []metav1.Condition) {
	metadata.UID, metadata.CreationTimestamp = r.UID, r.Created
	for i := range conditions {
		condition := &conditions[i]
		if written, ok := r.Conditions[condition.Type]; ok && written.Status == condition.Status {
			condition.LastTransitionTime = written.Since
			continue
		}
		condition.LastTransitionTime = r.Created
		for _, old := range previous {
			if old.Type == condition.Type && old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
}
