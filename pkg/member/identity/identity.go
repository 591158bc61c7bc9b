// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity describes which cluster a cluster claims to be, and which
// of two clusters that claim the same ID keeps it.
package identity

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// Cluster is the identity of this cluster.
type Cluster struct {
	// ID and ClusterSet are the values of its ClusterClaims, empty without a claim.
	ID, ClusterSet string
	// MembershipUID is the UID of the ClusterClaim that names the ClusterSet. It
	// changes whenever the cluster joins a ClusterSet.
	MembershipUID types.UID
	// IDClaimedAt is when the cluster claimed its ID in the ClusterSet.
	IDClaimedAt time.Time
	// UID is the UID of its kube-system Namespace.
	UID types.UID
	// Since is when the cluster was created.
	Since time.Time
	// CIDRs are its allocation CIDRs, separated by commas. CIDRProblem is set if
	// they cannot be used.
	CIDRs, CIDRProblem string
}

// InClusterSet reports whether the cluster has an ID and is in a ClusterSet.
func (c Cluster) InClusterSet() bool { return c.ID != "" && c.ClusterSet != "" }

// Claims are the ClusterClaims of a member.
type Claims struct {
	ID, ClusterSet string
	// ClaimedAt is when the member claimed its ID in the ClusterSet.
	ClaimedAt time.Time
}

// NewClaims reads the values of the two ClusterClaims, either of which may be nil.
func NewClaims(id, clusterSet *multiclusterv1.ClusterClaim) Claims {
	claims := Claims{ClaimedAt: ClaimedAt(id, clusterSet)}
	if id != nil {
		claims.ID = id.Spec.Value
	}
	if clusterSet != nil {
		claims.ClusterSet = clusterSet.Spec.Value
	}
	return claims
}

// ClaimedAt returns when a cluster claimed its ID in its ClusterSet: when the
// later of the two claims was created. Neither can change while both exist, so
// the cluster that joined first has the older claim, whatever the age of its ID. A cluster
// whose claim for the ClusterSet was given an age was in it before, with another
// implementation, and its ID is younger. A time that cannot be encoded, which only a member
// makes up, is unknown.
func ClaimedAt(id, clusterSet *multiclusterv1.ClusterClaim) time.Time {
	var at time.Time
	if clusterSet != nil && clusterSet.Annotations[multicluster.MigratedFromAnnotation] != "" {
		id = nil
	}
	for _, claim := range []*multiclusterv1.ClusterClaim{id, clusterSet} {
		switch {
		case claim == nil:
		case !validation.IsEncodable(claim.CreationTimestamp):
			return time.Time{}
		case claim.CreationTimestamp.After(at):
			at = claim.CreationTimestamp.Time
		}
	}
	return at
}

// CompareClaims is negative if the first of two clusters that claim one ID
// keeps it. Timestamps have a resolution of one second; the UIDs break ties, so
// that all clusters agree.
func CompareClaims(at time.Time, uid types.UID, otherAt time.Time, otherUID types.UID) int {
	return cmp.Or(CompareAge(at, otherAt), cmp.Compare(uid, otherUID))
}

// CompareAge orders older times first and unknown times last: a cluster with an
// unknown time must not displace one with a known time.
func CompareAge(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		return -a.Compare(b)
	}
	return a.Compare(b)
}
