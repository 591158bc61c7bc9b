// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/sourceindex"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// settleTime is how long a member still counts as outdated when mcs-apiserver has read
// it: its exports arrive in other watches than its state.
const settleTime = 500 * time.Millisecond

// maxSharedDelay limits how long a member that only another replica reaches postpones changes of
// Services that other clusters export as well. Within it, that replica normally leads.
const maxSharedDelay = 2 * time.Minute

// memberChanged enqueues the imports of a member that has been silent for its TTL or came
// back: its endpoints may be withdrawn or restored. It also does if what is known of the member is no
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
	c.updateProperties(changed.Status.ClusterID, entry)
	c.resume()
	if entry == nil {
		c.forgetFormer(changed.Status.ClusterID)
		return
	}
	if !c.setSilent(entry) {
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
	route := c.route(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	postpone := false
	for _, member := range route {
		period, outdated := c.outdated[member]
		wait := period.until.Sub(c.clock.Now())
		switch {
		case !outdated || period.ended(c.clock.Now()):
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

// route returns the members because of which what is known of a cluster may be outdated: the
// cluster itself, and the hub that relays it.
func (c *Controller) route(cluster string) []string {
	route := []string{cluster}
	if entry, err := c.members.Get(cluster); err == nil && len(entry.Status.Path) > 0 {
		route = append(route, entry.Status.Path[len(entry.Status.Path)-1])
	}
	return route
}

// isOutdated is like postponeOutdated, but postpones nothing.
func (c *Controller) isOutdated(cluster string) bool {
	route := c.route(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(route, func(member string) bool {
		period, outdated := c.outdated[member]
		return outdated && !period.ended(c.clock.Now())
	})
}

// postponeAnyOutdated is like postponeOutdated for the derived Service of an import, which all
// of its source clusters share. If some of them are not outdated, it ends after
// maxSharedDelay: a member that responds to some replicas only would keep the others from
// changing their Service.
func (c *Controller) postponeAnyOutdated(name types.NamespacedName) bool {
	postpone, shared, remaining := false, false, time.Duration(0)
	for cluster := range c.sources(name) {
		if c.postponeOutdated(cluster) {
			postpone, remaining = true, max(remaining, c.sharedDelay(cluster))
		} else {
			shared = true
		}
	}
	if postpone && shared {
		if remaining <= 0 {
			return false
		}
		c.queue.AddAfter(ofService(name), remaining)
	}
	return postpone
}

// sharedDelay returns how long a cluster that is outdated still postpones derived Services
// that it shares with others.
func (c *Controller) sharedDelay(cluster string) time.Duration {
	route := c.route(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	remaining := time.Duration(0)
	for _, member := range route {
		if period, outdated := c.outdated[member]; outdated && !period.ended(c.clock.Now()) {
			remaining = max(remaining, period.since.Add(maxSharedDelay).Sub(c.clock.Now()))
		}
	}
	return remaining
}

// postponeUnread reports whether not all exports of a cluster are known. What is imported
// from it for an import that may not be exported any more then stays as it is, until it
// is enqueued again.
func (c *Controller) postponeUnread(cluster string) bool {
	if !c.isUnread(cluster) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.postponed[cluster] = true
	return true
}

// isUnread is like postponeUnread, but postpones nothing.
func (c *Controller) isUnread(cluster string) bool {
	entry, err := c.members.Get(cluster)
	return err != nil || !entry.Status.Synced
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
			names.Insert(types.NamespacedName{Namespace: metadata.GetNamespace(), Name: sourceindex.ImportName(metadata.GetLabels())})
		}
	}
	for name := range names {
		c.queue.Add(ofService(name))
		c.queue.Add(key{name, cluster})
	}
}

// outdatedPeriod is while another replica may know newer exports of a member.
type outdatedPeriod struct {
	since time.Time
	// until is when the period ends, zero as long as mcs-apiserver says so.
	until time.Time
}

func (p outdatedPeriod) ended(now time.Time) bool { return !p.until.IsZero() && !now.Before(p.until) }

// setOutdated records whether another replica may know newer exports of a member, nil if
// it is none.
func (c *Controller) setOutdated(member string, entry *clustersetv1alpha1.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	period, before := c.outdated[member]
	switch {
	case outdated(entry) && before && !period.ended(c.clock.Now()):
		c.outdated[member] = outdatedPeriod{since: period.since}
	case outdated(entry):
		c.outdated[member] = outdatedPeriod{since: c.clock.Now()}
	case !before:
	case entry == nil || entry.Status.Expired || entry.Status.State == clustersetv1alpha1.MemberLost || entry.Status.State == clustersetv1alpha1.MemberRefused:
		delete(c.outdated, member) // nothing is going to be read
	case period.until.IsZero():
		period.until = c.clock.Now().Add(settleTime)
		c.outdated[member] = period
	case period.ended(c.clock.Now()):
		delete(c.outdated, member)
	}
}

// outdated reports whether another replica may know newer exports of a member. Other conditions
// of a relayed cluster are those of the replicas of its hub.
func outdated(entry *clustersetv1alpha1.Member) bool {
	if entry == nil {
		return false
	}
	synced := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberSynced)
	if len(entry.Status.Path) > 1 {
		return synced != nil && synced.Reason == clusterset.ReasonReachedElsewhere
	}
	return synced != nil && (synced.Reason == clusterset.ReasonOutdated || synced.Reason == clusterset.ReasonUnrecorded)
}

// setSilent records whether a member has been silent for its TTL, and reports whether that
// changed what happens to its endpoints.
func (c *Controller) setSilent(entry *clustersetv1alpha1.Member) bool {
	expired, known := expired(entry)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.silent[entry.Name]
	switch {
	case !known:
		return false
	case expired:
		c.silent[entry.Name] = entry
	default:
		delete(c.silent, entry.Name)
	}
	after := c.silent[entry.Name]
	if kept(before) || kept(after) {
		return kept(before) != kept(after)
	}
	was, is := &before.Status, &after.Status
	return was.LostPolicy != is.LostPolicy || was.State != is.State || was.Overdue != is.Overdue
}

// forgetFormer forgets a cluster that is no longer a member, and exports nothing any more.
// Until then, endpoints that were withdrawn must not return.
func (c *Controller) forgetFormer(cluster string) {
	exported, err := c.exported.ByIndex(byCluster, cluster)
	if _, missing := c.members.Get(cluster); err != nil || len(exported) > 0 || missing == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.silent, cluster)
}

// kept reports whether all endpoints of a member are used, whether they answer or not. It is
// nil unless the member has been silent for its TTL.
func kept(entry *clustersetv1alpha1.Member) bool {
	return entry == nil || entry.Status.LostPolicy == clustersetv1alpha1.LostPolicyKeep
}

// silentMember returns a member that has been silent for its TTL, nil if it has not.
func (c *Controller) silentMember(cluster string) *clustersetv1alpha1.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.silent[cluster]
}

// Reconsider enqueues a service of a member, of which something else was found. It does not
// block.
func (c *Controller) Reconsider(cluster string, service types.NamespacedName) {
	c.enqueueSource(key{service, cluster})
}

// verdict returns what happens to the endpoints that a cluster exports for a service.
func (c *Controller) verdict(key key) verdict {
	entry := c.silentMember(key.cluster)
	if entry == nil {
		return useEndpoints
	}
	alone := judge(entry, c.finding(key))
	if alone != withdrawEndpoints || entry.Status.LostPolicy != clustersetv1alpha1.LostPolicyKeepLast {
		return alone
	}
	contributions := map[string]contribution{}
	for _, cluster := range c.exporters(key.NamespacedName) {
		source := key
		source.cluster = cluster
		silent := c.silentMember(cluster)
		contributions[cluster] = contribution{
			verdict:  judge(silent, c.finding(source)),
			keepLast: silent != nil && silent.Status.LostPolicy == clustersetv1alpha1.LostPolicyKeepLast,
			ready:    c.contributes(source, cluster == key.cluster),
		}
	}
	return decide(key.cluster, contributions)
}

// finding returns what was found about the endpoints that a cluster exports for a service. Of
// endpoints that are imported, but not known, nothing is.
func (c *Controller) finding(key key) liveness.Finding {
	found := liveness.Unaskable
	if c.findings != nil {
		found = c.findings.Finding(key.cluster, key.NamespacedName)
	}
	if found == liveness.Unaskable && c.unknown(key) {
		return liveness.Pending
	}
	return found
}

// unknown reports whether the endpoints that a silent member exports for a service are
// imported, but not known: mcs-apiserver was restarted while they were withdrawn, and has
// not read the member since. The leader before this one found that they answer.
func (c *Controller) unknown(key key) bool {
	entry := c.silentMember(key.cluster)
	if entry == nil || entry.Status.Synced {
		return false
	}
	exporter, err := c.exporter(key)
	if err != nil || exporter == nil || len(exporter.slices) > 0 {
		return false
	}
	for _, slice := range c.existingSlices(key.NamespacedName) {
		if slice.Labels[multicluster.SourceClusterLabel] == key.cluster {
			return true
		}
	}
	return false
}

// exporters returns the clusters that export a service.
func (c *Controller) exporters(name types.NamespacedName) []string {
	exported, err := c.exported.ByIndex(byImport, name.String())
	if err != nil {
		return nil // unreachable: the index exists
	}
	clusters := make([]string, 0, len(exported))
	for _, object := range exported {
		clusters = append(clusters, object.(*clustersetv1alpha1.ExportedService).Spec.Cluster)
	}
	return clusters
}

// contributes reports whether a ready endpoint that a cluster exports for a service is imported,
// or is going to be. What is imported from an outdated cluster stays as it is, so that of another
// one than that which is decided about, only what is imported counts: its event follows.
func (c *Controller) contributes(key key, decided bool) bool {
	if !decided && c.isOutdated(key.cluster) {
		return c.readyNow(key)
	}
	return c.ready(key)
}

// readyNow reports whether a ready endpoint of a cluster is imported for a service.
func (c *Controller) readyNow(key key) bool {
	serviceImport, err := c.imports.ServiceImports(key.Namespace).Get(key.Name)
	if err != nil {
		return false
	}
	for _, slice := range c.existingSlices(key.NamespacedName) {
		serves := len(serviceImport.Spec.Ports) == 0 || len(slice.Ports) > 0
		if slice.Labels[multicluster.SourceClusterLabel] == key.cluster && slice.DeletionTimestamp == nil && serves && slices.ContainsFunc(slice.Endpoints, isReady) {
			return true
		}
	}
	return false
}

// ready reports whether a ready endpoint that a cluster exports for a service is imported, or
// would be.
func (c *Controller) ready(key key) bool {
	serviceImport, err := c.imports.ServiceImports(key.Namespace).Get(key.Name)
	service := c.existingService(key.NamespacedName)
	if err != nil || service == nil {
		return false
	}
	exporter, err := c.exporter(key)
	return err == nil && exporter != nil && hasReady(serviceImport, service, *exporter)
}
