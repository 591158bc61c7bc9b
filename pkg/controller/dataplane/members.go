// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// settleTime is how long a member still counts as outdated when mcs-apiserver has read
// it: its exports arrive in other watches than its state.
const settleTime = 5 * time.Second

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
	if wait, updated := c.setOutdated(changed.Status.ClusterID, entry); updated {
		c.queue.AddAfter(ofMember(changed.Status.ClusterID), wait)
	}
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

// enqueueThrough enqueues everything that a member, or a cluster that it relays, exports
// or that is imported from it.
func (c *Controller) enqueueThrough(member string) {
	for _, cluster := range c.through(member) {
		c.enqueueCluster(cluster)
	}
}

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
// it is none. It reports whether it was outdated and will not be after a while.
func (c *Controller) setOutdated(member string, entry *clustersetv1alpha1.Member) (wait time.Duration, updated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, before := c.outdated[member]
	switch {
	case outdated(entry):
		c.outdated[member] = time.Time{}
		return 0, false
	case !before || !until.IsZero():
		return 0, false
	case entry == nil || entry.Status.State == clustersetv1alpha1.MemberLost || entry.Status.State == clustersetv1alpha1.MemberRefused:
		delete(c.outdated, member) // nothing is going to be read
		return 0, true
	}
	c.outdated[member] = c.clock.Now().Add(settleTime)
	return settleTime, true
}

// isOutdated reports whether another replica may know newer exports of a cluster than this
// one, because of the cluster itself or of the hub that relays it. What is imported from it
// then stays as it is.
func (c *Controller) isOutdated(cluster string) bool {
	route := []string{cluster}
	if entry, err := c.members.Get(cluster); err == nil && len(entry.Status.Path) > 0 {
		route = append(route, entry.Status.Path[len(entry.Status.Path)-1])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, member := range route {
		if until, found := c.outdated[member]; found && (until.IsZero() || c.clock.Now().Before(until)) {
			return true
		}
	}
	return false
}

// isRead reports whether all exports of a cluster are known.
func (c *Controller) isRead(cluster string) bool {
	entry, err := c.members.Get(cluster)
	return err == nil && entry.Status.Synced
}

// through returns a member, and the clusters that it relays.
func (c *Controller) through(member string) []string {
	clusters := []string{member}
	entries, err := c.members.List(labels.Everything())
	if err != nil {
		return clusters // unreachable: it is a cache
	}
	for _, entry := range entries {
		if path := entry.Status.Path; len(path) > 1 && path[len(path)-1] == member {
			clusters = append(clusters, entry.Name)
		}
	}
	return clusters
}

// outdated reports whether another replica may know newer exports of a member.
func outdated(entry *clustersetv1alpha1.Member) bool {
	if entry == nil {
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
