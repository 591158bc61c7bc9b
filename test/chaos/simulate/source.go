// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// specs are those that Services may have.
func specs() []history.Spec {
	http := history.Port{Name: "http", Protocol: "TCP", Port: 80}
	return []history.Spec{
		{Ports: []history.Port{http}},
		{SessionAffinity: "ClientIP", Ports: []history.Port{http, {Name: "alt", Protocol: "TCP", Port: 81}}},
		{Headless: true, Ports: []history.Port{http, {Name: "alt", Protocol: "UDP", Port: 81}}},
	}
}

// source is a service in its own cluster.
type source struct {
	spec      *history.Spec
	exported  time.Time
	endpoints []string
}

// contributes reports whether the service is exported.
func (s source) contributes() bool { return s.spec != nil && !s.exported.IsZero() }

// work changes a service of the cluster again and again.
func (c *cluster) work(of history.Service) {
	c.every(700*time.Millisecond, 4*time.Second, func() {
		if !c.stopped && !c.busy[of] && !c.busyNamespace[of.Namespace] && c.namespaces[of.Namespace] {
			c.change(c.next(of), c.Faults)
		}
	})
}

// next returns a change that makes sense.
func (c *cluster) next(of history.Service) history.Change {
	s := c.sources[of]
	change := history.Change{Service: of}
	switch kind := c.random.IntN(10); {
	case s.spec == nil:
		change.Operation, change.Spec = history.CreateService, &specs()[c.random.IntN(3)]
	case kind == 0:
		change.Operation = history.DeleteService
	case s.exported.IsZero() && kind < 6:
		change.Operation = history.Export
	case kind == 1:
		change.Operation = history.Unexport
	default:
		change.Operation = history.SetEndpoints
		for number := range 4 {
			if c.chance(60) {
				change.Endpoints = append(change.Endpoints, address(c.number, number))
			}
		}
	}
	return change
}

// change makes a change. If it may fail, its outcome may be any.
func (c *cluster) change(change history.Change, mayFail bool) {
	c.changes++
	change.ID, change.Cluster = c.changes, c.name
	c.busy[change.Service] = true
	c.record(history.Entry{Invoke: &change})
	accepted := false
	apply := func() { accepted = c.apply(change) }
	complete := func(outcome string) func() {
		return func() {
			if outcome == history.OK && !accepted {
				outcome = history.Fail
			}
			c.record(history.Entry{Complete: &history.Completion{ID: change.ID, Outcome: outcome}})
			if outcome != history.Unknown {
				delete(c.busy, change.Service)
			}
		}
	}
	happen, answer := c.between(time.Millisecond, 50*time.Millisecond), c.between(51*time.Millisecond, 300*time.Millisecond)
	kind := 99
	if mayFail {
		kind = c.random.IntN(100)
	}
	switch {
	case kind < 5: // fails
		c.after(answer, complete(history.Fail))
	case kind < 10: // happens, but there is no answer; the test finds out
		c.after(happen, apply)
		c.after(2*time.Second, complete(history.Unknown))
		c.after(3*time.Second, complete(history.OK))
	case kind < 15: // the test finds that it has not happened; it may happen later
		c.after(2*time.Second, complete(history.Unknown))
		c.after(3*time.Second, complete(history.Fail))
		if c.chance(50) {
			c.after(c.between(3*time.Second, times.RequestTimeout), apply)
		}
	case kind < 20: // the test never finds out
		if c.chance(50) {
			c.after(c.between(time.Millisecond, times.RequestTimeout), apply)
		}
		c.after(2*time.Second, complete(history.Unknown))
		c.after(2*time.Second, func() { delete(c.busy, change.Service) })
	default:
		c.after(happen, apply)
		c.after(answer, complete(history.OK))
	}
}

// recreateNamespace deletes a namespace, and creates it again with one service.
func (c *cluster) recreateNamespace(name string) {
	in := func(service history.Service) bool { return service.Namespace == name }
	if c.stopped || slices.ContainsFunc(services(), func(s history.Service) bool { return in(s) && c.busy[s] }) {
		return
	}
	c.busyNamespace[name] = true
	do := func(delay time.Duration, change history.Change, then func()) {
		c.changes++
		change.ID, change.Cluster, change.Namespace = c.changes, c.name, name
		c.record(history.Entry{Invoke: &change})
		c.after(delay/2, func() { c.apply(change) })
		c.after(delay, func() {
			c.record(history.Entry{Complete: &history.Completion{ID: change.ID, Outcome: history.OK}})
			then()
		})
	}
	do(c.between(time.Second, 5*time.Second), history.Change{Operation: history.DeleteNamespace}, func() {
		do(20*time.Millisecond, history.Change{Operation: history.CreateNamespace}, func() { delete(c.busyNamespace, name) })
	})
}

// apply applies a change, as the API would, and reports whether it is accepted.
func (c *cluster) apply(change history.Change) bool {
	s := c.sources[change.Service]
	if change.Name != "" && !c.namespaces[change.Namespace] {
		return false
	}
	switch change.Operation {
	case history.CreateNamespace:
		c.namespaces[change.Namespace] = true
	case history.DeleteNamespace:
		delete(c.namespaces, change.Namespace)
		for _, other := range services() {
			if other.Namespace == change.Namespace {
				delete(c.sources, other)
			}
		}
	case history.CreateService:
		if s.spec != nil {
			return false
		}
		s.spec = change.Spec
	case history.DeleteService:
		s.spec = nil
	case history.Export:
		if s.exported.IsZero() {
			s.exported = c.now.Truncate(time.Second)
		}
	case history.Unexport:
		s.exported = time.Time{}
	case history.SetEndpoints:
		s.endpoints = change.Endpoints
	}
	if change.Name != "" {
		c.sources[change.Service] = s
	}
	for _, name := range times.Clusters {
		reader := c.clusters[name]
		c.after(c.between(5*time.Millisecond, 1500*time.Millisecond), func() { reader.read(c.name) })
	}
	return true
}

// recordFinal records what the cluster has in the end.
func (c *cluster) recordFinal() {
	final := history.Final{Cluster: c.name}
	for _, of := range services() {
		if s, ok := c.sources[of]; ok {
			final.Services = append(final.Services, history.FinalService{Service: of, Spec: s.spec, Exported: s.exported, Endpoints: s.endpoints})
		}
	}
	for _, name := range []string{"bank", "shop"} {
		if c.namespaces[name] {
			final.Namespaces = append(final.Namespaces, name)
		}
	}
	c.record(history.Entry{Final: &final})
}
