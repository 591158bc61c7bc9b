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
	forge    operation = "forge"    // the hostile cluster exports service s with a decision that it made up
	settle   operation = "settle"   // deliver and run everything until nothing changes, and check
)

type step struct {
	do    operation
	a, b  int
	s     int
	wants bool
	after int // seconds
	// forged is the decision that is forged.
	forged *Decision
}

func (s step) String() string {
	return fmt.Sprintf("{%-8s a: %d, b: %d, s: %d, wants: %v, after: %d, forged: %v}", s.do, s.a, s.b, s.s, s.wants, s.after, s.forged)
}

// rules are deviations of the model, to show that each rule is necessary.
type rules struct {
	sinceExport  bool // a decision is as old as its export, although the export had to wait
	oldExports   bool // an export may be older than the membership of its cluster
	noClaims     bool // two services that hold the same address both keep it
	noQuarantine bool // an address is available as soon as no service is known to hold it
	noPause      bool // a cluster allocates right after it started or joined
	delayed      bool // messages may take longer than the propagation delay
	hostile      bool // the last cluster makes up decisions, and has no controller
}

type setup struct {
	clusters, members, services int
	length                      int // of the CIDRs, for IPv6 plus 96
	dual                        bool
	rules                       rules
	punctual                    bool // controllers run every half PropagationDelay at least
	disagree                    bool // clusters may come to different results
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

	started, joined, ran time.Time
	// held are the services that the cluster knows to hold an address.
	held       map[netip.Addr]map[string]bool
	quarantine Quarantine
	waiting    map[string]bool // services that it could not decide
	// served are the decisions in force, which the cluster has derived Services for.
	served map[string]*Decision
}

func (c *cluster) member() bool { return c.membership%2 == 1 }

type model struct {
	setup
	now      time.Time
	clusters []*cluster
	// agreed are the decisions that all exports had when the model was settled, for as
	// long as an export has them.
	agreed   map[string]*Decision
	agreedAt map[string]time.Time
	// made are the decisions that honest clusters made.
	made []*Decision
	// collisions counts the allocations of addresses that another service held.
	collisions, allocations int
	// contradictions counts the forged decisions about services that all clusters had
	// agreed on.
	contradictions int
}

func newModel(s setup) *model {
	m := &model{setup: s, now: time.Unix(1000, 0), agreed: map[string]*Decision{}, agreedAt: map[string]time.Time{}}
	for i := range s.clusters {
		m.clusters = append(m.clusters, &cluster{id: fmt.Sprintf("c%d", i), exports: map[string]Export{}})
	}
	for _, c := range m.clusters[:s.members] {
		m.join(c)
	}
	return m
}

// pass advances the time by a second, delivers the messages and runs the controllers that
// are due. It reports whether those changed anything.
func (m *model) pass() (changed bool, err error) {
	m.now = m.now.Add(time.Second)
	if m.rules.delayed {
		return false, nil
	}
	for _, c := range m.members() {
		for _, from := range m.clusters {
			for len(c.inbox[from.id]) > 0 && m.now.Sub(c.inbox[from.id][0].sent) >= PropagationDelay/2 {
				m.receive(c, from.id)
			}
		}
	}
	for _, c := range m.honest() {
		if m.punctual && m.now.Sub(c.ran) >= PropagationDelay/2 {
			ran, err := m.run(c)
			if err != nil {
				return false, err
			}
			changed = changed || ran
		}
	}
	return changed, nil
}

func (m *model) do(s step) error {
	for range s.after {
		if _, err := m.pass(); err != nil {
			return err
		}
	}
	if m.hostile(s.a) != (s.do == forge) && s.do != enter && s.do != leave && s.do != deliver && s.do != settle {
		return nil
	}
	a, b, key := m.clusters[s.a%len(m.clusters)], m.clusters[s.b%len(m.clusters)], fmt.Sprintf("ns/s%d", s.s%m.services)
	own, exported := a.exports[key]
	switch {
	case s.do == forge:
		if m.agreed[key] != nil && a.member() {
			m.contradictions++
		}
		a.exports[key] = Export{Cluster: a.id, At: s.forged.Since.Time, Wants: s.wants, Decision: s.forged}
		m.send(a)
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

// hostile reports whether a cluster makes up decisions.
func (m *model) hostile(i int) bool {
	return m.rules.hostile && i%len(m.clusters) == len(m.clusters)-1
}

func (m *model) index(id string) int {
	return slices.IndexFunc(m.clusters, func(c *cluster) bool { return c.id == id })
}

// honest returns the members that follow the rules.
func (m *model) honest() []*cluster {
	return slices.DeleteFunc(m.members(), func(c *cluster) bool { return m.hostile(slices.Index(m.clusters, c)) })
}

func (m *model) members() []*cluster {
	return slices.DeleteFunc(slices.Clone(m.clusters), func(c *cluster) bool { return !c.member() })
}

func (m *model) join(c *cluster) {
	c.cidr = 0
	for slices.ContainsFunc(m.members(), func(other *cluster) bool { return other.cidr == c.cidr || m.holdsIn(other, c) }) {
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

// holdsIn reports whether a cluster holds an address in the allocation CIDR of another one.
func (m *model) holdsIn(c, other *cluster) bool {
	for _, export := range c.exports {
		if slices.ContainsFunc(addresses(export.Decision), func(addr netip.Addr) bool { return contains(m.pool(other).cidrs, addr) }) {
			return true
		}
	}
	return false
}

func (m *model) leave(c *cluster) {
	c.membership++
	c.served = nil
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

// local returns what a cluster knows about a service besides the exports.
func (m *model) local(c *cluster, key string) Local {
	cidrs := map[string][]string{}
	for _, other := range m.members() {
		for _, cidr := range m.pool(other).cidrs {
			cidrs[other.id] = append(cidrs[other.id], cidr.String())
		}
	}
	local := Local{Cluster: c.id, Allocations: NewAllocations(cidrs), Now: m.now}
	if served := c.served[key]; served != nil {
		local.Imported, local.IPs = true, served.IPs
	}
	return local
}

// serve updates the derived Services of a cluster, and reports whether any changed. An
// address that a derived Service has is not available for another one.
func (m *model) serve(c *cluster, known map[string][]Export) (changed bool, err error) {
	served, users := map[string]*Decision{}, map[netip.Addr]string{}
	for _, key := range slices.Sorted(maps.Keys(c.served)) {
		for _, addr := range addresses(c.served[key]) {
			users[addr] = key
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		before, next := c.served[key], InForce(m.local(c, key), known[key])
		if agreed := m.agreedIn(c, key); agreed != nil && before != nil && slices.Equal(before.IPs, agreed.IPs) && (next == nil || !slices.Equal(next.IPs, agreed.IPs)) && c.knows(key, agreed) {
			return false, fmt.Errorf("%s serves %v instead of %v for %s, which all clusters had agreed on", c.id, next, agreed, key)
		}
		taken := func(addr netip.Addr) bool { user, used := users[addr]; return used && user != key }
		if next == nil || slices.ContainsFunc(addresses(next), taken) {
			continue
		}
		for _, addr := range addresses(next) {
			users[addr] = key
		}
		served[key] = next
		changed = changed || before == nil || !alike(before, next)
	}
	changed = changed || len(served) != len(c.served)
	c.served = served
	return changed, nil
}

// agreedIn returns the decision that all clusters agreed on. A cluster that joined later may
// know a forged decision first.
func (m *model) agreedIn(c *cluster, key string) *Decision {
	if m.rules.hostile && !c.joined.Before(m.agreedAt[key]) {
		return nil
	}
	return m.agreed[key]
}

// knows reports whether a cluster knows an export with a decision.
func (c *cluster) knows(key string, decision *Decision) bool {
	return slices.ContainsFunc(c.known()[key], func(export Export) bool { return export.Decision != nil && alike(export.Decision, decision) })
}

// run runs the controllers of a cluster, and reports whether anything changed.
func (m *model) run(c *cluster) (changed bool, err error) {
	recorded := false
	c.ran = m.now
	local := func(key string) Local { return m.local(c, key) }
	known := c.known()
	claims := NewClaims(known, local)
	for _, key := range slices.Sorted(maps.Keys(c.exports)) {
		own := c.exports[key]
		exports := claims.Standing(key, known[key])
		if m.rules.noClaims {
			exports = known[key]
		}
		action := Decide(local(key), exports, m.settled(c))
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
		if decision != nil && !m.hostile(m.index(decision.DecidedBy)) && (action.Allocate || !slices.ContainsFunc(exports, func(export Export) bool { return export.Decision != nil })) {
			m.made = append(m.made, decision)
		}
		if agreed := m.agreedIn(c, key); agreed != nil && Equal(own.Decision, agreed) && (decision == nil || !slices.Equal(decision.IPs, agreed.IPs)) {
			return false, fmt.Errorf("%s replaced %v of %s, which all clusters had agreed on, by %v", c.id, agreed, key, decision)
		}
		own.Decision = decision
		c.exports[key] = own
		m.observe(c)
		recorded, known = true, c.known()
		claims = NewClaims(known, local)
	}
	maps.DeleteFunc(c.waiting, func(key string, _ bool) bool { _, exported := c.exports[key]; return !exported })
	if recorded {
		m.send(c)
	}
	served, err := m.serve(c, known)
	return recorded || served, err
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
		if !m.rules.delayed && m.rules == (rules{hostile: m.rules.hostile}) {
			return nil, fmt.Errorf("%s allocated %v for %s, but %s", c.id, ips, key, other)
		}
	}
	return decision, nil
}
