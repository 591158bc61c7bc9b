// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// verdict is what happens to the endpoints that a cluster exports for a service.
type verdict int

const (
	// useEndpoints means that they are imported.
	useEndpoints verdict = iota
	// withdrawEndpoints means that they are not.
	withdrawEndpoints
	// leaveEndpoints means that what is imported stays as it is, because it is not known
	// yet whether they answer.
	leaveEndpoints
)

// expired reports whether a member has been silent for its TTL. known is false for a member
// that has not been reached yet, or was refused: that changes nothing.
func expired(entry *clustersetv1alpha1.Member) (expired, known bool) {
	switch entry.Status.State {
	case clustersetv1alpha1.MemberLost:
		return true, true
	case clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberUnavailable, clustersetv1alpha1.MemberStale:
		return entry.Status.Expired, true
	}
	return false, false
}

// judge returns what happens to the endpoints of a service that a member exports, given
// what connections to them found. entry is nil unless the member has been silent for its
// TTL.
func judge(entry *clustersetv1alpha1.Member, finding liveness.Finding) verdict {
	switch {
	case kept(entry):
		return useEndpoints
	case entry.Status.Overdue, finding == liveness.Silent, finding == liveness.Unaskable:
		return withdrawEndpoints
	case finding == liveness.Answers:
		return useEndpoints
	}
	return leaveEndpoints
}

// setLeft records whether what is imported from a cluster for a service is left as it is, and
// returns the UID of the derived Service that owned it when that began, empty if nothing was
// imported. It is deleted with that Service, so that it has to be imported again for another.
func (c *Controller) setLeft(key key, left bool) types.UID {
	existing := c.existingSlices(key.NamespacedName)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !left {
		delete(c.left, key)
		return ""
	}
	for _, slice := range existing {
		owner := metav1.GetControllerOf(slice)
		if _, known := c.left[key]; !known && owner != nil && slice.Labels[multicluster.SourceClusterLabel] == key.cluster {
			c.left[key] = owner.UID
		}
	}
	return c.left[key]
}

// contribution is what a cluster contributes to an import.
type contribution struct {
	// verdict is that on the cluster alone, and keepLast whether its policy is to keep the
	// last ready endpoints of an import.
	verdict  verdict
	keepLast bool
	// ready is whether any of its endpoints that are imported, or would be, is ready.
	ready bool
}

// decide returns what happens to the endpoints of one of the clusters that contribute to an
// import. If only endpoints that would be withdrawn are ready, those are kept whose policy
// says so.
func decide(cluster string, contributions map[string]contribution) verdict {
	own := contributions[cluster]
	if own.verdict != withdrawEndpoints || !own.keepLast || !own.ready {
		return own.verdict
	}
	for id, other := range contributions {
		if id != cluster && other.ready && other.verdict == useEndpoints {
			return withdrawEndpoints
		}
	}
	return useEndpoints
}
