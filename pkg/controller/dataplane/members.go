// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// settleTime is how long a member still counts as outdated when mcs-apiserver has read
// it: its exports arrive in other watches than its state.
const settleTime = 500 * time.Millisecond

// memberChanged enqueues the imports of a member that was lost or came back: its
// endpoints are withdrawn or restored. It also does if what is known of the member is no
// longer outdated. Other changes need no action: the exports of a cluster that left the
// ClusterSet are deleted, and until then its endpoints stay as they are.
func (c *Controller) memberChanged(object metav1.Object) {
	changed, ok := object.(*clustersetv1alpha1.Member)
	if !ok {
		return
	}
	entry, err := c.members.Get(changed.Status.ClusterID)
	if err != nil {
		entry = nil
	}
	c.setOutdated(changed.Status.ClusterID, entry)
	c.resume()
	if entry == nil || !c.setLost(entry) {
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

// resume enqueues what was postponed and need not be any longer. It is called whenever a
// member changes, or has settled.
func (c *Controller) resume() {
	c.mu.Lock()
	postponed := maps.Clone(c.postponed)
	c.mu.Unlock()
	for cluster, unread := range postponed {
		if c.postponeOutdated(cluster) || unread && c.postponeUnread(cluster) {
			continue
		}
		c.mu.Lock()
		delete(c.postponed, cluster)
		c.mu.Unlock()
		c.enqueueCluster(cluster)
	}
}

// postponeOutdated reports whether another replica may know newer exports of a cluster
// than this one, because of the cluster itself or of the hub that relays it. What is
// imported from it then stays as it is, until it is enqueued again.
func (c *Controller) postponeOutdated(cluster string) bool {
	route := []string{cluster}
	if entry, err := c.members.Get(cluster); err == nil && len(entry.Status.Path) > 0 {
		route = append(route, entry.Status.Path[len(entry.Status.Path)-1])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	postpone := false
	for _, member := range route {
		until, outdated := c.outdated[member]
		wait := until.Sub(c.clock.Now())
		switch {
		case !outdated || !until.IsZero() && wait <= 0:
			continue
		case wait > 0:
			c.queue.AddAfter(settled, wait)
		}
		if _, found := c.postponed[cluster]; !found {
			c.postponed[cluster] = false
		}
		postpone = true
	}
	return postpone
}

// postponeAnyOutdated is like postponeOutdated for all source clusters of an import.
func (c *Controller) postponeAnyOutdated(name types.NamespacedName) bool {
	postpone := false
	for cluster := range c.sources(name) {
		postpone = c.postponeOutdated(cluster) || postpone
	}
	return postpone
}

// postponeUnread reports whether not all exports of a cluster are known. What is imported
// from it for an import that may not be exported any more then stays as it is, until it
// is enqueued again.
func (c *Controller) postponeUnread(cluster string) bool {
	if entry, err := c.members.Get(cluster); err == nil && entry.Status.Synced {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.postponed[cluster] = true
	return true
}

// enqueueCluster enqueues everything that a cluster exports or that is imported from it.
func (c *Controller) enqueueCluster(cluster string) {
	names := sets.New[types.NamespacedName]()
	for _, indexer := range []cache.Indexer{c.exported, c.slices} {
		objects, err := indexer.ByIndex(byCluster, cluster)
		if err != nil {
			return // unreachable: the index exists
		}
		for _, object := range objects {
			metadata := object.(metav1.Object)
			names.Insert(types.NamespacedName{Namespace: metadata.GetNamespace(), Name: metadata.GetLabels()[multicluster.ServiceNameLabel]})
		}
	}
	for name := range names {
		c.queue.Add(ofService(name))
		c.queue.Add(key{name, cluster})
	}
}

// setOutdated records whether another replica may know newer exports of a member, nil if
// it is none.
func (c *Controller) setOutdated(member string, entry *clustersetv1alpha1.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, before := c.outdated[member]
	switch {
	case outdated(entry):
		c.outdated[member] = time.Time{}
	case !before:
	case entry == nil || entry.Status.State == clustersetv1alpha1.MemberLost || entry.Status.State == clustersetv1alpha1.MemberRefused:
		delete(c.outdated, member) // nothing is going to be read
	case until.IsZero():
		c.outdated[member] = c.clock.Now().Add(settleTime)
	case !c.clock.Now().Before(until):
		delete(c.outdated, member)
	}
}

// outdated reports whether another replica may know newer exports of a member. Conditions
// of a relayed cluster are those of the replicas of its hub.
func outdated(entry *clustersetv1alpha1.Member) bool {
	if entry == nil || len(entry.Status.Path) > 1 {
		return false
	}
	synced := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberSynced)
	return synced != nil && (synced.Reason == clusterset.ReasonOutdated || synced.Reason == clusterset.ReasonUnrecorded)
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
