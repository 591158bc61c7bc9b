// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sighting reads and updates the Leases with which the replicas of this
// server share when a member was last seen. It is pure.
package sighting

import (
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// namePrefix distinguishes the Leases of members from others in the namespace.
const namePrefix = "member-"

// LeaseName returns the name of the Lease of a member.
func LeaseName(member string) string { return namePrefix + member }

// Selector is the label selector of the Leases of members.
const Selector = multicluster.ManagedByLabel + "=" + multicluster.ManagedBy

// Sighting is when a member was last seen.
type Sighting struct {
	// Member is the name of the member's entry, which is its cluster ID, and UID
	// that of the cluster that was seen: another one may have had the ID.
	Member string
	UID    types.UID
	// At is when it was seen, zero if it never was.
	At time.Time
	// Lost is set if the member has counted as lost since.
	Lost bool
}

// FromLease returns what a Lease tells. It reports false for a Lease that is not
// one of a member.
func FromLease(lease *coordinationv1.Lease) (Sighting, bool) {
	member, ok := strings.CutPrefix(lease.Name, namePrefix)
	if !ok || member == "" || lease.Labels[multicluster.ManagedByLabel] != multicluster.ManagedBy {
		return Sighting{}, false
	}
	return Sighting{
		Member: member, UID: types.UID(lease.Annotations[clusterset.ClusterUIDAnnotation]),
		At: renewed(lease), Lost: lease.Annotations[clusterset.LostAnnotation] == "true",
	}, true
}

func renewed(lease *coordinationv1.Lease) time.Time {
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
}

// Record returns a copy of a Lease, or a new one, with a sighting and the TTL of the
// member.
func Record(lease *coordinationv1.Lease, seen Sighting, ttlSeconds int32) *coordinationv1.Lease {
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseName(seen.Member)}}
	}
	lease = lease.DeepCopy()
	lease.Labels = with(lease.Labels, multicluster.ManagedByLabel, multicluster.ManagedBy)
	lease.Annotations = with(lease.Annotations, clusterset.ClusterUIDAnnotation, string(seen.UID))
	lost := ""
	if seen.Lost {
		lost = "true"
	}
	lease.Annotations = with(lease.Annotations, clusterset.LostAnnotation, lost)
	lease.Spec.HolderIdentity = ptr.To(seen.Member)
	lease.Spec.LeaseDurationSeconds = nil // 0 is invalid
	if ttlSeconds > 0 {
		lease.Spec.LeaseDurationSeconds = ptr.To(ttlSeconds)
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(seen.At))
	return lease
}

// with returns labels or annotations with a value, or without the key if the value
// is empty.
func with(values map[string]string, key, value string) map[string]string {
	values = maps.Clone(values)
	if value == "" {
		delete(values, key)
		return values
	}
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}
