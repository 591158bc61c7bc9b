// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// checkUIDs checks that an import keeps its UID while it is exported, and that no other import,
// nor another life of it, has the same.
func (c *checker) checkUIDs() {
	expected := map[string]map[history.Service]expectation{}
	owners, deaths := map[[2]string]sighting{}, map[[2]string]sighting{}
	for _, cluster := range c.clusters {
		expected[cluster] = map[history.Service]expectation{}
		for _, of := range c.source.Services() {
			expected[cluster][of] = c.expectImport(cluster, of)
		}
	}
	for _, client := range c.clients {
		for _, s := range client.uids {
			uid := [2]string{client.cluster, s.object.UID}
			if owner, ok := owners[uid]; ok && keyOf(owner.object) != keyOf(s.object) {
				c.addUID(UIDReused, client, s, owner, "was that of import "+owner.object.Namespace+"/"+owner.object.Name)
			}
			owners[uid] = s
			if death, died := deaths[uid]; s.gone && (!died || s.at.Before(death.at)) {
				deaths[uid] = s
			}
		}
	}
	for _, client := range c.clients {
		c.checkLives(client, expected[client.cluster], deaths)
	}
}

// checkLives checks the UIDs that a client saw.
func (c *checker) checkLives(client *client, expected map[history.Service]expectation, deaths map[[2]string]sighting) {
	last := map[key]sighting{}
	ended := map[string]sighting{}
	for _, s := range client.uids {
		before, known := last[keyOf(s.object)]
		last[keyOf(s.object)] = s
		service := history.Service{Namespace: s.object.Namespace, Name: s.object.Name}
		if known && !before.gone && before.object.UID != s.object.UID && expected[service].must.Covers(before.at, s.at) {
			c.addUID(UIDChanged, client, s, before, "was "+before.object.UID)
		}
		if s.gone {
			ended[s.object.UID] = s
			continue
		}
		death, died := ended[s.object.UID]
		if !died || death.lists != s.lists {
			// The end was seen at another server, maybe: one that is behind may not show it, for a while.
			death, died = deaths[[2]string{client.cluster, s.object.UID}]
			died = died && c.visible.Oldest(client.cluster, s.at).After(death.at)
		}
		if died && death.at.Before(s.at) {
			c.addUID(UIDReused, client, s, death, "was that of an earlier life")
		}
	}
}

func (c *checker) addUID(kind string, client *client, s, earlier sighting, message string) {
	c.add(Violation{
		Kind: kind, Cluster: client.cluster, At: s.at, Subject: "import " + s.object.Namespace + "/" + s.object.Name, Lines: []int{earlier.line, s.line},
		Message: fmt.Sprintf("client %s saw UID %s, which %s", client.name, s.object.UID, message),
	})
}

// holding is when an import had an IP in a cluster.
type holding struct {
	cluster string
	history.Service
	model.Spans
	line int
}

// checkIPs checks that no two services have one IP: never in the view of one client, and in
// different clusters not for longer than a change takes to arrive.
func (c *checker) checkIPs() {
	holdings := map[string][]holding{}
	for _, client := range c.clients {
		for ip, held := range client.holdings() {
			for i, a := range held {
				for _, b := range held[i+1:] {
					c.compareHoldings(ip, a, b, false)
				}
				holdings[ip] = append(holdings[ip], a)
			}
		}
	}
	for ip, held := range holdings {
		for i, a := range held {
			for _, b := range held[i+1:] {
				if a.cluster != b.cluster {
					c.compareHoldings(ip, a, b, true)
				}
			}
		}
	}
}

func (c *checker) compareHoldings(ip string, a, b holding, tolerant bool) {
	if a.Service == b.Service {
		return
	}
	for _, span := range a.Intersect(b.Spans) {
		if tolerant && span.Duration() <= c.run.Propagation {
			continue
		}
		first, second := a, b
		if b.String() < a.String() {
			first, second = b, a
		}
		c.add(Violation{
			Kind: IPShared, Cluster: second.cluster, At: span.From, Subject: "IP " + ip, Lines: []int{a.line, b.line},
			Message: fmt.Sprintf("both %s in %s and %s in %s had it", first.Service, first.cluster, second.Service, second.cluster),
		})
	}
}

// holdings returns which IPs services had in the view of a client.
func (c *client) holdings() map[string][]holding {
	type holder struct {
		ip string
		history.Service
	}
	spans, since, lines := map[holder][]model.Span{}, map[holder]history.Entry{}, map[holder]int{}
	end := func(h holder, entry history.Entry) {
		if from, ok := since[h]; ok {
			spans[h] = append(spans[h], model.Span{From: from.At, To: entry.At})
			delete(since, h)
		}
	}
	set := func(object history.Object, ips []string, entry history.Entry) {
		of := history.Service{Namespace: object.Namespace, Name: object.Name}
		for h := range since {
			if h.Service == of && !slices.Contains(ips, h.ip) {
				end(h, entry)
			}
		}
		for _, ip := range ips {
			h := holder{ip, of}
			if _, ok := since[h]; !ok {
				since[h], lines[h] = entry, entry.Line
			}
		}
	}
	for _, entry := range append(slices.Clone(c.entries), history.Entry{At: c.end(), Watch: &history.Watch{Type: history.Closed}}) {
		switch w := entry.Watch; {
		case w.Type == history.Listed || w.Type == history.Closed:
			for h := range since {
				end(h, entry)
			}
			for _, object := range w.Items {
				if object.Import != nil {
					set(object, object.Import.IPs, entry)
				}
			}
		case w.Object == nil || w.Object.Import == nil:
		case w.Type == history.Deleted:
			set(*w.Object, nil, entry)
		default:
			set(*w.Object, w.Object.Import.IPs, entry)
		}
	}
	held := map[string][]holding{}
	for h, spans := range spans {
		held[h.ip] = append(held[h.ip], holding{c.cluster, h.Service, model.NewSpans(spans...), lines[h]})
	}
	return held
}
