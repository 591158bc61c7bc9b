// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// final is what is exported in the end.
type final struct {
	exports   map[history.Service][]model.Export
	endpoints map[history.Service]map[string][]string
	services  []history.Service
	// namespaces are those of every cluster.
	namespaces map[string][]string
	lines      []int
}

// End returns the differences between what is exported and what clients see, given the final
// state only.
func End(entries []history.Entry) ([]Violation, error) {
	c, err := newChecker(append([]history.Entry{{Run: &history.Run{}}}, entries...))
	if err != nil {
		return nil, err
	}
	c.checkImported(finalState(entries))
	return c.sorted(), nil
}

// checkEnd checks that what the test changed is there in the end, and that all clusters show
// what follows from it.
func (c *checker) checkEnd() {
	for _, entry := range c.entries {
		if entry.Final != nil {
			c.checkSource(entry)
		}
	}
	c.checkImported(finalState(c.entries))
}

// finalState returns what is exported in the end. It is empty if the run did not get that far.
func finalState(entries []history.Entry) final {
	end := final{exports: map[history.Service][]model.Export{}, endpoints: map[history.Service]map[string][]string{}, namespaces: map[string][]string{}}
	for _, entry := range entries {
		if entry.Final == nil {
			continue
		}
		end.lines = append(end.lines, entry.Line)
		cluster := entry.Final.Cluster
		end.namespaces[cluster] = entry.Final.Namespaces
		for _, s := range entry.Final.Services {
			if !slices.Contains(end.services, s.Service) {
				end.services = append(end.services, s.Service)
				end.endpoints[s.Service] = map[string][]string{}
			}
			if s.Spec != nil && !s.Exported.IsZero() {
				end.exports[s.Service] = append(end.exports[s.Service], model.Export{Cluster: cluster, Created: s.Exported, Spec: *s.Spec})
				end.endpoints[s.Service][cluster] = s.Endpoints
			}
		}
	}
	return end
}

// checkSource checks the final state of a cluster's own services.
func (c *checker) checkSource(entry history.Entry) {
	cluster := entry.Final.Cluster
	for _, of := range c.source.Services() {
		s := history.FinalService{Service: of}
		if i := slices.IndexFunc(entry.Final.Services, func(found history.FinalService) bool { return found.Service == of }); i >= 0 {
			s = entry.Final.Services[i]
		}
		if problem := c.source.CanEndAs(cluster, s, entry.At); problem != "" {
			c.add(Violation{
				Kind: Lost, Cluster: cluster, At: entry.At, Subject: "source of " + of.String(), Message: problem,
				Lines: append(c.source.Lines(cluster, of, entry.At), entry.Line),
			})
		}
	}
}

// checkImported compares what all clients that still watch saw last with what is exported.
func (c *checker) checkImported(end final) {
	if len(end.namespaces) == 0 {
		return
	}
	for _, client := range c.clients {
		if client.stillKnows(c.entries) {
			c.checkFinalObjects(client, end)
		}
	}
}

// stillKnows reports whether a client knew all objects at the end of the history.
func (c *client) stillKnows(entries []history.Entry) bool {
	return c.end().Equal(entries[len(entries)-1].At)
}

// checkFinalObjects compares what a client saw last with what is exported.
func (c *checker) checkFinalObjects(client *client, end final) {
	at := client.end()
	differs := func(of history.Service, message string) {
		lines := slices.Clone(end.lines)
		for _, entry := range slices.Backward(client.entries) {
			if object := entry.Watch.Object; object != nil && (object.Name == of.Name || object.Slice != nil && object.Slice.Service == of.Name) {
				lines = append(lines, entry.Line)
				break
			}
		}
		c.add(Violation{Kind: Ended, Cluster: client.cluster, At: at, Subject: client.resource + " of " + of.String(), Message: fmt.Sprintf("client %s: %s", client.name, message), Lines: lines})
	}
	for _, of := range end.services {
		exports := end.exports[of]
		if !slices.Contains(end.namespaces[client.cluster], of.Namespace) {
			exports = nil
		}
		switch client.resource {
		case history.Imports:
			object, exists := client.objects[key{of.Namespace, of.Name}]
			if exists != (len(exports) > 0) {
				differs(of, fmt.Sprintf("import exists: %t, %d clusters export it", exists, len(exports)))
			} else if exists {
				if got, want := model.Canonical(*object.Import), model.Merge(exports); !reflect.DeepEqual(got, want) {
					differs(of, fmt.Sprintf("import is %+v, want %+v", got, want))
				}
			}
		case history.Slices:
			want := map[string]bool{}
			for _, export := range exports {
				for _, address := range end.endpoints[of][export.Cluster] {
					want[export.Cluster+" "+address] = true
				}
			}
			got := map[string]bool{}
			for s := range subjects(client.objects) {
				if s.Service == of {
					got[s.source+" "+s.address] = true
				}
			}
			if missing, extra := without(want, got), without(got, want); missing != "" || extra != "" {
				differs(of, fmt.Sprintf("missing endpoints: %q, extra ones: %q", missing, extra))
			}
		}
	}
}

func without(a, b map[string]bool) string {
	var rest []string
	for element := range a {
		if !b[element] {
			rest = append(rest, element)
		}
	}
	slices.Sort(rest)
	return strings.Join(rest, ", ")
}
