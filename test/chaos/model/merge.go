// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// Export is what one cluster exports of a service in the end.
type Export struct {
	Cluster string
	Created time.Time
	history.Spec
}

// Merge returns the import of exports, without IPs: the oldest export wins, and of those of the
// same age the one of the cluster whose ID comes first. Ports are united: one of an export that
// loses is added unless its name, or its protocol and number, is taken.
func Merge(exports []Export) history.Import {
	exports = slices.Clone(exports)
	slices.SortFunc(exports, func(a, b Export) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Cluster, b.Cluster))
	})
	merged := history.Import{Spec: exports[0].Spec}
	merged.Ports = nil
	for _, export := range exports {
		merged.Clusters = append(merged.Clusters, export.Cluster)
		for _, port := range export.Ports {
			if !slices.ContainsFunc(merged.Ports, func(taken history.Port) bool {
				return taken.Name == port.Name || taken.Protocol == port.Protocol && taken.Port == port.Port
			}) {
				merged.Ports = append(merged.Ports, port)
			}
		}
	}
	return Canonical(merged)
}

// Canonical returns an import in a form in which equal imports are equal.
func Canonical(i history.Import) history.Import {
	i.SessionAffinity = cmp.Or(i.SessionAffinity, "None")
	i.Ports, i.Clusters = slices.Clone(i.Ports), slices.Clone(i.Clusters)
	for n := range i.Ports {
		i.Ports[n].Protocol = cmp.Or(i.Ports[n].Protocol, "TCP")
	}
	slices.SortFunc(i.Ports, func(a, b history.Port) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	slices.Sort(i.Clusters)
	i.IPs = nil
	return i
}
