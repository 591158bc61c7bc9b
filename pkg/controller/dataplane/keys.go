// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/sourceindex"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

const (
	// The objects of a key that keeps changing are written once per writeInterval.
	// Before that, writeBurst changes are written at once.
	writeInterval = time.Second
	writeBurst    = 10
)

// key is what is reconciled at a time: the derived Service of an import, or its
// imported EndpointSlices of one source cluster. So the endpoints of one cluster never
// wait for those of another.
type key struct {
	types.NamespacedName // of the import
	// cluster is the source cluster. It is empty for the derived Service.
	cluster string
}

func ofService(name types.NamespacedName) key { return key{NamespacedName: name} }

// settled is the key of what was postponed until a member has settled.
var settled key

// rezoned is the key of the zones of nodes. No import has it.
var rezoned = key{cluster: "*zones"}

// LogValues returns keys and values for logs.
func (k key) LogValues() []any {
	values := []any{"namespace", k.Namespace, "service", k.Name}
	if k.cluster != "" {
		values = append(values, "cluster", k.cluster)
	}
	return values
}

// mayWrite reports whether the objects of a key may be written now. Otherwise the key
// is enqueued again when they may: the last state is always written.
func (c *Controller) mayWrite(key key) bool {
	wait := c.pace.Take(key)
	if wait > 0 {
		c.queue.AddAfter(key, wait)
	}
	return wait == 0
}

// isDue is like mayWrite, but nothing counts as written.
func (c *Controller) isDue(key key) bool {
	wait := c.pace.Wait(key)
	if wait > 0 {
		c.queue.AddAfter(key, wait)
	}
	return wait == 0
}

// sharedServices is the source of the derived Services that several members export. It is no
// cluster ID.
const sharedServices = "*"

// source returns whose turn it is when a key is reconciled: that of the member that it is
// attributed to. Derived Services that several members export have a turn of their own: any
// of them could use up those of the others.
func (c *Controller) source(key key) string {
	member := c.cause(key)
	if key.cluster != "" {
		return member
	}
	for _, cluster := range c.exporters(key.NamespacedName) {
		if key.cluster = cluster; c.cause(key) != member {
			return sharedServices
		}
	}
	return member
}

// cause returns the member that a key is attributed to: a hub for all clusters that it
// relays, however many it makes up.
func (c *Controller) cause(key key) string {
	cluster := c.origin(key)
	if entry, err := c.members.Get(cluster); err == nil && len(entry.Status.Path) > 1 {
		return entry.Status.Path[len(entry.Status.Path)-1]
	}
	return cluster
}

// origin returns the cluster that a key is attributed to. A derived Service is attributed to the
// oldest export, which decides what it is like, and that of an ended import to a former source.
func (c *Controller) origin(key key) string {
	if key.cluster != "" {
		return key.cluster
	}
	exported, err := c.exported.ByIndex(byImport, key.String())
	if err != nil {
		return "" // unreachable: the index exists
	}
	if len(exported) > 0 {
		return slices.MinFunc(exported, func(a, b any) int { return precedence.Compare(rank(a), rank(b)) }).(*clustersetv1alpha1.ExportedService).Spec.Cluster
	}
	if former := sets.List(c.sources(key.NamespacedName)); len(former) > 0 {
		return former[0]
	}
	return ""
}

func rank(exported any) precedence.Rank {
	spec := &exported.(*clustersetv1alpha1.ExportedService).Spec
	return precedence.Rank{Since: clusterset.Since(spec.ExportedAt, spec.EffectiveAt).Time, Created: spec.ExportedAt.Time, Cluster: spec.Cluster}
}

// sources returns the clusters that export a service or have imported EndpointSlices.
func (c *Controller) sources(name types.NamespacedName) sets.Set[string] {
	clusters := sets.New[string]()
	exported, err := c.exported.ByIndex(byImport, name.String())
	if err != nil {
		return clusters // unreachable: the index exists
	}
	for _, object := range exported {
		clusters.Insert(object.(*clustersetv1alpha1.ExportedService).Spec.Cluster)
	}
	for _, slice := range c.existingSlices(name) {
		if cluster := slice.Labels[multicluster.SourceClusterLabel]; cluster != "" {
			clusters.Insert(cluster)
		}
	}
	return clusters
}

// enqueueAll enqueues all objects of an import.
func (c *Controller) enqueueAll(name types.NamespacedName) {
	c.queue.Add(ofService(name))
	for cluster := range c.sources(name) {
		c.queue.Add(key{name, cluster})
	}
}

// enqueueName enqueues all objects of an import that changed.
func (c *Controller) enqueueName(object metav1.Object) {
	c.enqueueAll(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
}

// enqueueExport enqueues all that depends on what a cluster exports. The derived Service
// follows from the import, but an import that arrived before may wait for its cause.
func (c *Controller) enqueueExport(object metav1.Object) {
	c.enqueueExporter(object)
	if name := object.GetLabels()[multicluster.ServiceNameLabel]; name != "" {
		c.queue.Add(ofService(types.NamespacedName{Namespace: object.GetNamespace(), Name: name}))
	}
}

// enqueueExporter enqueues the imported EndpointSlices of what a cluster exports.
func (c *Controller) enqueueExporter(object metav1.Object) {
	labels := object.GetLabels()
	name, cluster := labels[multicluster.ServiceNameLabel], labels[multicluster.SourceClusterLabel]
	if name != "" && cluster != "" {
		c.enqueueSource(key{types.NamespacedName{Namespace: object.GetNamespace(), Name: name}, cluster})
		c.forgetFormer(cluster)
	}
}

// enqueueSource enqueues the imported EndpointSlices of one source cluster, and of those
// whose endpoints are kept only if no others are ready.
func (c *Controller) enqueueSource(source key) {
	c.queue.Add(source)
	c.mu.Lock()
	var last []string
	for cluster, entry := range c.silent {
		if cluster != source.cluster && entry.Status.LostPolicy == clustersetv1alpha1.LostPolicyKeepLast {
			last = append(last, cluster)
		}
	}
	c.mu.Unlock()
	for _, cluster := range last {
		if key := (key{source.NamespacedName, cluster}); c.exports(key) {
			c.queue.Add(key)
		}
	}
}

// exports reports whether a cluster exports a service.
func (c *Controller) exports(key key) bool {
	return slices.Contains(c.exporters(key.NamespacedName), key.cluster)
}

// enqueueOwned enqueues the import of an imported EndpointSlice, whatever its source
// was before somebody changed its labels. Other slices are ignored.
func (c *Controller) enqueueOwned(object metav1.Object) {
	labels := object.GetLabels()
	if name := sourceindex.ImportName(labels); name != "" && labels[discoveryv1.LabelManagedBy] == multicluster.ManagedBy {
		c.enqueueAll(types.NamespacedName{Namespace: object.GetNamespace(), Name: name})
	}
}
