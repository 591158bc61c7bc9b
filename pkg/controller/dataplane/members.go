// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// memberChanged enqueues the imports of a member that was lost or came back: its
// endpoints are withdrawn or restored. Other changes need no action: the exports of
// a cluster that left the ClusterSet are deleted, and until then its endpoints stay
// as they are.
func (c *Controller) memberChanged(object metav1.Object) {
	changed, ok := object.(*clustersetv1alpha1.Member)
	if !ok {
		return
	}
	entry, err := c.members.Get(changed.Status.ClusterID)
	if err != nil || !c.setLost(entry) {
		return
	}
	exported, err := c.exported.ByIndex(byCluster, entry.Name)
	if err != nil {
		return // unreachable: the index exists
	}
	for _, service := range exported {
		c.enqueueExporter(service.(metav1.Object))
	}
}

// setLost records whether the endpoints of a member are withdrawn, and reports
// whether that changed.
func (c *Controller) setLost(entry *clustersetv1alpha1.Member) bool {
	withdrawn, known := withdrawn(entry)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !known || c.lost.Has(entry.Name) == withdrawn {
		return false
	}
	if withdrawn {
		c.lost.Insert(entry.Name)
	} else {
		c.lost.Delete(entry.Name)
	}
	return true
}

// withdrawn reports whether the endpoints of a member are withdrawn, because it is
// lost and its policy does not keep them. known is false for a member that has not
// been reached yet, or was refused.
func withdrawn(entry *clustersetv1alpha1.Member) (withdrawn, known bool) {
	switch entry.Status.State {
	case clustersetv1alpha1.MemberLost:
		return entry.Status.LostPolicy != clustersetv1alpha1.LostPolicyKeep, true
	case clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale:
		return false, true
	}
	return false, false
}
