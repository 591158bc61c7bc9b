// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// The model of a ClusterSet: clusters that tell each other their exports by
// messages that take any time. What happens is a list of steps, which mean the
// same in any list, so that a list that breaks a property can be made shorter.

type operation string

const (
	export   operation = "export"   // cluster a exports service s, and wants an IP or not
	unexport operation = "unexport" // cluster a
	wish     operation = "wish"     // cluster a changes its wish for service s
	enter    operation = "join"     // cluster a, with the first CIDR that no member has
	leave    operation = "leave"    // cluster a
	restart  operation = "restart"  // cluster a
	deliver  operation = "deliver"  // the next message of cluster a to cluster b
	catchUp  operation = "catch up" // all messages to cluster a: the last one of each cluster counts
	run      operation = "run"      // the controller of cluster a
	settle   operation = "settle"   // deliver and run everything until nothing changes, and check
)

type step struct {
	do    operation
	a, b  int
	s     int
	wants bool
}

func (s step) String() string {
	return fmt.Sprintf("{%-8s a: %d, b: %d, s: %d, wants: %v}", s.do, s.a, s.b, s.s, s.wants)
}

// rules are what the model can do in another way, to show that it must not.
type rules struct {
	sinceExport bool // a decision is as old as the export of its cluster, not as the allocation
	oldExports  bool // an export is not younger than the membership of its cluster
	noClaims    bool // two services that hold one address both keep it
	// quarantine: an address that was seen held is not given again, and a cluster
	// that has just started gives none, before all news have got around.
	quarantine bool
}

type setup struct {
	clusters, members, services int
	length                      int // of the CIDRs, for IPv6 plus 96
	dual                        bool
	rules                       rules
}

// message is all that a cluster exports at some time.
type message struct {
	membership int // which membership of the cluster it is from
	left       bool
	exports    map[string]Export
}

type cluster struct {
	id         string
	membership int // counts up; no member if it is even
	cidr       int
	exports    map[string]Export
	heard      map[string]message
	inbox      map[string][]message

	recent map[netip.Addr]bool // quarantined
	fresh  bool                // has just started
}

func (c *cluster) member() bool { return c.membership%2 == 1 }

type model struct {
	setup
	now      time.Time
	clusters []*cluster
	// agreed are the decisions that all exports held to when everything was
	// settled, for as long as anybody holds to them.
	agreed map[string]*Decision
	// collisions counts the allocations of what another service held.
	collisions, allocations int
}

func newModel(s setup) *model {
	m := &model{setup: s, now: time.Unix(1000, 0), agreed: map[string]*Decision{}}
	for i := range s.clusters {
		m.clusters = append(m.clusters, &cluster{id: fmt.Sprintf("c%d", i), exports: map[string]Export{}})
	}
	for _, c := range m.clusters[:s.members] {
		m.join(c)
	}
	return m
}

func (m *model) do(s step) error {
	m.now = m.now.Add(time.Second)
	a, b, key := m.clusters[s.a%len(m.clusters)], m.clusters[s.b%len(m.clusters)], fmt.Sprintf("ns/s%d", s.s%m.services)
	own, exported := a.exports[key]
	switch {
	case s.do == export && !exported:
		a.exports[key] = Export{Cluster: a.id, At: m.now, Wants: s.wants}
		m.send(a)
	case s.do == unexport && exported:
		delete(a.exports, key)
		m.send(a)
	case s.do == wish && exported:
		own.Wants = !own.Wants
		a.exports[key] = own
		m.send(a)
	case s.do == enter && !a.member():
		m.join(a)
	case s.do == leave && a.member():
		m.leave(a)
	case s.do == restart && a.member():
		m.start(a)
	case s.do == deliver:
		b.receive(a.id, 1)
	case s.do == catchUp:
		for from, inbox := range a.inbox {
			a.receive(from, len(inbox))
		}
	case s.do == run && a.member():
		if _, err := m.run(a); err != nil {
			return err
		}
	case s.do == settle:
		return m.settle()
	}
	m.forgetUnheld()
	return nil
}

func (m *model) members() []*cluster {
	return slices.DeleteFunc(slices.Clone(m.clusters), func(c *cluster) bool { return !c.member() })
}

func (m *model) join(c *cluster) {
	c.cidr = 0
	for slices.ContainsFunc(m.members(), func(other *cluster) bool { return other.cidr == c.cidr }) {
		c.cidr++
	}
	c.membership++
	for key, own := range c.exports {
		if !m.rules.oldExports {
			own.At = m.now
		}
		c.exports[key] = own
	}
	m.start(c)
	m.send(c)
}

func (m *model) leave(c *cluster) {
	c.membership++
	for key, own := range c.exports {
		own.Decision = nil
		c.exports[key] = own
	}
	m.send(c)
	c.heard, c.inbox = nil, nil
}

// start makes a cluster forget what it heard, and ask everybody again.
func (m *model) start(c *cluster) {
	c.heard, c.inbox = map[string]message{}, map[string][]message{}
	c.recent, c.fresh = map[netip.Addr]bool{}, true
	for _, other := range m.members() {
		if other != c {
			c.inbox[other.id] = []message{other.message()}
		}
	}
}

func (m *model) send(c *cluster) {
	for _, other := range m.members() {
		if other != c {
			other.inbox[c.id] = append(other.inbox[c.id], c.message())
		}
	}
}

func (c *cluster) message() message {
	return message{membership: c.membership, left: !c.member(), exports: maps.Clone(c.exports)}
}

// receive takes the last of the next messages of another cluster.
func (c *cluster) receive(from string, count int) {
	inbox := c.inbox[from]
	count = min(count, len(inbox))
	if count == 0 {
		return
	}
	c.inbox[from] = inbox[count:]
	c.heard[from] = inbox[count-1]
	if c.heard[from].left {
		delete(c.heard, from)
	}
	c.quarantine()
}

func (c *cluster) quarantine() {
	maps.Copy(c.recent, NewClaims(c.known()).Used())
}

// known are the exports of all services that a cluster knows of.
func (c *cluster) known() map[string][]Export {
	known := map[string][]Export{}
	for key, own := range c.exports {
		known[key] = append(known[key], own)
	}
	for _, heard := range c.heard {
		for key, other := range heard.exports {
			known[key] = append(known[key], other)
		}
	}
	return known
}

// settled tells whether a cluster has heard all that are members now.
func (m *model) settled(c *cluster) bool {
	return !slices.ContainsFunc(m.members(), func(other *cluster) bool {
		return other != c && c.heard[other.id].membership != other.membership
	}) && (!m.rules.quarantine || !c.fresh)
}

func (m *model) pool(c *cluster) Pool {
	cidrs := []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{243, 1, byte(c.cidr), 0}), m.length)}
	if m.dual {
		cidrs = append(cidrs, netip.MustParsePrefix(fmt.Sprintf("fd00:243::%d:0/%d", c.cidr, 96+m.length)))
	}
	return NewPool(cidrs)
}

// run is the controller of a cluster. It tells whether anything changed.
func (m *model) run(c *cluster) (changed bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(c.exports)) {
		own := c.exports[key]
		known := c.known()
		claims := NewClaims(known)
		exports := claims.Standing(key, known[key])
		if m.rules.noClaims {
			exports = known[key]
		}
		verdict := Decide(c.id, exports, m.settled(c))
		decision := verdict.Record
		if verdict.Allocate {
			decision, err = m.allocate(c, key, claims.Used())
			if err != nil {
				return false, err
			}
		}
		if Equal(decision, own.Decision) {
			continue
		}
		if agreed := m.agreed[key]; agreed != nil && Equal(own.Decision, agreed) {
			return false, fmt.Errorf("%s gave up %v of %s, which all had agreed on, for %v", c.id, agreed, key, decision)
		}
		own.Decision = decision
		c.exports[key] = own
		changed = true
	}
	if changed {
		c.quarantine()
		m.send(c)
	}
	return changed, nil
}

func (m *model) allocate(c *cluster, key string, used map[netip.Addr]bool) (*Decision, error) {
	if m.rules.quarantine {
		maps.Copy(used, c.recent)
	}
	ips, err := m.pool(c).Allocate(key, nil, in(used))
	if exhausted := (*ExhaustedError)(nil); errors.As(err, &exhausted) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	since := m.now
	if m.rules.sinceExport {
		since = c.exports[key].At
	}
	decision := NewDecision(c.id, ips, since)
	m.allocations++
	if other, held := m.heldByOther(key, decision); held {
		m.collisions++
		if m.rules.quarantine {
			return nil, fmt.Errorf("%s allocated %v for %s, but %s", c.id, ips, key, other)
		}
	}
	return decision, nil
}
