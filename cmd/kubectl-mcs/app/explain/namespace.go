// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
)

// limitReport says that a namespace does not import from all clusters. Exports that it does not import are not
// among those that this cluster knows.
type limitReport struct {
	// Annotation is that of the namespace, and Value its value.
	Annotation string `json:"annotation"`
	Value      string `json:"value"`
	// Invalid is true if nothing is imported because the value is not valid.
	Invalid bool   `json:"invalid,omitempty"`
	Message string `json:"message"`
	// NotFrom are the members from which nothing is imported, sorted.
	NotFrom []string `json:"notImportedFrom,omitempty"`
}

// importLimit returns nil if the namespace imports from all clusters, or is not known.
func importLimit(facts Facts) *limitReport {
	if facts.NamespaceObject == nil {
		return nil
	}
	annotations := facts.NamespaceObject.Annotations
	if annotations[clusterset.ImportAnnotation] == clusterset.ImportDisabled {
		limit := &limitReport{Annotation: clusterset.ImportAnnotation, Value: clusterset.ImportDisabled, NotFrom: membersBut(facts, nil)}
		limit.Message = fmt.Sprintf("namespace %q imports from no other cluster, because of its annotation %s=%s", facts.Namespace, limit.Annotation, limit.Value)
		return limit
	}
	from, given, errs := clusterlist.Parse(annotations, clusterset.ImportFromAnnotation)
	if !given {
		return nil
	}
	limit := &limitReport{Annotation: clusterset.ImportFromAnnotation, Value: annotations[clusterset.ImportFromAnnotation], Invalid: len(errs) > 0, NotFrom: membersBut(facts, from)}
	if limit.Invalid {
		limit.Message = fmt.Sprintf("namespace %q imports from no other cluster, because its annotation %s is not valid: %s", facts.Namespace, limit.Annotation, clusterlist.Describe(errs))
		return limit
	}
	limit.Message = fmt.Sprintf("namespace %q imports from %s only, because of its annotation %s", facts.Namespace, from, limit.Annotation)
	if len(limit.NotFrom) > 0 {
		limit.Message += fmt.Sprintf("; what %s may export is not imported", strings.Join(limit.NotFrom, ", "))
	}
	return limit
}

// membersBut returns the IDs of the other members that are not listed.
func membersBut(facts Facts, listed clusterlist.Clusters) []string {
	var ids []string
	for i := range facts.Members {
		member := &facts.Members[i]
		id := member.Status.ClusterID
		if id != "" && member.Status.State != clustersetv1alpha1.MemberLocal && !listed.Include(id, clusterlist.PropertiesOf(member)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
