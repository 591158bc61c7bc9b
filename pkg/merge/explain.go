// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// Rule is how Merge determines the value of a property.
type Rule string

const (
	// Agreed means that the exports of all clusters have the same value.
	Agreed Rule = "Agreed"
	// Oldest means that the exports differ and that the oldest one prevails.
	Oldest Rule = "Oldest"
	// Union means that the exports differ and that their values are combined.
	Union Rule = "Union"
)

// Property is something in which exports can differ, and what came of it. All
// values are as conflicts describe them, but never shortened; what is not set
// is empty.
type Property struct {
	Name string
	// Values are what the exporting clusters say, by their ids.
	Values map[string]string
	// Used is what all clusters use. Of IP families an importing cluster leaves
	// out what it does not support.
	Used string
	Rule Rule
	// Cluster is the cluster whose value is used if the rule is Oldest.
	Cluster string
	// Conflict says whether Merge reports a conflict. Clusters may differ
	// without one: more IP families than the oldest export has do no harm.
	Conflict bool
}

// Explain tells how Merge comes to its result, property by property, always in
// the same order. There must be at least one export.
func Explain(exports []Export) []Property {
	exports = byPrecedence(exports)
	oldest, merged := exports[0], Merge(exports)
	result := Export{Spec: merged.Spec, Labels: merged.Labels, Annotations: merged.Annotations}
	explained := make([]Property, 0, len(properties))
	for _, property := range properties {
		one := Property{Name: property.name, Values: map[string]string{}, Used: property.describe(result), Rule: Agreed}
		for _, export := range exports {
			value := property.describe(export)
			one.Values[export.Cluster] = value
			agrees := property.agrees(oldest, export)
			one.Conflict = one.Conflict || !agrees
			if !agrees || value != property.describe(oldest) {
				one.Rule, one.Cluster = Oldest, oldest.Cluster
			}
		}
		if one.Rule == Oldest && property.reason == "PortConflict" {
			one.Rule, one.Cluster = Union, ""
		}
		explained = append(explained, one)
	}
	return append(explained, explainIP(exports, merged.IP))
}

// explainIP tells what was decided about one IP in all clusters. Whoever decided
// may not export the service any more.
func explainIP(exports []Export, inForce *clustersetip.Decision) Property {
	explained := Property{Name: "one IP in all clusters", Values: map[string]string{}, Rule: Agreed}
	var wishes []clustersetip.Export
	for _, export := range exports {
		explained.Values[export.Cluster] = strconv.FormatBool(export.IP.Wants)
		wishes = append(wishes, export.IP)
	}
	switch {
	case inForce == nil:
		explained.Used = "not decided yet"
	case len(inForce.IPs) == 0:
		explained.Used = "false"
	default:
		explained.Used = fmt.Sprintf("true (%s)", strings.Join(inForce.IPs, ","))
	}
	if len(clustersetip.Disagree(wishes, inForce)) > 0 {
		explained.Rule, explained.Cluster, explained.Conflict = Oldest, inForce.DecidedBy, true
	}
	return explained
}
