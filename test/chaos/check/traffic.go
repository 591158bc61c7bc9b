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

// checkTraffic checks what DNS answered, and where connections arrived.
func (c *checker) checkTraffic() {
	known := c.addressesSeen()
	for _, entry := range c.entries {
		if entry.Lookup != nil {
			c.checkLookup(entry, *entry.Lookup, known[entry.Lookup.Cluster])
		}
		if entry.Connection != nil {
			c.checkConnection(entry, *entry.Connection)
		}
	}
}

// addressesSeen returns the addresses that clients of a cluster ever saw: IPs of imports, and
// endpoints.
func (c *checker) addressesSeen() map[string]map[history.Service]map[string]bool {
	seen := map[string]map[history.Service]map[string]bool{}
	for _, cluster := range c.clusters {
		seen[cluster] = map[history.Service]map[string]bool{}
	}
	see := func(cluster string, of history.Service, addresses []string) {
		if seen[cluster][of] == nil {
			seen[cluster][of] = map[string]bool{}
		}
		for _, address := range addresses {
			seen[cluster][of][address] = true
		}
	}
	for _, client := range c.clients {
		for _, entry := range client.entries {
			objects := entry.Watch.Items
			if entry.Watch.Object != nil {
				objects = []history.Object{*entry.Watch.Object}
			}
			for _, object := range objects {
				if object.Import != nil {
					see(client.cluster, history.Service{Namespace: object.Namespace, Name: object.Name}, object.Import.IPs)
				}
				if object.Slice != nil {
					see(client.cluster, history.Service{Namespace: object.Namespace, Name: object.Slice.Service}, object.Slice.Addresses)
				}
			}
		}
	}
	return seen
}

func (c *checker) checkLookup(entry history.Entry, lookup history.Lookup, known map[history.Service]map[string]bool) {
	expected, lagging := c.expectImport(lookup.Cluster, lookup.Service), c.visible.Lagging(lookup.Cluster).Contains(entry.At)
	violation := Violation{Cluster: lookup.Cluster, At: entry.At, Subject: "DNS name of " + lookup.String()}
	add := func() {
		violation.Lines = append(c.sourceLines(lookup.Cluster, lookup.Service, entry.At), entry.Line)
		c.add(violation)
	}
	switch {
	case lagging: // but it has no other addresses
	case lookup.NotFound && expected.must.Contains(entry.At) && c.someEndpoint(lookup.Cluster, lookup.Service, entry.At) &&
		(c.calm(lookup.Cluster, entry.At) || c.addressed(lookup.Cluster, lookup.Service, entry.At)):
		violation.Kind, violation.Message = Vanished, "DNS answered that it does not exist"
		add()
	case len(lookup.Answers) > 0 && expected.mustNot.Contains(entry.At):
		violation.Kind, violation.Message = Stale, fmt.Sprintf("DNS still answered with %v", lookup.Answers)
		add()
	}
	for _, answer := range lookup.Answers {
		if !known[lookup.Service][answer] && c.watched(lookup.Cluster, entry.At) {
			violation.Kind, violation.Message = WrongAnswer, fmt.Sprintf("DNS answered with %s, which the service never had", answer)
			add()
		}
	}
}

// addressed reports whether a client saw that an import had addresses for the propagation delay.
// The cluster that chooses the IP of an import may fail before it does.
func (c *checker) addressed(cluster string, of history.Service, at time.Time) bool {
	return slices.ContainsFunc(c.clientsOf(cluster, history.Imports), func(client *client) bool {
		sight := client.addressed[key{of.Namespace, of.Name}]
		return sight != nil && model.NewSpans(sight.spans...).Covers(at.Add(-c.run.Propagation), at)
	})
}

// watched reports whether clients saw everything in a cluster that DNS may know at a time.
func (c *checker) watched(cluster string, at time.Time) bool {
	for _, resource := range []string{history.Imports, history.Slices} {
		if !slices.ContainsFunc(c.clientsOf(cluster, resource), func(client *client) bool {
			return model.NewSpans(client.known...).Covers(c.visible.Oldest(cluster, at), at)
		}) {
			return false
		}
	}
	return true
}

// someEndpoint reports whether a cluster must know an endpoint of a service at a time. A headless
// service without endpoints has no addresses.
func (c *checker) someEndpoint(cluster string, of history.Service, at time.Time) bool {
	return slices.ContainsFunc(c.clusters, func(source string) bool {
		return slices.ContainsFunc(c.source.Addresses(source, of), func(address string) bool {
			return c.expectEndpoint(cluster, subject{of, source, address}).must.Contains(at)
		})
	})
}

func (c *checker) checkConnection(entry history.Entry, connection history.Connection) {
	violation := Violation{Cluster: connection.Cluster, At: connection.Began}
	add := func() {
		violation.Lines = append(c.sourceLines(connection.Cluster, connection.Service, connection.Began), entry.Line)
		c.add(violation)
	}
	switch {
	case c.visible.Lagging(connection.Cluster).Contains(connection.Began):
	case connection.BackendCluster != "":
		s := subject{connection.Service, connection.BackendCluster, connection.BackendAddress}
		// A cluster that is cut off may still be reached in one direction. A connection may
		// arrive seconds after it began, if its first packets are lost.
		if mustNot := c.visible.MustNot(connection.Cluster, s.source, c.source.Endpoint(s.source, s.Service, s.address)); mustNot.Covers(connection.Began, entry.At) {
			violation.Kind, violation.Subject, violation.Message = Stale, "connection to "+s.String(), "a connection still arrived there"
			add()
		}
	case connection.Refused && c.calm(connection.Cluster, connection.Began) && c.someEndpoint(connection.Cluster, connection.Service, connection.Began):
		violation.Kind, violation.Subject, violation.Message = Vanished, "connection to "+connection.String(), "the connection was refused although the service has endpoints: "+connection.Error
		add()
	}
}

// calm reports whether no fault disturbs what a cluster sees of any cluster at a time.
func (c *checker) calm(cluster string, at time.Time) bool {
	return !slices.ContainsFunc(c.clusters, func(source string) bool {
		return len(c.visible.Lines(cluster, source, at)) > 0
	})
}

func (c *checker) sourceLines(cluster string, of history.Service, at time.Time) []int {
	var lines []int
	for _, source := range c.clusters {
		lines = append(lines, c.source.Lines(source, of, at)...)
		lines = append(lines, c.visible.Lines(cluster, source, at)...)
	}
	return lines
}
