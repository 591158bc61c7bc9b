// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// expectation is when a subject must be seen in a cluster, and when it must not.
type expectation struct{ must, mustNot model.Spans }

// place is a cluster in which a subject is seen.
type place struct {
	cluster string
	subject
}

// expectImport returns when a cluster must show an import: while any cluster exports the service
// and the cluster has the namespace.
func (c *checker) expectImport(cluster string, of history.Service) expectation {
	return c.expect(cluster, subject{Service: of}, func() expectation { return c.computeImport(cluster, of) })
}

func (c *checker) computeImport(cluster string, of history.Service) expectation {
	namespace := c.source.Namespace(cluster, of.Namespace)
	var must model.Spans
	none := model.Always()
	for _, source := range c.clusters {
		exported := c.source.Exported(source, of)
		must = must.Union(c.visible.Must(cluster, source, exported.True))
		none = none.Intersect(c.visible.MustNot(cluster, source, exported))
	}
	return expectation{
		must:    must.Intersect(c.visible.Must(cluster, cluster, namespace.True)),
		mustNot: none.Union(c.visible.MustNot(cluster, cluster, namespace)),
	}
}

// expectEndpoint returns when a cluster must show an endpoint of another.
func (c *checker) expectEndpoint(cluster string, s subject) expectation {
	return c.expect(cluster, s, func() expectation { return c.computeEndpoint(cluster, s) })
}

// expect computes every expectation once.
func (c *checker) expect(cluster string, s subject, compute func() expectation) expectation {
	of := place{cluster, s}
	expected, ok := c.expected[of]
	if !ok {
		expected = compute()
		c.expected[of] = expected
	}
	return expected
}

func (c *checker) computeEndpoint(cluster string, s subject) expectation {
	namespace, endpoint := c.source.Namespace(cluster, s.Namespace), c.source.Endpoint(s.source, s.Service, s.address)
	must := c.visible.Must(cluster, s.source, endpoint.True).Intersect(c.visible.Must(cluster, cluster, namespace.True))
	mustNot := c.visible.MustNot(cluster, s.source, endpoint).Union(c.visible.MustNot(cluster, cluster, namespace))
	return expectation{
		must:    must.Subtract(c.visible.Withdrawn(cluster, s.source)),
		mustNot: mustNot.Union(c.visible.MustBeWithdrawn(cluster, s.source)),
	}
}

// checkPresence checks that imports and endpoints are there exactly while they are exported.
func (c *checker) checkPresence() {
	for _, cluster := range c.clusters {
		c.checkSubjects(cluster, history.Imports, c.expectedImports(), func(s subject) expectation { return c.expectImport(cluster, s.Service) })
		c.checkSubjects(cluster, history.Slices, c.expectedEndpoints(), func(s subject) expectation { return c.expectEndpoint(cluster, s) })
	}
}

// checkSubjects checks subjects, and all others that clients saw.
func (c *checker) checkSubjects(cluster, resource string, all map[subject]bool, expect func(subject) expectation) {
	clients := c.clientsOf(cluster, resource)
	for _, client := range clients {
		for s := range client.seen {
			all[s] = true
		}
	}
	for s := range all {
		expected := expect(s)
		for _, client := range clients {
			c.compareWith(client, s, expected)
		}
	}
}

func (c *checker) expectedImports() map[subject]bool {
	all := map[subject]bool{}
	for _, of := range c.source.Services() {
		all[subject{Service: of}] = true
	}
	return all
}

func (c *checker) expectedEndpoints() map[subject]bool {
	all := map[subject]bool{}
	for _, of := range c.source.Services() {
		for _, source := range c.clusters {
			for _, address := range c.source.Addresses(source, of) {
				all[subject{of, source, address}] = true
			}
		}
	}
	return all
}

func (c *checker) clientsOf(cluster, resource string) []*client {
	return slices.DeleteFunc(slices.Clone(c.clients), func(client *client) bool { return client.cluster != cluster || client.resource != resource })
}

// compareWith compares what a client saw with what it must see.
func (c *checker) compareWith(client *client, s subject, expected expectation) {
	present := client.present(s)
	for _, span := range present.Intersect(expected.mustNot) {
		c.add(Violation{
			Kind: Stale, Cluster: client.cluster, At: span.From, Subject: s.String(), Lines: c.lines(client, s, span.From),
			Message: fmt.Sprintf("client %s still saw it, %s too long", client.name, span.Duration().Round(time.Millisecond)),
		})
	}
	for _, span := range client.absent(s).Intersect(expected.must) {
		kind, message := Lost, "client %s had never seen it, and did not for another %s"
		if len(present) > 0 && present[0].From.Before(span.From) {
			kind, message = Vanished, "client %s did not see it any more, for %s"
		}
		c.add(Violation{
			Kind: kind, Cluster: client.cluster, At: span.From, Subject: s.String(), Lines: c.lines(client, s, span.From),
			Message: fmt.Sprintf(message, client.name, span.Duration().Round(time.Millisecond)),
		})
	}
}

// lines returns the lines that matter to whether a client sees a subject at a time.
func (c *checker) lines(client *client, s subject, at time.Time) []int {
	lines := client.line(s, at)
	for _, source := range c.clusters {
		if s.source == "" || s.source == source {
			lines = append(lines, c.source.Lines(source, s.Service, at)...)
			lines = append(lines, c.visible.Lines(client.cluster, source, at)...)
		}
	}
	return lines
}
