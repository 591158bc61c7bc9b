// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// birth is what cannot be computed of an import: who it is and since when. It
// is the same in every replica and over restarts, and another one in the
// import's next life.
type birth struct {
	UID        types.UID              `json:"uid"`
	Created    metav1.Time            `json:"created"`
	Conditions map[string]statusSince `json:"conditions,omitempty"`

	revision int64
	// gone is true of a record that has been removed, while older news of it
	// may still be on the way.
	gone bool
}

// expected is the revision that etcd is thought to have.
func (b birth) expected() int64 {
	if b.gone {
		return 0
	}
	return b.revision
}

type statusSince struct {
	Status metav1.ConditionStatus `json:"status"`
	Since  metav1.Time            `json:"since"`
}

// wantedBirth is the record as it ought to be.
func wantedBirth(at time.Time, held birth, exists bool, conditions, previous []metav1.Condition) birth {
	now := metav1.NewTime(at).Rfc3339Copy()
	wanted := birth{UID: held.UID, Created: held.Created, Conditions: map[string]statusSince{}}
	if !exists {
		wanted.UID, wanted.Created = uuid.NewUUID(), now
	}
	for _, condition := range conditions {
		written, ok := held.Conditions[condition.Type]
		switch {
		case ok && written.Status == condition.Status:
			wanted.Conditions[condition.Type] = written
		case !exists || turned(condition, previous):
			wanted.Conditions[condition.Type] = statusSince{condition.Status, now}
		case ok:
			wanted.Conditions[condition.Type] = written
		}
	}
	for conditionType, written := range held.Conditions {
		// One that this replica never showed is another's.
		if _, ok := wanted.Conditions[conditionType]; !ok && !shown(conditionType, previous) {
			wanted.Conditions[conditionType] = written
		}
	}
	return wanted
}

// turned says whether a condition's status is another one than before.
func turned(condition metav1.Condition, previous []metav1.Condition) bool {
	for _, old := range previous {
		if old.Type == condition.Type {
			return old.Status != condition.Status
		}
	}
	return true
}

func shown(conditionType string, previous []metav1.Condition) bool {
	for _, old := range previous {
		if old.Type == conditionType {
			return true
		}
	}
	return false
}

// fill copies the record into an import.
func fill(record birth, metadata *metav1.ObjectMeta, conditions, previous []metav1.Condition) {
	metadata.UID, metadata.CreationTimestamp = record.UID, record.Created
	for i := range conditions {
		condition := &conditions[i]
		if written, ok := record.Conditions[condition.Type]; ok && written.Status == condition.Status {
			condition.LastTransitionTime = written.Since
			continue
		}
		condition.LastTransitionTime = record.Created
		for _, old := range previous {
			if old.Type == condition.Type && old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
}
