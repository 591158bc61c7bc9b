// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// Identity is who this cluster says it is.
type Identity struct {
	// ID and ClusterSet are its claims: empty where there is none.
	ID, ClusterSet string
	// IDClaimedAt is since when it claims its id in the ClusterSet.
	IDClaimedAt time.Time
	// UID is that of its namespace kube-system.
	UID types.UID
	// Since is when the cluster was made.
	Since time.Time
	// CIDRs are its part of the addresses for one IP in all clusters, separated by
	// commas, and CIDRProblem is why it cannot use them.
	CIDRs, CIDRProblem string
}

// claims are what a member says of itself.
type claims struct {
	id, clusterSet string
	idClaimedAt    time.Time
}

// ClaimedAt is since when a cluster claims its id in its ClusterSet, by when it
// made the two claims. Neither can change while both are there, so that whoever
// joined first has the older claim, whenever its id was made.
func ClaimedAt(id, clusterSet *multiclusterv1.ClusterClaim) time.Time {
	var at time.Time
	for _, claim := range []*multiclusterv1.ClusterClaim{id, clusterSet} {
		if claim != nil && claim.CreationTimestamp.After(at) {
			at = claim.CreationTimestamp.Time
		}
	}
	return at
}

// candidate is what is known of the cluster that a Secret leads to.
type candidate struct {
	*spec
	// claims is nil until the member was asked.
	claims *claims
	// clusterUID is empty until the member was asked, unless it is remembered.
	clusterUID types.UID
	// remembered is true when the member was accepted before a restart.
	remembered bool
	// claimedAt is since when it claims its id, as it said or as is remembered; zero
	// if neither.
	claimedAt time.Time
}

// Reasons of the condition Accepted.
const (
	reasonAccepted         = "Accepted"
	reasonUnknown          = "Unknown"
	reasonInvalidSecret    = "InvalidSecret"
	reasonNoClusterSet     = "NoClusterSet"
	reasonWrongClusterID   = "WrongClusterID"
	reasonWrongClusterSet  = "WrongClusterSet"
	reasonSelf             = "LeadsToThisCluster"
	reasonDuplicateID      = "DuplicateClusterID"
	reasonDuplicateSecrets = "DuplicateSecret"
)

// verdict is whether a member takes part.
type verdict struct {
	accepted        bool
	reason, message string
}

func (v verdict) refused() bool { return !v.accepted && v.reason != reasonUnknown }

// left is true of a cluster that says of itself that it is no member.
func (v verdict) left() bool {
	return v.reason == reasonWrongClusterID || v.reason == reasonWrongClusterSet
}

// judge decides who takes part. The answer depends on all of them, because two
// may claim one id.
func judge(self Identity, candidates []candidate) map[*spec]verdict {
	verdicts := map[*spec]verdict{}
	rivals := map[string][]candidate{}
	for _, c := range candidates {
		verdict := judgeOne(self, c)
		verdicts[c.spec] = verdict
		if verdict.accepted {
			rivals[c.id] = append(rivals[c.id], c)
		}
	}
	for _, rivals := range rivals {
		slices.SortFunc(rivals, byClaim)
		holder := rivals[0]
		for _, other := range rivals[1:] {
			verdicts[other.spec] = displaced(holder, other)
		}
	}
	return verdicts
}

// byClaim puts the oldest claim first, and of two Secrets that lead to one
// cluster the older.
func byClaim(a, b candidate) int {
	return cmp.Or(
		olderClaim(a.claimedAt, a.clusterUID, b.claimedAt, b.clusterUID),
		a.created.Compare(b.created.Time),
		cmp.Compare(a.secret, b.secret),
	)
}

// olderClaim is negative if the first of two clusters that claim one id keeps it.
// Times are whole seconds, so that there are ties; all clusters decide the same.
func olderClaim(at time.Time, uid types.UID, otherAt time.Time, otherUID types.UID) int {
	return cmp.Or(byAge(at, otherAt), cmp.Compare(uid, otherUID))
}

// byAge puts older times first, and times that are not known last: they must not
// displace any that are.
func byAge(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		return -a.Compare(b)
	}
	return a.Compare(b)
}

func displaced(holder, other candidate) verdict {
	if holder.clusterUID == other.clusterUID {
		return verdict{reason: reasonDuplicateSecrets, message: fmt.Sprintf(
			"Secrets %q and %q lead to the same cluster: delete one of them", holder.secret, other.secret)}
	}
	return verdict{reason: reasonDuplicateID, message: fmt.Sprintf(
		"the clusters of Secrets %q and %q both claim the id %q; the older claim, that of %q, stands: give the other cluster another id",
		holder.secret, other.secret, other.id, holder.secret)}
}

func judgeOne(self Identity, c candidate) verdict {
	switch {
	case c.problem != nil:
		return verdict{reason: reasonInvalidSecret, message: fmt.Sprintf("Secret %q cannot be used: %v", c.secret, c.problem)}
	case self.ID == "" || self.ClusterSet == "":
		return verdict{reason: reasonNoClusterSet, message: fmt.Sprintf(
			"this cluster is in no ClusterSet: create the ClusterClaims %s and %s", multicluster.ClusterIDClaim, multicluster.ClusterSetClaim)}
	case c.claims == nil && c.remembered && c.id != self.ID:
		return verdict{accepted: true, reason: reasonAccepted, message: "it was a member before, and has not been asked yet since this server started"}
	case c.claims == nil:
		return verdict{reason: reasonUnknown, message: "it has not been asked yet who it is"}
	case c.claims.id != c.id:
		return verdict{reason: reasonWrongClusterID, message: fmt.Sprintf(
			"Secret %q says that it leads to cluster %q, but that cluster's claim %s is %q: correct the Secret's %s",
			c.secret, c.id, multicluster.ClusterIDClaim, c.claims.id, clusterset.MemberSecretClusterID)}
	case c.claims.clusterSet == "":
		return verdict{reason: reasonWrongClusterSet, message: fmt.Sprintf(
			"it is in no ClusterSet: it has left, or has yet to join by claiming %s", multicluster.ClusterSetClaim)}
	case c.claims.clusterSet != self.ClusterSet:
		return verdict{reason: reasonWrongClusterSet, message: fmt.Sprintf(
			"its claim %s is %q and that of this cluster is %q: clusters of one ClusterSet have the same",
			multicluster.ClusterSetClaim, c.claims.clusterSet, self.ClusterSet)}
	case c.clusterUID == "":
		return verdict{reason: reasonUnknown, message: "it has not been asked yet who it is"}
	case c.clusterUID == self.UID:
		return verdict{reason: reasonSelf, message: fmt.Sprintf("Secret %q leads to this very cluster: delete it", c.secret)}
	case c.id == self.ID:
		older, younger := "this cluster", "the other"
		if olderClaim(c.claimedAt, c.clusterUID, self.IDClaimedAt, self.UID) < 0 {
			older, younger = "the other", "this cluster"
		}
		return verdict{reason: reasonDuplicateID, message: fmt.Sprintf(
			"it claims the id %q, as this cluster does; the older claim is that of %s: give %s another id", c.id, older, younger)}
	}
	return verdict{accepted: true, reason: reasonAccepted, message: "its claims are those of a member"}
}
