// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// memberChanged is for members that are lost, or found again: what they
// export is withdrawn, or comes back. Other changes mean nothing here: what a
// cluster that has ceased to be a member exported goes by itself, and until
// that is known it is used, or not used, as before.
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
		return // there is such an index
	}
	for _, service := range exported {
		c.enqueueImport(service.(metav1.Object))
	}
}

// setLost notes whether a member's endpoints are withdrawn, and says whether
// that is new.
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

// withdrawn says whether the endpoints of a member are not to be used: it is
// lost, and not to be kept all the same. That is not known of one that has not
// been reached yet, or is kept out.
func withdrawn(entry *clustersetv1alpha1.Member) (withdrawn, known bool) {
	switch entry.Status.State {
	case clustersetv1alpha1.MemberLost:
		return entry.Status.LostPolicy != clustersetv1alpha1.LostPolicyKeep, true
	case clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale:
		return false, true
	}
	return false, false
}
