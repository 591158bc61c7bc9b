// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate makes histories of ClusterSets that keep all promises, from a seed, for the
// tests of the checker.
package simulate

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// Options are what is simulated.
type Options struct {
	Seed     uint64
	Duration time.Duration
	// Faults makes links and clusters fail, and some requests end without an answer.
	Faults bool
}

// quiet is for how long nothing changes in the end.
const quiet = 40 * time.Second

// Times of all simulations.
var (
	begin = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	times = history.Run{
		Clusters: []string{"east", "north", "west"}, TTL: time.Minute, Probing: 5 * time.Second, Looking: 15 * time.Second,
		Propagation: 5 * time.Second, Recovery: 20 * time.Second, RequestTimeout: 30 * time.Second,
	}
)

// services are those that are exported.
func services() []history.Service {
	return []history.Service{{Namespace: "bank", Name: "api"}, {Namespace: "shop", Name: "db"}, {Namespace: "shop", Name: "web"}}
}

// simulation is a ClusterSet in which time passes from event to event.
type simulation struct {
	Options
	random   *rand.Rand
	now      time.Time
	queue    queue
	order    int
	changes  int
	stopped  bool
	clusters map[string]*cluster
	faults   map[int]history.Fault
	entries  []history.Entry
}

// event happens at a time.
type event struct {
	at    time.Time
	order int
	do    func()
}

type queue []event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].order < q[j].order
}
func (q *queue) Push(e any) { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// History returns a history that keeps all promises. It depends on the options only.
func History(o Options) []history.Entry {
	s := &simulation{
		Options: o, random: rand.New(rand.NewPCG(o.Seed, 0)), //nolint:gosec // not a secret
		now: begin, clusters: map[string]*cluster{}, faults: map[int]history.Fault{},
	}
	run := times
	run.Seed = o.Seed
	s.record(history.Entry{Run: &run})
	for number, name := range times.Clusters {
		s.clusters[name] = newCluster(s, name, number)
	}
	for _, name := range times.Clusters {
		s.clusters[name].start()
	}
	if o.Faults {
		s.after(s.between(5*time.Second, 20*time.Second), s.fail)
	}
	s.runUntil(begin.Add(o.Duration))
	s.stopped = true
	for _, id := range s.activeFaults() {
		s.endFault(id)
	}
	s.runUntil(s.now.Add(times.Recovery + times.Propagation + times.RequestTimeout + quiet))
	for _, name := range times.Clusters {
		s.clusters[name].recordFinal()
	}
	return s.entries
}

// between returns a random duration.
func (s *simulation) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.random.Int64N(int64(to-from)))
}

// chance returns true in a share of all cases, in percent.
func (s *simulation) chance(percent int) bool { return s.random.IntN(100) < percent }

// after schedules something.
func (s *simulation) after(delay time.Duration, do func()) {
	s.order++
	heap.Push(&s.queue, event{s.now.Add(delay), s.order, do})
}

// every does something again and again until the changes end.
func (s *simulation) every(from, to time.Duration, do func()) {
	s.after(s.between(from, to), func() {
		do()
		if !s.stopped {
			s.every(from, to, do)
		}
	})
}

func (s *simulation) runUntil(end time.Time) {
	for len(s.queue) > 0 && s.queue[0].at.Before(end) {
		next := heap.Pop(&s.queue).(event)
		if next.at.After(s.now) {
			s.now = next.at
		}
		next.do()
	}
	if s.now.Before(end) {
		s.now = end
	}
}

// record appends an entry. No two entries have the same time.
func (s *simulation) record(entry history.Entry) {
	s.now = s.now.Add(time.Microsecond)
	entry.At, entry.Line = s.now, len(s.entries)+1
	s.entries = append(s.entries, entry)
}

// fail begins a fault, and schedules its end and the next one.
func (s *simulation) fail() {
	if s.stopped {
		return
	}
	a := times.Clusters[s.random.IntN(3)]
	b := times.Clusters[(slices.Index(times.Clusters, a)+1+s.random.IntN(2))%3]
	s.changes++
	fault, duration := history.Fault{ID: s.changes, Kind: "kill", Clusters: []string{a}}, s.between(3*time.Second, 20*time.Second)
	switch s.random.IntN(5) {
	case 4: // an API may be silent for longer than the TTL
		duration = s.between(75*time.Second, 2*time.Minute)
	case 0:
		fault.Kind, fault.Clusters, fault.Cut = "cut", []string{a, b}, true
	case 1:
		fault.Kind, fault.Clusters, fault.Cut = "cut", []string{a, b}, true
		duration = s.between(75*time.Second, 2*time.Minute)
	case 2:
		fault.Kind, fault.Clusters, fault.Lossy = "delay", []string{a, b}, true
	}
	s.faults[fault.ID] = fault
	s.record(history.Entry{Fault: &fault})
	if len(fault.Clusters) == 1 {
		s.clusters[a].breakWatches()
	}
	if fault.Cut {
		s.after(times.TTL+s.between(0, 5*time.Second), func() { s.withdraw(fault) })
	}
	s.after(duration, func() { s.endFault(fault.ID) })
	s.after(s.between(10*time.Second, 60*time.Second), s.fail)
}

// withdraw withdraws the endpoints of clusters that are cut off from each other.
func (s *simulation) withdraw(fault history.Fault) {
	if _, active := s.faults[fault.ID]; !active {
		return
	}
	for i, name := range fault.Clusters {
		c, other := s.clusters[name], fault.Clusters[1-i]
		c.withdrawn[other] = true
		c.recomputeAll()
	}
}

func (s *simulation) activeFaults() []int {
	var active []int
	for id := range s.faults {
		active = append(active, id)
	}
	slices.Sort(active)
	return active
}

func (s *simulation) endFault(id int) {
	fault, active := s.faults[id]
	if !active {
		return
	}
	delete(s.faults, id)
	fault.End = true
	s.record(history.Entry{Fault: &fault})
	for _, name := range times.Clusters {
		c := s.clusters[name]
		for _, of := range times.Clusters {
			s.after(s.between(100*time.Millisecond, times.Recovery/2), func() {
				c.ask(of)
				c.read(of)
			})
		}
	}
}

// disturbed reports whether a cluster cannot read another.
func (s *simulation) disturbed(cluster, of string) bool {
	for _, fault := range s.faults {
		if len(fault.Clusters) == 1 && (fault.Clusters[0] == cluster || fault.Clusters[0] == of) {
			return true
		}
		if fault.Cut && cluster != of && slices.Contains(fault.Clusters, cluster) && slices.Contains(fault.Clusters, of) {
			return true
		}
	}
	return false
}

// address returns the address of an endpoint of a cluster.
func address(cluster, number int) string { return fmt.Sprintf("10.%d.62.%d", 100+cluster, number+1) }
