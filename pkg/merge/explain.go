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
	// Founding means that the exports differ and that the founding export decided.
	Founding Rule = "Founding"
	// Union means that the exports differ and that their values are combined.
	Union Rule = "Union"
)

// Property is a property in which exports can differ, and its merged value. The
// values are described as in conflicts, but never truncated. Unset values are
// empty.
type Property struct {
	Name string
	// Values are the values of the exports, by cluster ID.
	Values map[string]string
	// Used is the merged value. An importing cluster omits IP families that it does
	// not support.
	Used string
	Rule Rule
	// Cluster is the ID of the cluster whose value is used if the rule is Oldest
	// or Founding.
	Cluster string
	// Conflict is whether Merge reports a conflict. Exports can differ without one:
	// additional IP families are not a conflict.
	Conflict bool
}

// Explain returns how Merge determines its result, property by property, always
// in the same order. At least one export is required.
func Explain(exports []Export) []Property { return ExplainIn(clustersetip.Local{}, exports) }

// ExplainIn returns how MergeIn determines its result.
func ExplainIn(local clustersetip.Local, exports []Export) []Property {
	exports = byPrecedence(exports)
	oldest, merged := exports[0], MergeIn(local, exports)
	result := Export{Spec: merged.Spec, Labels: merged.Labels, Annotations: merged.Annotations, Preference: merged.Preference}
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

// explainIP explains the decision about the shared ClusterSet IP. The deciding
// cluster may have withdrawn its export since.
func explainIP(exports []Export, inForce *clustersetip.Decision) Property {
	explained := Property{Name: "shared ClusterSet IP", Values: map[string]string{}, Rule: Agreed}
	var requests []clustersetip.Export
	for _, export := range exports {
		explained.Values[export.Cluster] = strconv.FormatBool(export.IP.Wants)
		requests = append(requests, export.IP)
	}
	switch {
	case inForce == nil:
		explained.Used = "undecided"
	case len(inForce.IPs) == 0:
		explained.Used = "false"
	default:
		explained.Used = fmt.Sprintf("true (%s)", strings.Join(inForce.IPs, ","))
	}
	if len(clustersetip.Disagree(clustersetip.Taking(requests), inForce)) > 0 {
		explained.Rule, explained.Cluster, explained.Conflict = Founding, inForce.DecidedBy, true
	}
	return explained
}
