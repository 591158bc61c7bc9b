// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

const (
	// changeVisible is how long a member counts as a cause of changes, at least, after it
	// changed what it exports: the derived Service may have been written meanwhile, because of
	// another member, from an import that did not reflect its change yet.
	changeVisible = 5 * time.Second
	// causeDelay is how long a change without a known cause waits for one: the export that
	// caused it may arrive later than the import.
	causeDelay = 100 * time.Millisecond
	// nobody is the cause of changes that no export explains.
	nobody = ""
)

// contributions remember when members last changed what they export: a derived Service is
// written because of those that did. They are kept for all of them, so that a member that
// begins to export a Service of another is told from that one. They are safe for concurrent
// use.
type contributions struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	held  map[types.NamespacedName]*contributed
}

// contributed is what is known of a derived Service.
type contributed struct {
	members []contributor
	// written is when the derived Service was last seen to need no change, or written; zero
	// if neither is known.
	written time.Time
	// unexplained is since when it needs a change without a known cause.
	unexplained time.Time
}

// contributor is a member that exports a service, or did so until recently.
type contributor struct {
	member string
	// version is that of what it exports, empty if it exports nothing any more, and changed
	// when that was seen to change.
	version string
	changed time.Time
}

func newContributions(clock clock.PassiveClock) *contributions {
	return &contributions{clock: clock, held: map[types.NamespacedName]*contributed{}}
}

// observe takes the present versions of what members export.
func (c *contributions) observe(name types.NamespacedName, versions map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, now := c.held[name], c.clock.Now()
	if held == nil {
		held = &contributed{}
		c.held[name] = held
	}
	known := make(map[string]bool, len(held.members))
	for i := range held.members {
		contributor := &held.members[i]
		known[contributor.member] = true
		if version := versions[contributor.member]; version != contributor.version {
			contributor.version, contributor.changed = version, now
		}
	}
	for member, version := range versions {
		if !known[member] {
			held.members = append(held.members, contributor{member, version, now})
		}
	}
	held.members = slices.DeleteFunc(held.members, func(contributor contributor) bool {
		return contributor.version == "" && !held.isCause(contributor, now)
	})
}

// isCause reports whether a change of the derived Service may be because of a contributor.
func (c *contributed) isCause(contributor contributor, now time.Time) bool {
	return contributor.changed.After(c.written) || now.Sub(contributor.changed) < changeVisible
}

// causes returns the members because of which a derived Service needs a change. If it cannot
// tell, it returns how long to wait before asking again, and nobody in the end.
func (c *contributions) causes(name types.NamespacedName) (members []string, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, now := c.held[name], c.clock.Now()
	if held == nil || len(held.members) == 0 {
		return []string{nobody}, 0
	}
	for _, contributor := range held.members {
		if len(held.members) == 1 || held.isCause(contributor, now) {
			members = append(members, contributor.member)
		}
	}
	if len(members) > 0 {
		return members, 0
	}
	if held.unexplained.IsZero() {
		held.unexplained = now
	}
	return []string{nobody}, max(0, held.unexplained.Add(causeDelay).Sub(now))
}

// written records that the derived Service of an import needs no change any more.
func (c *contributions) written(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.held[name]; held != nil {
		held.written, held.unexplained = c.clock.Now(), time.Time{}
	}
}

// forget forgets the derived Service of an import that was deleted.
func (c *contributions) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, name)
}

// versionsOf returns versions of what members export for a service, by member. A hub counts
// as one, with all clusters that it relays.
func (c *Controller) versionsOf(name types.NamespacedName) map[string]string {
	exported, err := c.exported.ByIndex(byImport, name.String())
	if err != nil {
		return nil // unreachable: the index exists
	}
	byMember := map[string][]string{}
	for _, object := range exported {
		service := object.(*clustersetv1alpha1.ExportedService)
		member := c.cause(key{name, service.Spec.Cluster})
		byMember[member] = append(byMember[member], service.Spec.Cluster+"@"+service.ResourceVersion)
	}
	versions := make(map[string]string, len(byMember))
	for member, clusters := range byMember {
		slices.Sort(clusters)
		versions[member] = strings.Join(clusters, " ")
	}
	return versions
}
