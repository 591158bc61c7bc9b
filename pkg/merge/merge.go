// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package merge determines the ServiceImport of a Service that several clusters
// export. It is pure: every cluster that knows the same exports gets the same
// result without any coordination, except that a cluster keeps the shared
// ClusterSet IP that it has.
package merge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// Export is a service as one cluster exports it.
type Export struct {
	// Cluster is the ID of the exporting cluster.
	Cluster string
	// Since is when the export took effect: the later of its creation and the time
	// at which its cluster joined the ClusterSet. The oldest takes precedence.
	Since time.Time
	// Created is when the ServiceExport was created. It decides between exports that
	// took effect at the same time.
	Created time.Time
	// Spec is the spec of the import if this were the only export. Its IPs are
	// ignored: they belong to the importing cluster.
	Spec multicluster.ServiceImportSpec
	// Labels and Annotations are the exported ones.
	Labels, Annotations map[string]string
	// Preference is which clusters should answer. It may have tiers of newer releases.
	Preference clusterpreference.Preference
	// IP is the part of the export that concerns the shared ClusterSet IP.
	IP clustersetip.Export
}

// Rank returns what the precedence of the export depends on.
func (e Export) Rank() precedence.Rank {
	return precedence.Rank{Since: e.Since, Created: e.Created, Cluster: e.Cluster}
}

// Result is the merged Service.
type Result struct {
	// Spec has no IPs, and all IP families of the oldest export: an importing
	// cluster omits those that it does not support.
	Spec                multicluster.ServiceImportSpec
	Labels, Annotations map[string]string
	Preference          clusterpreference.Preference
	// Clusters are the IDs of all exporting clusters, sorted.
	Clusters []string
	// IP is the decision about the shared ClusterSet IP, or nil if undecided.
	IP *clustersetip.Decision
	// Conflicts are all differences that could not be merged.
	Conflicts []Conflict
}

// Merge merges the exports of one Service, at least one. The oldest export takes
// precedence, except for ports, whose union is used. The result does not depend
// on the order of the exports or on duplicates. It is that of a cluster which does
// not have the Service yet; [MergeIn] returns that of another one.
func Merge(exports []Export) Result { return MergeIn(clustersetip.Local{}, exports) }

// MergeIn merges the exports of one Service as Merge does, in a cluster that may
// have recorded or served a shared ClusterSet IP of the Service.
func MergeIn(local clustersetip.Local, exports []Export) Result {
	exports = byPrecedence(exports)
	oldest := exports[0]
	result := Result{Spec: oldest.Spec, Labels: oldest.Labels, Annotations: oldest.Annotations, Preference: oldest.Preference}
	result.Spec.IPs = nil
	var omitted int
	result.Spec.Ports, omitted = mergePorts(exports)
	for _, export := range exports {
		result.Clusters = append(result.Clusters, export.Cluster)
	}
	slices.Sort(result.Clusters)
	var ips []clustersetip.Export
	for _, export := range exports {
		ips = append(ips, export.IP)
	}
	ips = clustersetip.Taking(ips)
	result.IP = clustersetip.InForce(local, ips)
	result.Conflicts = append(findConflicts(exports, result, omitted), findIPConflicts(local, ips, result.IP)...)
	return result
}

// byPrecedence returns normalized copies of the exports, one per cluster, in the
// order of their precedence.
func byPrecedence(exports []Export) []Export {
	ordered := make([]Export, 0, len(exports))
	for _, export := range exports {
		ordered = append(ordered, normalize(export))
	}
	slices.SortStableFunc(ordered, func(a, b Export) int { return precedence.Compare(a.Rank(), b.Rank()) })
	seen := map[string]bool{}
	return slices.DeleteFunc(ordered, func(export Export) bool {
		defer func() { seen[export.Cluster] = true }()
		return seen[export.Cluster]
	})
}

// normalize sets defaults, so that equivalent exports are equal, and removes
// reserved keys, which an untrusted member or another release may have exported.
func normalize(export Export) Export {
	export.Spec.Ports = slices.Clone(export.Spec.Ports)
	for i := range export.Spec.Ports {
		port := &export.Spec.Ports[i]
		port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
	}
	export.Spec.SessionAffinity = cmp.Or(export.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	if len(export.Preference.Tiers) == 0 {
		export.Preference = clusterpreference.Preference{}
	} else {
		export.Preference.MinReady = max(export.Preference.MinReady, clusterpreference.DefaultMinReady)
	}
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

// SupportedFamilies returns the IP families that a cluster supports, in their
// original order. The result may be empty.
func SupportedFamilies(families, supported []corev1.IPFamily) []corev1.IPFamily {
	return slices.DeleteFunc(slices.Clone(families), func(family corev1.IPFamily) bool {
		return !slices.Contains(supported, family)
	})
}
