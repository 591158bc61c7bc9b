// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// maxValue is how many characters of a value a conflict message quotes:
// annotations can have hundreds of thousands.
const maxValue = 200

// Conflict is a property in which exports differ and that cannot be merged.
type Conflict struct {
	// Reason is the condition reason, as defined upstream where possible.
	Reason string
	// Message names the property, the value in use, the cluster that it comes from,
	// and how many clusters disagree.
	Message string
}

// property is a property in which exports can differ.
type property struct {
	reason, name string
	// describe returns the value for messages.
	describe func(Export) string
	// agrees reports whether a later export is compatible with the oldest one.
	agrees func(oldest, later Export) bool
}

var properties = []property{
	equalText("TypeConflict", "type", func(e Export) string { return string(e.Spec.Type) }),
	{"PortConflict", "ports", func(e Export) string { return describePorts(e.Spec.Ports) }, hasPortsOf},
	equalText("SessionAffinityConflict", "session affinity", func(e Export) string { return string(e.Spec.SessionAffinity) }),
	equalText("SessionAffinityConfigConflict", "session affinity config", describeAffinityConfig),
	equalText("InternalTrafficPolicyConflict", "internal traffic policy", func(e Export) string { return text(e.Spec.InternalTrafficPolicy) }),
	equalText("TrafficDistributionConflict", "traffic distribution", func(e Export) string { return text(e.Spec.TrafficDistribution) }),
	equalText("ClusterPreferenceConflict", "cluster preference", describePreference),
	{"IPFamilyConflict", "IP families", describeFamilies, hasFamiliesOf},
	{"LabelsConflict", "labels", func(e Export) string { return describeMap(e.Labels) }, func(a, b Export) bool { return maps.Equal(a.Labels, b.Labels) }},
	{"AnnotationsConflict", "annotations", func(e Export) string { return describeMap(e.Annotations) }, func(a, b Export) bool { return maps.Equal(a.Annotations, b.Annotations) }},
}

// equalText returns a property whose values are equal if their descriptions are.
func equalText(reason, name string, describe func(Export) string) property {
	return property{reason, name, describe, func(a, b Export) bool { return describe(a) == describe(b) }}
}

// findConflicts compares every export with the oldest, property by property. omitted is how
// many ports the result lacks: exports that are within the limit by themselves differ then.
func findConflicts(exports []Export, result Result, omitted int) []Conflict {
	oldest := exports[0]
	var conflicts []Conflict
	for _, property := range properties {
		disagree := 0
		for _, later := range exports[1:] {
			if !property.agrees(oldest, later) {
				disagree++
			}
		}
		if disagree == 0 {
			continue
		}
		using := fmt.Sprintf("%q from", truncate.Characters(property.describe(oldest), maxValue))
		if property.reason == "PortConflict" { // the union of all ports is used
			using = fmt.Sprintf("%q, preferring those of the", truncate.Characters(describePorts(result.Spec.Ports), maxValue))
			if used := len(result.Spec.Ports); omitted > 0 {
				using = fmt.Sprintf("%d of %d ports, which is the limit, %s", used, used+omitted, using)
			}
		}
		conflicts = append(conflicts, Conflict{
			Reason: property.reason,
			Message: fmt.Sprintf("Conflicting %s. Using %s oldest service export in %q. %d/%d clusters disagree.",
				property.name, using, oldest.Cluster, disagree, len(exports)),
		})
	}
	return conflicts
}

// findIPConflicts returns a conflict if exports request something else than was
// decided about the shared ClusterSet IP, and one if clusters recorded another
// decision. The decision stands even if exports change their request or the
// deciding cluster withdraws its export.
func findIPConflicts(local clustersetip.Local, exports []clustersetip.Export, inForce *clustersetip.Decision) (conflicts []Conflict) {
	if disagree := clustersetip.Disagree(exports, inForce); len(disagree) > 0 {
		conflicts = append(conflicts, Conflict{
			Reason: "ClusterSetIPConflict",
			Message: fmt.Sprintf("Conflicting use of a shared ClusterSet IP. Using \"%t\", decided by %q with the founding export, until all exports of the Service are deleted. %d/%d clusters disagree.",
				len(inForce.IPs) > 0, inForce.DecidedBy, len(disagree), len(exports)),
		})
	}
	if others := clustersetip.Contradict(local, exports, inForce); len(others) > 0 {
		conflicts = append(conflicts, Conflict{
			Reason: "ClusterSetIPDecisionConflict",
			Message: fmt.Sprintf("Conflicting decisions about the shared ClusterSet IP. Using %q, decided by %q, in this cluster; clusters with another decision: %s. Delete and create the ServiceExport again in those whose decision should be given up.",
				describeIPs(inForce.IPs), inForce.DecidedBy, truncate.Characters(strings.Join(others, ", "), maxValue)),
		})
	}
	return conflicts
}

func describeIPs(ips []string) string {
	if len(ips) == 0 {
		return "none"
	}
	return strings.Join(ips, ",")
}

// hasFamiliesOf reports whether a later export has every IP family of the oldest
// one. Additional families are not a conflict.
func hasFamiliesOf(oldest, later Export) bool {
	return !slices.ContainsFunc(oldest.Spec.IPFamilies, func(family corev1.IPFamily) bool {
		return !slices.Contains(later.Spec.IPFamilies, family)
	})
}

// describePreference returns the tiers as they are annotated, and how many ready endpoints they
// need if that is more than the default.
func describePreference(export Export) string {
	preference := export.Preference
	if preference.MinReady <= clusterpreference.DefaultMinReady {
		return preference.String()
	}
	return fmt.Sprintf("%s (at least %d ready)", preference, preference.MinReady)
}

func describeFamilies(export Export) string {
	var families []string
	for _, family := range export.Spec.IPFamilies {
		families = append(families, string(family))
	}
	return strings.Join(families, ",")
}

func describeAffinityConfig(export Export) string {
	config := export.Spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return ""
	}
	return fmt.Sprintf("timeout %d s", *config.ClientIP.TimeoutSeconds)
}

func describeMap(values map[string]string) string {
	var described []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		described = append(described, key+"="+values[key])
	}
	return strings.Join(described, ",")
}

func text[T ~string](value *T) string {
	if value == nil {
		return ""
	}
	return string(*value)
}
