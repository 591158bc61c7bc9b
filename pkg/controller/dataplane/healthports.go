// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// maxHealthPorts is how many health check node ports the derived Services of one member have at
// most. By default, a cluster has 2,768 node ports for everything.
const maxHealthPorts = 200

// healthPorts are the derived Services that have a health check node port, because their
// external traffic policy is Local. One that has it keeps it. It is safe for concurrent use.
type healthPorts struct {
	mu sync.Mutex
	// members are those that the Services are attributed to, and counts how many each has.
	members map[types.NamespacedName]string
	counts  map[string]int
	// unattributed are Services that were found, and are attributed when the next one is asked
	// for: exports may not be known when they are found.
	unattributed sets.Set[types.NamespacedName]
}

func newHealthPorts() *healthPorts {
	return &healthPorts{members: map[types.NamespacedName]string{}, counts: map[string]int{}, unattributed: sets.New[types.NamespacedName]()}
}

// found takes a derived Service that has a health check node port.
func (p *healthPorts) found(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.members[name]; !known {
		p.unattributed.Insert(name)
	}
}

// take reports whether a derived Service may have a health check node port, which then counts
// for the member that it is attributed to.
func (p *healthPorts) take(name types.NamespacedName, attribute func(types.NamespacedName) string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.unattributed {
		p.setLocked(other, attribute(other))
	}
	p.unattributed = sets.New[types.NamespacedName]()
	member := attribute(name)
	if _, has := p.members[name]; !has && member != nobody && p.counts[member] >= maxHealthPorts {
		return false
	}
	p.setLocked(name, member)
	return true
}

func (p *healthPorts) setLocked(name types.NamespacedName, member string) {
	p.releaseLocked(name)
	p.members[name] = member
	p.counts[member]++
}

// release takes a derived Service that has, or needs, no health check node port any more.
func (p *healthPorts) release(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unattributed.Delete(name)
	p.releaseLocked(name)
}

func (p *healthPorts) releaseLocked(name types.NamespacedName) {
	member, has := p.members[name]
	if !has {
		return
	}
	delete(p.members, name)
	if p.counts[member]--; p.counts[member] == 0 {
		delete(p.counts, member)
	}
}

// healthPortOf returns the member that the health check node port of a derived Service is
// attributed to. What this cluster exports is attributed to nobody: it is not limited.
func (c *Controller) healthPortOf(name types.NamespacedName) string {
	origin := c.origin(ofService(name))
	exported, err := c.exported.ByIndex(byImport, name.String())
	if err != nil {
		return nobody // unreachable: the index exists
	}
	for _, object := range exported {
		if spec := &object.(*clustersetv1alpha1.ExportedService).Spec; spec.Cluster == origin && len(spec.Path) == 0 {
			return nobody
		}
	}
	return c.cause(ofService(name))
}

// hasHealthPort reports whether a Service, which may be nil, has a health check node port.
func hasHealthPort(service *corev1.Service) bool {
	return service != nil && service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// observeHealthPort follows whether a derived Service has a health check node port.
func (c *Controller) observeHealthPort(name types.NamespacedName) {
	service := c.existingService(name)
	switch {
	case hasHealthPort(service) && isDerivedFrom(service, name.Name):
		c.healthPorts.found(name)
	case !isChanging(service): // it may be about to get one
		c.healthPorts.release(name)
	}
}

// withoutHealthPort is the variant for a derived Service that may not have a health check
// node port.
func withoutHealthPort(ips []string) variant {
	return variant{ips: ips, policy: corev1.ServiceExternalTrafficPolicyCluster,
		problem: fmt.Sprintf("client addresses are not preserved: %d other Services of the same member have a health check node port, which is the limit", maxHealthPorts)}
}
