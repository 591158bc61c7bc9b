// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/clockoffset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

var propagation = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Namespace: "mcs_apiserver", Subsystem: "member", Name: "propagation_delay_seconds", StabilityLevel: metrics.ALPHA,
	Help:    "Time from when Pods or a Service changed in another cluster until endpoints that changed because of that were served here, by cluster. Changes of which the time is unknown are left out.",
	Buckets: []float64{0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900},
}, []string{"cluster"})

// Metrics of what there is. They are computed when they are read, so that none is left of a
// member that is gone.
var (
	membersDesc = metrics.NewDesc("mcs_apiserver_members",
		"Number of other clusters in the members list, by state.",
		[]string{"state"}, nil, metrics.ALPHA, "")
	stateDesc = metrics.NewDesc("mcs_apiserver_member_state",
		"Always 1. The labels are another cluster in the members list, and its state. The cluster is * for all that hubs relay and no Secret names, also in other metrics.",
		[]string{"cluster", "state"}, nil, metrics.ALPHA, "")
	conditionsDesc = metrics.NewDesc("mcs_apiserver_member_conditions",
		"Always 1. The labels are a condition of a member, its status and its reason.",
		[]string{"cluster", "condition", "status", "reason"}, nil, metrics.ALPHA, "")
	silenceDesc = metrics.NewDesc("mcs_apiserver_member_silence_seconds",
		"Time since any replica last saw a member, by member.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	expiryDesc = metrics.NewDesc("mcs_apiserver_member_credential_expiry_timestamp_seconds",
		"When the token with which a member is read expires, by member: the last one, if there are several. Tokens of which that is unknown have none.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	issuedDesc = metrics.NewDesc("mcs_apiserver_member_credential_issued_timestamp_seconds",
		"When that token was issued, by member. It is renewed at half of its lifetime.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	offsetDesc = metrics.NewDesc("mcs_apiserver_member_clock_offset_seconds",
		"By how much the clock of a member is ahead of that of this cluster, by member. Members of which that is unknown, and clusters that a hub relays, have none.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	usageDesc = metrics.NewDesc("mcs_apiserver_member_usage",
		"What the exports that are held of a member take, by member and by what is limited: bytes of memory, services, or endpoints.",
		[]string{"cluster", "limit"}, nil, metrics.ALPHA, "")
	refusedDesc = metrics.NewDesc("mcs_apiserver_member_refused_objects",
		"Objects of a member that are rejected or admitted only in part at present, by reason. Reasons that end the reading of a member, such as TooManyExports, count as 1.",
		[]string{"cluster", "reason"}, nil, metrics.ALPHA, "")
	limitDesc = metrics.NewDesc("mcs_apiserver_member_limit",
		"How much of it the exports of a member may take, by member and by what is limited.",
		[]string{"cluster", "limit"}, nil, metrics.ALPHA, "")
	backdatedDesc = metrics.NewDesc("mcs_apiserver_member_backdated_exports_total",
		"New exports that claim to be older than their arrival allows, by member.",
		[]string{"cluster"}, nil, metrics.ALPHA, "")
	attemptsDesc = metrics.NewDesc("mcs_apiserver_member_feed_attempts_total",
		"How often exports of a member were listed, or watched anew, by member, resource and result: success or failure. A watch ends after some minutes even if nothing is wrong.",
		[]string{"cluster", "resource", "result"}, nil, metrics.ALPHA, "")
)

// collector computes the metrics of the Set that was created last.
type collector struct {
	metrics.BaseStableCollector
	set atomic.Pointer[Set]
}

// current is registered once.
var current collector

var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(propagation)
	legacyregistry.CustomMustRegister(&current)
})

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{membersDesc, stateDesc, conditionsDesc, silenceDesc, expiryDesc, issuedDesc, offsetDesc, usageDesc, limitDesc, refusedDesc, backdatedDesc, attemptsDesc} {
		ch <- desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	s := c.set.Load()
	if s == nil {
		return
	}
	entries, named, peers := s.measured()
	send := func(desc *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, labels...)
	}
	count := func(desc *metrics.Desc, value int, labels ...string) {
		ch <- metrics.NewLazyConstMetric(desc, metrics.CounterValue, float64(value), labels...)
	}
	measureEntries(entries, named, s.config.Clock.Now(), send)
	for _, p := range peers {
		if last, ok := peertoken.Last(p.tokens); ok {
			send(expiryDesc, float64(last.Expires.Unix()), p.name)
			send(issuedDesc, float64(last.Issued.Unix()), p.name)
		}
		if p.feed != nil {
			if offset, ok := p.feed.ClockOffset(); ok {
				send(offsetDesc, offset.Seconds(), p.name)
			}
		}
		measureUsage(send, usageDesc, p.name, p.usage)
		measureUsage(send, limitDesc, p.name, p.limits)
		for reason, refused := range p.refusals {
			send(refusedDesc, float64(refused), p.name, reason)
		}
		count(backdatedDesc, p.backdated, p.name)
		for kind, attempts := range p.attempts {
			count(attemptsDesc, attempts.succeeded, p.name, exports.Kind(kind).String(), "success")
			count(attemptsDesc, attempts.failed, p.name, exports.Kind(kind).String(), "failure")
		}
	}
}

// measuredPeer is what is measured of a peer.
type measuredPeer struct {
	name          string
	tokens        []string
	feed          source // nil if none runs
	usage, limits exports.Usage
	refusals      map[string]int // is replaced, never changed
	backdated     int
	attempts      [exports.Kinds]attempts
}

// measured copies what is measured: the reader of the metrics decides how long it takes to send
// them, and nothing else must wait for that.
func (s *Set) measured() (entries map[string]*clusterset.Member, named sets.Set[string], peers []measuredPeer) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := sets.New[string]()
	for _, p := range s.peers {
		name := p.entryNameLocked()
		if names.Has(name) {
			continue // two Secrets for one cluster, until they are evaluated
		}
		names.Insert(name)
		measured := measuredPeer{
			name: name, tokens: slices.Clone(p.tokens), usage: p.exports.Usage(), limits: p.spec.Limits, refusals: p.refusals, backdated: p.backdatedTotal, attempts: p.attempts,
		}
		if p.receiver != nil {
			measured.feed = p.receiver.feed
		}
		peers = append(peers, measured)
	}
	return maps.Clone(s.roster.entries), namedLocked(s.roster.identity.ID, s.peers), peers
}

// namedLocked returns the clusters that have series of their own: this one, those with a Secret,
// and those that Secrets name.
func namedLocked(self string, peers map[string]*peer) sets.Set[string] {
	named := sets.New(self)
	for _, p := range peers {
		named.Insert(p.id, p.entryNameLocked())
		for id := range p.spec.Relay.IDs {
			named.Insert(id)
		}
	}
	return named
}

// isNamedLocked reports whether a cluster has series of its own.
func (s *Set) isNamedLocked(cluster string) bool {
	if cluster == s.roster.identity.ID {
		return true
	}
	for _, p := range s.peers {
		if cluster == p.id || cluster == p.entryNameLocked() || p.spec.Relay.IDs.Has(cluster) {
			return true
		}
	}
	return false
}

// label returns the value of the label cluster for a cluster.
func label(named sets.Set[string], cluster string) string {
	if named.Has(cluster) {
		return cluster
	}
	return route.Unnamed
}

// MetricLabels returns the value of the label cluster for every cluster in metrics.
func (s *Set) MetricLabels() func(cluster string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	named := namedLocked(s.roster.identity.ID, s.peers)
	return func(cluster string) string { return label(named, cluster) }
}

// attempts counts how often objects of a kind were listed, or watched anew, since the peer was
// added.
type attempts struct{ succeeded, failed int }

func measureUsage(send func(*metrics.Desc, float64, ...string), desc *metrics.Desc, name string, usage exports.Usage) {
	for limit, value := range map[string]int64{"bytes": usage.Bytes, "services": usage.Services, "endpoints": usage.Endpoints} {
		send(desc, float64(value), name, limit)
	}
}

// measureEntries sends the metrics of the members list. Of clusters that are not named, it sends in
// which states any of them are, and how long the most silent one has been silent.
func measureEntries(entries map[string]*clusterset.Member, named sets.Set[string], now time.Time, send func(*metrics.Desc, float64, ...string)) {
	counts := map[clusterset.MemberState]int{
		clusterset.MemberConnecting: 0, clusterset.MemberConnected: 0, clusterset.MemberUnavailable: 0,
		clusterset.MemberStale: 0, clusterset.MemberLost: 0, clusterset.MemberRefused: 0,
	}
	states, silences := sets.New[[2]string](), map[string]float64{}
	for name, entry := range entries {
		of := label(named, name)
		for _, condition := range entry.Status.Conditions {
			if of == name {
				send(conditionsDesc, 1, name, condition.Type, string(condition.Status), condition.Reason)
			}
		}
		if entry.Status.State == clusterset.MemberLocal {
			continue
		}
		counts[entry.Status.State]++
		states.Insert([2]string{of, string(entry.Status.State)})
		if seen := entry.Status.LastSeen; seen != nil {
			silence, known := silences[of]
			if since := now.Sub(seen.Time).Seconds(); !known || since > silence {
				silences[of] = since
			}
		}
	}
	for state := range states {
		send(stateDesc, 1, state[0], state[1])
	}
	for of, silence := range silences {
		send(silenceDesc, silence, of)
	}
	for state, count := range counts {
		send(membersDesc, float64(count), string(state))
	}
}

// Served records that endpoints of another cluster are served now, which changed there at a time
// by the clock of this cluster.
func (s *Set) Served(cluster string, changed time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	delay := s.config.Clock.Now().Sub(changed)
	if s.roster.entries[cluster] == nil || delay < -clockoffset.MaxError { // a time that cannot be right
		return
	}
	of := route.Unnamed
	if s.isNamedLocked(cluster) {
		of = cluster
	}
	propagation.WithLabelValues(of).Observe(max(delay, 0).Seconds())
}
