// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package members reads a cluster's view of the ClusterSet.
package members

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// JoinAdvice is what to do with a cluster that is in no ClusterSet.
const JoinAdvice = "make it a member of one with `kubectl mcs join`"

// Identity is who a cluster says it is, as far as it does.
func Identity(members []clustersetv1alpha1.Member) (id, clusterSet string) {
	for i := range members {
		if status := &members[i].Status; status.State == clustersetv1alpha1.MemberLocal {
			return status.ClusterID, status.ClusterSet
		}
	}
	return "", ""
}

// InClusterSet says whether a cluster is in a ClusterSet. Who may change things in a
// namespace may not always read the members: then that is not known.
func InClusterSet(ctx context.Context, c *cluster.Cluster) (joined, known bool) {
	members, err := c.MCS.ClusterSetV1alpha1().Members().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, false
	}
	id, clusterSet := Identity(members.Items)
	return id != "" && clusterSet != "", true
}

// Find is the entry of a cluster, nil if there is none. The name of an
// entry is the id of the cluster; one that shares its id with the rightful
// member goes by another name.
func Find(members []clustersetv1alpha1.Member, id string) *clustersetv1alpha1.Member {
	at := slices.IndexFunc(members, func(member clustersetv1alpha1.Member) bool { return member.Name == id })
	if at < 0 {
		return nil
	}
	return &members[at]
}
