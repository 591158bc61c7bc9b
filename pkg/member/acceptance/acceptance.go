// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package acceptance evaluates which of the clusters that member Secrets lead
// to are members of the ClusterSet.
package acceptance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// Reasons of the condition Accepted.
const (
	ReasonAccepted         = "Accepted"
	ReasonUnknown          = "Unknown"
	ReasonInvalidSecret    = "InvalidSecret"
	ReasonNoClusterSet     = "NoClusterSet"
	ReasonWrongClusterID   = "WrongClusterID"
	ReasonWrongClusterSet  = "WrongClusterSet"
	ReasonSelf             = "LeadsToThisCluster"
	ReasonDuplicateID      = "DuplicateClusterID"
	ReasonDuplicateSecrets = "DuplicateSecret"
)

// Candidate is the cluster that a Secret leads to.
type Candidate struct {
	// Secret is the name of the Secret, and SecretCreated when it was created.
	Secret        string
	SecretCreated time.Time
	// ClusterID is the cluster ID in the Secret.
	ClusterID string
	// Problem is set if the Secret is invalid, and was not valid before.
	Problem error
	// Expelled is whether the Secret expels the cluster.
	Expelled bool
	// Claims is nil until the claims of the cluster have been read.
	Claims *identity.Claims
	// ClusterUID is empty until it has been read or recalled.
	ClusterUID types.UID
	// Remembered is set if the cluster was accepted before a restart.
	Remembered bool
	// ClaimedAt is when the cluster claimed its ID, as read or recalled; zero if
	// neither.
	ClaimedAt time.Time
}

// Result tells whether a candidate is a member, and why.
type Result struct {
	Accepted        bool
	Reason, Message string
}

// Refused reports whether the candidate is known not to be a member.
func (r Result) Refused() bool { return !r.Accepted && r.Reason != ReasonUnknown }

// Excludes reports whether nothing of the cluster is used, through any hub either. A Secret that was
// never valid says nothing about the cluster.
func (r Result) Excludes() bool { return r.Refused() && r.Reason != ReasonInvalidSecret }

// Left reports whether the cluster itself claims not to be this member.
func (r Result) Left() bool {
	return r.Reason == ReasonWrongClusterID || r.Reason == ReasonWrongClusterSet
}

// Evaluate returns the results by the names of the Secrets. They depend on each
// other, because several clusters may claim one ID.
func Evaluate(self identity.Cluster, candidates []Candidate) map[string]Result {
	results := map[string]Result{}
	rivals := map[string][]Candidate{}
	for _, c := range candidates {
		result := evaluate(self, c)
		results[c.Secret] = result
		if result.Accepted {
			rivals[c.ClusterID] = append(rivals[c.ClusterID], c)
		}
	}
	for _, rivals := range rivals {
		slices.SortFunc(rivals, compare)
		holder := rivals[0]
		for _, other := range rivals[1:] {
			results[other.Secret] = displaced(holder, other)
		}
	}
	return results
}

// compare orders the oldest claim first, and of two Secrets that lead to one
// cluster the older.
func compare(a, b Candidate) int {
	return cmp.Or(
		identity.CompareClaims(a.ClaimedAt, a.ClusterUID, b.ClaimedAt, b.ClusterUID),
		a.SecretCreated.Compare(b.SecretCreated),
		cmp.Compare(a.Secret, b.Secret),
	)
}

func displaced(holder, other Candidate) Result {
	if holder.ClusterUID == other.ClusterUID {
		return Result{Reason: ReasonDuplicateSecrets, Message: fmt.Sprintf(
			"Secrets %q and %q lead to the same cluster: delete one of them", holder.Secret, other.Secret)}
	}
	return Result{Reason: ReasonDuplicateID, Message: fmt.Sprintf(
		"the clusters of Secrets %q and %q both claim the cluster ID %q; the older claim, that of Secret %q, takes precedence: give the other cluster another ID",
		holder.Secret, other.Secret, other.ClusterID, holder.Secret)}
}

func evaluate(self identity.Cluster, c Candidate) Result {
	unknown := Result{Reason: ReasonUnknown, Message: "cluster ID and ClusterSet not received yet"}
	switch {
	case c.Expelled:
		return Result{Reason: clusterset.ReasonExpelled, Message: fmt.Sprintf(
			"Secret %q expels cluster %q: nothing of the cluster is imported, and its decisions about shared ClusterSet IPs are made anew; delete the Secret when no export has such a decision, as kubectl mcs expel does",
			c.Secret, c.ClusterID)}
	case c.Problem != nil:
		return Result{Reason: ReasonInvalidSecret, Message: fmt.Sprintf("Secret %q is invalid: %v", c.Secret, c.Problem)}
	case !self.InClusterSet():
		return Result{Reason: ReasonNoClusterSet, Message: fmt.Sprintf(
			"this cluster is not in a ClusterSet: run kubectl mcs join, or create the ClusterClaims %s and %s", multicluster.ClusterIDClaim, multicluster.ClusterSetClaim)}
	case c.Claims == nil && c.Remembered && c.ClusterID != self.ID:
		return Result{Accepted: true, Reason: ReasonAccepted, Message: "accepted before this server restarted; cluster ID and ClusterSet not verified yet"}
	case c.Claims == nil:
		return unknown
	case c.Claims.ID != c.ClusterID:
		return Result{Reason: ReasonWrongClusterID, Message: fmt.Sprintf(
			"Secret %q is for cluster %q, but leads to a cluster whose ClusterClaim %s is %.100q: correct %s in the Secret",
			c.Secret, c.ClusterID, multicluster.ClusterIDClaim, c.Claims.ID, clusterset.MemberSecretClusterID)}
	case c.Claims.ClusterSet == "":
		return Result{Reason: ReasonWrongClusterSet, Message: fmt.Sprintf(
			"cluster %q is not in a ClusterSet: its ClusterClaim %s was deleted or not created yet", c.ClusterID, multicluster.ClusterSetClaim)}
	case c.Claims.ClusterSet != self.ClusterSet:
		return Result{Reason: ReasonWrongClusterSet, Message: fmt.Sprintf(
			"ClusterClaim %s is %.100q in cluster %q and %.100q in this cluster: both need the same value to be in one ClusterSet",
			multicluster.ClusterSetClaim, c.Claims.ClusterSet, c.ClusterID, self.ClusterSet)}
	case c.ClusterUID == "":
		return unknown
	case c.ClusterUID == self.UID:
		return Result{Reason: ReasonSelf, Message: fmt.Sprintf("Secret %q leads to this cluster itself: delete the Secret", c.Secret)}
	case c.ClusterID == self.ID:
		older, younger := "this cluster", "the other cluster"
		if identity.CompareClaims(c.ClaimedAt, c.ClusterUID, self.IDClaimedAt, self.UID) < 0 {
			older, younger = younger, older
		}
		return Result{Reason: ReasonDuplicateID, Message: fmt.Sprintf(
			"cluster ID %q is claimed by this cluster and by the cluster of Secret %q; the claim of %s is older: give %s another ID", c.ClusterID, c.Secret, older, younger)}
	}
	return Result{Accepted: true, Reason: ReasonAccepted, Message: "cluster ID and ClusterSet match this membership"}
}
