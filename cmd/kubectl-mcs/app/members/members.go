// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package members looks up entries in a cluster's list of members.
package members

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// JoinAdvice tells users what to do with a cluster that is not in a ClusterSet.
const JoinAdvice = "join the cluster to a ClusterSet with `kubectl mcs join`"

// Identity returns the cluster ID and the ClusterSet of the local entry. Both are
// empty if there is no such entry.
func Identity(entries []clustersetv1alpha1.Member) (id, clusterSet string) {
	for i := range entries {
		if status := &entries[i].Status; status.State == clustersetv1alpha1.MemberLocal {
			return status.ClusterID, status.ClusterSet
		}
	}
	return "", ""
}

// InClusterSet reports whether a cluster is in a ClusterSet. This is unknown to
// users who are not allowed to read the members.
func InClusterSet(ctx context.Context, c *cluster.Cluster) (inClusterSet, known bool) {
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, false
	}
	id, clusterSet := Identity(members.Items)
	return id != "" && clusterSet != "", true
}

// Find returns the entry of the member with this ID, or nil. The name of an entry
// is the cluster ID, except for a cluster whose ID is in use by another member.
func Find(entries []clustersetv1alpha1.Member, id string) *clustersetv1alpha1.Member {
	at := slices.IndexFunc(entries, func(member clustersetv1alpha1.Member) bool { return member.Name == id })
	if at < 0 {
		return nil
	}
	return &entries[at]
}

// PeerIDs lists the IDs of all members but the cluster itself.
func PeerIDs(ctx context.Context, c *cluster.Cluster, _ string) ([]string, error) {
	entries, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range entries.Items {
		if status := &entries.Items[i].Status; status.State != clustersetv1alpha1.MemberLocal && status.ClusterID != "" {
			ids = append(ids, status.ClusterID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
