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

// The model of a ClusterSet: clusters that send each other their exports in messages that
// take up to half the PropagationDelay. A run is a list of steps, each of which means the
// same in any list, so that a list that breaks a property can be shortened.

type operation string

const (
	export   operation = "export"   // cluster a exports service s, and requests an address or not
	unexport operation = "unexport" // cluster a
	request  operation = "request"  // cluster a changes its request for service s
	enter    operation = "join"     // cluster a, with the first allocation CIDR that no member has
	leave    operation = "leave"    // cluster a
	restart  operation = "restart"  // cluster a
	deliver  operation = "deliver"  // the next message of cluster a to cluster b
	catchUp  operation = "catch up" // all messages to cluster a
	run      operation = "run"      // the controller of cluster a
	settle   operation = "settle"   // deliver and run everything until nothing changes, and check
)

type step struct {
	do    operation
	a, b  int
	s     int
	wants bool
	after int // seconds
}

func (s step) String() string {
	return fmt.Sprintf("{%-8s a: %d, b: %d, s: %d, wants: %v, after: %d}", s.do, s.a, s.b, s.s, s.wants, s.after)
}

// rules are deviations of the model, to show that each rule is necessary.
type rules struct {
	sinceExport  bool // a decision is as old as its export, although the export had to wait
	oldExports   bool // an export may be older than the membership of its cluster
	noClaims     bool // two services that hold the same address both keep it
	noQuarantine bool // an address is available as soon as no service is known to hold it
	noPause      bool // a cluster allocates right after it started or joined
	delayed      bool // messages may take longer than the propagation delay
}

type setup struct {
	clusters, members, services int
	length                      int // of the CIDRs, for IPv6 plus 96
	dual                        bool
	rules                       rules
}

// message contains all exports of a cluster at some time.
type message struct {
	sent       time.Time
	membership int // number of the membership that it was sent in
	left       bool
	exports    map[string]Export
}

type cluster struct {
	id         string
	membership int // number of joins and leaves; not a member if it is even
	cidr       int
	exports    map[string]Export
	received   map[string]message
	inbox      map[string][]message

	started, joined time.Time
	// held are the services that the cluster knows to hold an address.
	held       map[netip.Addr]map[string]bool
	quarantine Quarantine
	waiting    map[string]bool // services that it could not decide
}

func (c *cluster) member() bool { return c.membership%2 == 1 }

type model struct {
	setup
	now      time.Time
	clusters []*cluster
	// agreed are the decisions that all exports had when the model was settled, for as
	// long as an export has them.
	agreed map[string]*Decision
	// collisions counts the allocations of addresses that another service held.
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

// pass advances the time by a second and delivers the messages that are due.
func (m *model) pass() {
	m.now = m.now.Add(time.Second)
	for _, c := range m.members() {
		for _, from := range m.clusters {
			for !m.rules.delayed && len(c.inbox[from.id]) > 0 && m.now.Sub(c.inbox[from.id][0].sent) >= PropagationDelay/2 {
				m.receive(c, from.id)
			}
		}
	}
}

func (m *model) do(s step) error {
	for range s.after {
		m.pass()
	}
	a, b, key := m.clusters[s.a%len(m.clusters)], m.clusters[s.b%len(m.clusters)], fmt.Sprintf("ns/s%d", s.s%m.services)
	own, exported := a.exports[key]
	switch {
	case s.do == export && !exported:
		a.exports[key] = Export{Cluster: a.id, At: m.now, Wants: s.wants}
		m.send(a)
	case s.do == unexport && exported:
		delete(a.exports, key)
		m.observe(a)
		m.send(a)
	case s.do == request && exported:
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
		m.receive(b, a.id)
	case s.do == catchUp:
		m.receiveAll(a)
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
	c.joined = m.now
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
	c.received, c.inbox = nil, nil
	m.observe(c)
}

// start resets the state of a cluster, which then reads all other members again.
func (m *model) start(c *cluster) {
	c.received, c.inbox = map[string]message{}, map[string][]message{}
	c.started, c.held, c.quarantine, c.waiting = m.now, nil, Quarantine{}, map[string]bool{}
	m.observe(c)
	for _, other := range m.members() {
		if other != c {
			c.inbox[other.id] = []message{m.message(other)}
		}
	}
}

func (m *model) send(c *cluster) {
	for _, other := range m.members() {
		if other != c {
			other.inbox[c.id] = append(other.inbox[c.id], m.message(c))
		}
	}
}

func (m *model) message(c *cluster) message {
	return message{sent: m.now, membership: c.membership, left: !c.member(), exports: maps.Clone(c.exports)}
}

// receive handles the next message of another cluster.
func (m *model) receive(c *cluster, from string) {
	inbox := c.inbox[from]
	if len(inbox) == 0 {
		return
	}
	c.inbox[from], c.received[from] = inbox[1:], inbox[0]
	if inbox[0].left {
		delete(c.received, from)
	}
	m.observe(c)
}

// receiveAll handles all messages, and reports whether there were any.
func (m *model) receiveAll(c *cluster) (any bool) {
	for _, from := range m.clusters {
		for len(c.inbox[from.id]) > 0 {
			m.receive(c, from.id)
			any = true
		}
	}
	return any
}

// observe records which addresses are held, and which were released.
func (m *model) observe(c *cluster) {
	held := map[netip.Addr]map[string]bool{}
	for key, exports := range c.known() {
		for _, export := range exports {
			for _, addr := range addresses(export.Decision) {
				if held[addr] == nil {
					held[addr] = map[string]bool{}
				}
				held[addr][key] = true
				c.quarantine.Hold(addr, key)
			}
		}
	}
	for addr, services := range c.held {
		for key := range services {
			if len(held[addr]) == 0 {
				c.quarantine.Release(addr, key, m.now)
			}
		}
	}
	c.held = held
}

// known returns the exports of all services that a cluster knows.
func (c *cluster) known() map[string][]Export {
	known := map[string][]Export{}
	for key, own := range c.exports {
		known[key] = append(known[key], own)
	}
	for _, received := range c.received {
		for key, other := range received.exports {
			known[key] = append(known[key], other)
		}
	}
	return known
}

// settled reports whether a cluster has read all current members.
func (m *model) settled(c *cluster) bool {
	return !slices.ContainsFunc(m.members(), func(other *cluster) bool {
		return other != c && c.received[other.id].membership != other.membership
	})
}

func (m *model) pool(c *cluster) Pool {
	cidrs := []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{243, 1, byte(c.cidr), 0}), m.length)}
	if m.dual {
		cidrs = append(cidrs, netip.MustParsePrefix(fmt.Sprintf("fd00:243::%d:0/%d", c.cidr, 96+m.length)))
	}
	return NewPool(cidrs)
}

// run runs the controller of a cluster, and reports whether anything changed.
func (m *model) run(c *cluster) (changed bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(c.exports)) {
		own := c.exports[key]
		known := c.known()
		claims := NewClaims(known)
		exports := claims.Standing(key, known[key])
		if m.rules.noClaims {
			exports = known[key]
		}
		action := Decide(c.id, exports, m.settled(c))
		decision := action.Record
		if action.Allocate {
			decision, err = m.allocate(c, key)
			if err != nil {
				return false, err
			}
		}
		c.waiting[key] = decision == nil
		if Equal(decision, own.Decision) {
			continue
		}
		if agreed := m.agreed[key]; agreed != nil && Equal(own.Decision, agreed) {
			return false, fmt.Errorf("%s replaced %v of %s, which all clusters had agreed on, by %v", c.id, agreed, key, decision)
		}
		own.Decision = decision
		c.exports[key] = own
		m.observe(c)
		changed = true
	}
	maps.DeleteFunc(c.waiting, func(key string, _ bool) bool { _, exported := c.exports[key]; return !exported })
	if changed {
		m.send(c)
	}
	return changed, nil
}

func (m *model) allocate(c *cluster, key string) (*Decision, error) {
	if !m.rules.noPause && (m.now.Sub(c.started) < PropagationDelay || m.now.Sub(c.joined) < PropagationDelay) {
		return nil, nil
	}
	ips, err := m.pool(c).Allocate(key, nil, func(addr netip.Addr) bool {
		return len(c.held[addr]) > 1 || len(c.held[addr]) == 1 && !c.held[addr][key] || !m.rules.noQuarantine && c.quarantine.Wait(addr, key, m.now) > 0
	})
	if exhausted := (*ExhaustedError)(nil); errors.As(err, &exhausted) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	since := Since(c.exports[key].At, m.now, c.waiting[key])
	if m.rules.sinceExport {
		since = c.exports[key].At
	}
	decision := NewDecision(c.id, ips, since)
	m.allocations++
	if other, held := m.heldByOther(key, decision); held {
		m.collisions++
		if m.rules == (rules{}) {
			return nil, fmt.Errorf("%s allocated %v for %s, but %s", c.id, ips, key, other)
		}
	}
	return decision, nil
}
