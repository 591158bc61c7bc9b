// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package merge decides what a service of the ClusterSet looks like when
// several clusters export it. It is a pure function: every cluster that sees
// the same exports comes to the same answer, without asking anybody.
package merge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// Export is a service as one cluster exports it.
type Export struct {
	// Cluster is the id of the exporting cluster.
	Cluster string
	// Created is when the ServiceExport was created. The oldest counts most.
	Created time.Time
	// Spec is what the import would be if nobody else exported the service.
	// IPs do not count: they belong to the importing cluster.
	Spec multicluster.ServiceImportSpec
	// Labels and Annotations are those that the export names.
	Labels, Annotations map[string]string
	// IP is what the export has to say about one IP in all clusters.
	IP clustersetip.Export
}

// Result is a service as all clusters see it.
type Result struct {
	// Spec has no IPs, and all IP families of the oldest export: an importing
	// cluster leaves out what it does not support.
	Spec                multicluster.ServiceImportSpec
	Labels, Annotations map[string]string
	// Clusters are the ids of all exporting clusters, in alphabetical order.
	Clusters []string
	// IP is what was decided about one IP in all clusters; nil until it is.
	IP *clustersetip.Decision
	// Conflicts are all differences that could not be merged.
	Conflicts []Conflict
}

// Merge merges the exports of one service, of which there must be at least
// one. What the oldest export says counts, except for ports, of which it is
// the union; neither the order of the exports nor one that is given twice
// changes anything.
func Merge(exports []Export) Result {
	exports = byPrecedence(exports)
	oldest := exports[0]
	result := Result{Spec: oldest.Spec, Labels: oldest.Labels, Annotations: oldest.Annotations}
	result.Spec.IPs = nil
	result.Spec.Ports = mergePorts(exports)
	for _, export := range exports {
		result.Clusters = append(result.Clusters, export.Cluster)
	}
	slices.Sort(result.Clusters)
	var ips []clustersetip.Export
	for _, export := range exports {
		ips = append(ips, export.IP)
	}
	result.IP = clustersetip.InForce(ips)
	result.Conflicts = append(findConflicts(exports, result), findIPConflict(ips, result.IP)...)
	return result
}

// byPrecedence returns copies of the exports, the oldest first, one per cluster.
func byPrecedence(exports []Export) []Export {
	ordered := make([]Export, 0, len(exports))
	for _, export := range exports {
		ordered = append(ordered, normalize(export))
	}
	slices.SortStableFunc(ordered, func(a, b Export) int {
		return precedence.Compare(precedence.Rank{Since: a.Created, Cluster: a.Cluster}, precedence.Rank{Since: b.Created, Cluster: b.Cluster})
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(ordered, func(export Export) bool {
		defer func() { seen[export.Cluster] = true }()
		return seen[export.Cluster]
	})
}

// normalize makes equal what means the same, and drops keys that only the
// implementation may set: a member that is not to be trusted, or that runs
// another release, could have let them through.
func normalize(export Export) Export {
	export.Spec.Ports = slices.Clone(export.Spec.Ports)
	for i := range export.Spec.Ports {
		port := &export.Spec.Ports[i]
		port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
	}
	export.Spec.SessionAffinity = cmp.Or(export.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	export.Labels = withoutReserved(export.Labels)
	export.Annotations = withoutReserved(export.Annotations)
	return export
}

func withoutReserved(keys map[string]string) map[string]string {
	kept := maps.Clone(keys)
	maps.DeleteFunc(kept, func(key, _ string) bool {
		return strings.HasPrefix(key, multicluster.MulticlusterKeyPrefix) || strings.HasPrefix(key, multicluster.ClusterSetKeyPrefix)
	})
	return kept
}

// SupportedFamilies are the IP families of a service that a cluster can serve
// it with, in the service's order. There may be none.
func SupportedFamilies(families, supported []corev1.IPFamily) []corev1.IPFamily {
	return slices.DeleteFunc(slices.Clone(families), func(family corev1.IPFamily) bool {
		return !slices.Contains(supported, family)
	})
}
