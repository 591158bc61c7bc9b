// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// preferred returns which clusters should answer for an import, nil if all should: clients of
// headless imports choose themselves, and those with a local traffic policy stay on their node.
func preferred(serviceImport *multiclusterxv1beta1.ServiceImport) *clusterpreference.Preference {
	if preferenceObstacle(serviceImport) != "" {
		return nil
	}
	return clusterpreference.OfImport(serviceImport.Annotations)
}

// preferenceObstacle returns why it has no effect which clusters an import prefers, whatever the
// cluster that imports it. It is empty if it has one, or prefers none.
func preferenceObstacle(serviceImport *multiclusterxv1beta1.ServiceImport) string {
	switch {
	case clusterpreference.OfImport(serviceImport.Annotations) == nil:
		return ""
	case headless(serviceImport):
		return "cluster preference has no effect: the import is headless, and DNS returns the endpoints of all clusters"
	case ptr.Deref(serviceImport.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal:
		return "cluster preference has no effect: the import has internalTrafficPolicy Local, and clients use endpoints on their node only"
	}
	return ""
}

// tierKey is what a tier is decided for: kube-proxy has a Service for each IP family.
type tierKey struct {
	types.NamespacedName // of the import
	family               discoveryv1.AddressType
}

var sliceFamilies = []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}

// tiers remembers what is decided about imports, and what that depends on.
type tiers struct {
	// deciding has a lock for each import that is held while it is decided, so that a decision
	// never follows one that knew more. While EndpointSlices of the import are detached or
	// attached, it is held until they are written.
	deciding importLocks

	mu     sync.Mutex
	states map[tierKey]preference.State
	// ineffective is why preferences have no effect on some or all clients.
	ineffective map[types.NamespacedName]ineffectiveReason
	// uncovered are zones in which clients use all clusters, by cluster of the tier.
	uncovered  map[tierKey]map[string][]string
	own        string
	properties map[string]map[string]string
	// zones is nil until nodes were read.
	zones *preference.Settled
}

func newTiers() *tiers {
	return &tiers{
		deciding: importLocks{held: map[types.NamespacedName]*importLock{}}, states: map[tierKey]preference.State{}, uncovered: map[tierKey]map[string][]string{},
		properties: map[string]map[string]string{}, ineffective: map[types.NamespacedName]ineffectiveReason{},
	}
}

// importLocks has a lock for each import that is in use.
type importLocks struct {
	mu   sync.Mutex
	held map[types.NamespacedName]*importLock
}

// importLock is a channel, and not a mutex: workers that wait for it wait for requests to the host.
type importLock struct {
	taken chan struct{}
	users int
}

// lock locks an import, and returns a function that unlocks it.
func (l *importLocks) lock(name types.NamespacedName) (unlock func()) {
	l.mu.Lock()
	one := l.held[name]
	if one == nil {
		one = &importLock{taken: make(chan struct{}, 1)}
		l.held[name] = one
	}
	one.users++
	l.mu.Unlock()
	one.taken <- struct{}{}
	return sync.OnceFunc(func() {
		<-one.taken
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, name)
		}
	})
}

// setProperties records the ClusterProperties of a cluster, nil if it is not a member, and returns
// the names of those that changed. Those of a member that mcs-apiserver has not read since it was
// restarted are unknown, and stay as they are.
func (t *tiers) setProperties(cluster string, entry *clustersetv1alpha1.Member) sets.Set[string] {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := sets.New[string]()
	if entry == nil {
		delete(t.properties, cluster)
		return changed // its exports are deleted
	}
	status := &entry.Status
	isOwn := status.State == clustersetv1alpha1.MemberLocal
	if !isOwn && status.Version == "" && status.KubernetesVersion == "" && len(status.Properties) == 0 && len(status.Path) == 0 {
		return changed
	}
	properties := map[string]string{}
	for _, property := range status.Properties {
		properties[property.Name] = property.Value
	}
	before := t.properties[cluster]
	for name, value := range properties {
		if former, had := before[name]; !had || former != value {
			changed.Insert(name)
		}
	}
	for name := range before {
		if _, has := properties[name]; !has {
			changed.Insert(name)
		}
	}
	t.properties[cluster] = properties
	if isOwn {
		t.own = cluster
	}
	return changed
}

// isOwn reports whether a cluster is this one.
func (t *tiers) isOwn(cluster string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own == cluster
}

// clusters returns what is known of the clusters.
func (t *tiers) clusters() preference.Clusters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return preference.Clusters{Own: t.own, Properties: maps.Clone(t.properties)}
}

// forget forgets what was decided about an import.
func (t *tiers) forget(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, family := range sliceFamilies {
		measureActive(t.states[tierKey{name, family}].Active, "")
		delete(t.states, tierKey{name, family})
		delete(t.uncovered, tierKey{name, family})
	}
}

// setIneffective records why the preference of an import has no effect on some or all clients,
// empty if it has, or the import is gone.
func (t *tiers) setIneffective(name types.NamespacedName, reason ineffectiveReason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	measureIneffective(t.ineffective[name], reason)
	if reason == "" {
		delete(t.ineffective, name)
	} else {
		t.ineffective[name] = reason
	}
}

// state returns what was decided.
func (t *tiers) state(of tierKey) preference.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states[of]
}

func (t *tiers) setState(of tierKey, state preference.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	measureActive(t.states[of].Active, state.Active)
	t.states[of] = state
}

// setUncovered records the zones for which no ready endpoint of a cluster is hinted, and reports
// whether that changed.
func (t *tiers) setUncovered(of tierKey, cluster string, zones []string, covers bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, had := t.uncovered[of][cluster]
	if !covers {
		delete(t.uncovered[of], cluster)
		return had && len(before) > 0
	}
	if t.uncovered[of] == nil {
		t.uncovered[of] = map[string][]string{}
	}
	t.uncovered[of][cluster] = zones
	return !slices.Equal(before, zones)
}

// uncoveredZones returns the zones for which no endpoint of the tier is hinted.
func (t *tiers) uncoveredZones(name types.NamespacedName) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var result []string
	for _, family := range sliceFamilies {
		var common []string
		first := true
		for _, zones := range t.uncovered[tierKey{name, family}] {
			if first {
				common, first = slices.Clone(zones), false
				continue
			}
			common = slices.DeleteFunc(common, func(zone string) bool { return !slices.Contains(zones, zone) })
		}
		result = append(result, common...)
	}
	slices.Sort(result)
	return slices.Compact(result)
}

// enqueuePreferring enqueues the imports that prefer clusters, and for which a condition holds.
func (c *Controller) enqueuePreferring(affected func(*multiclusterxv1beta1.ServiceImport) bool) {
	imports, err := c.imports.List(labels.Everything())
	if err != nil {
		return // unreachable: a cache does not fail
	}
	for _, serviceImport := range imports {
		if serviceImport.Annotations[multicluster.ClusterPreferenceAnnotation] != "" && affected(serviceImport) {
			c.enqueueName(serviceImport)
		}
	}
}

// updateProperties records the ClusterProperties of a cluster, and enqueues the imports that prefer
// clusters by one that changed: all if this cluster has it, and those that the cluster exports
// otherwise.
func (c *Controller) updateProperties(cluster string, entry *clustersetv1alpha1.Member) {
	identified := c.tiers.isOwn(cluster)
	changed := c.tiers.setProperties(cluster, entry)
	own := c.tiers.isOwn(cluster)
	if len(changed) == 0 && own == identified {
		return
	}
	c.enqueuePreferring(func(serviceImport *multiclusterxv1beta1.ServiceImport) bool {
		names := slices.ContainsFunc(clusterpreference.OfImport(serviceImport.Annotations).Tiers, func(tier clusterpreference.Tier) bool {
			name, isProperty := tier.Property()
			return isProperty && changed.Has(name)
		})
		return own != identified || names && (own || c.exports(key{types.NamespacedName{Namespace: serviceImport.Namespace, Name: serviceImport.Name}, cluster}))
	})
}

// updateZones reads the zones of nodes, and enqueues what depends on them if they changed.
func (c *Controller) updateZones() error {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	c.tiers.mu.Lock()
	before := c.tiers.zones
	zones, wait := c.method.Settle(before, preference.ZonesOf(nodes), c.clock.Now())
	c.tiers.zones = &zones
	c.tiers.mu.Unlock()
	if wait > 0 {
		c.queue.AddAfter(rezoned, wait)
	}
	if before != nil && (before.Problem != zones.Problem || !slices.Equal(before.Names, zones.Names)) {
		c.enqueuePreferring(func(*multiclusterxv1beta1.ServiceImport) bool { return true })
	}
	return nil
}

// zones returns the zones of nodes.
func (c *Controller) zones() preference.Zones {
	for {
		c.tiers.mu.Lock()
		zones := c.tiers.zones
		c.tiers.mu.Unlock()
		if zones != nil {
			return zones.Zones
		}
		if err := c.updateZones(); err != nil {
			return preference.Zones{Problem: fmt.Sprintf("nodes cannot be listed: %v", err)} // unreachable: a cache does not fail
		}
	}
}
