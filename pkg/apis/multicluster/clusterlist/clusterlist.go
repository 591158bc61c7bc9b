// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlist defines how annotations list clusters: those that a ServiceExport is for, and
// those that a namespace imports from.
package clusterlist

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Clusters are all that match one of the terms.
type Clusters []Term

// Term is the ID of a cluster, or a ClusterProperty with a value.
type Term struct {
	// ID is empty for a property.
	ID string
	// Property and Value are empty for an ID.
	Property, Value string
}

// String returns the term as it is annotated.
func (t Term) String() string {
	if t.ID != "" {
		return t.ID
	}
	return t.Property + "=" + t.Value
}

// Matches reports whether a cluster with the given properties is meant.
func (t Term) Matches(id string, properties map[string]string) bool {
	if t.ID != "" {
		return t.ID == id
	}
	value, has := properties[t.Property]
	return has && value == t.Value
}

const (
	// MaxTerms is how many terms there may be.
	MaxTerms = clusterset.MaxAudience
	// maxErrors is after how many errors validation of a list ends, and each shows at most the
	// first 100 characters of a term.
	maxErrors = 10
	maxText   = MaxTerms * (validation.DNS1123SubdomainMaxLength + len("=, ") + 64)
)

const howTo = "write IDs of clusters, or NAME=VALUE for those that have a ClusterProperty of that value, separated by commas"

// Parse returns the clusters that an annotation lists, and everything that is wrong with it. given
// is false if there is no such annotation: all clusters are meant then.
func Parse(annotations map[string]string, annotation string) (clusters Clusters, given bool, errs field.ErrorList) {
	text, given := annotations[annotation]
	if !given {
		return nil, false, nil
	}
	path := field.NewPath("metadata", "annotations").Key(annotation)
	switch {
	case len(text) > maxText:
		return nil, true, field.ErrorList{field.TooLong(path, "", maxText)}
	case strings.TrimSpace(text) == "":
		return nil, true, field.ErrorList{field.Invalid(path, "", "lists no clusters; "+howTo+", or remove the annotation, which means all clusters")}
	}
	parts := strings.Split(text, ",")
	if len(parts) > MaxTerms {
		return nil, true, field.ErrorList{field.Invalid(path, "", fmt.Sprintf("has %d terms, and may have %d; remove some, or use a ClusterProperty that the clusters have in common", len(parts), MaxTerms))}
	}
	for _, part := range parts {
		if len(errs) >= maxErrors {
			break
		}
		part = strings.TrimSpace(part)
		term, problem := parse(part)
		if problem == "" && slices.Contains(clusters, term) {
			problem = fmt.Sprintf("has %.100q more than once; remove all but one", term)
		}
		if problem != "" {
			errs = append(errs, field.Invalid(path, fmt.Sprintf("%.100s", part), problem))
		}
		clusters = append(clusters, term)
	}
	if len(errs) > 0 {
		clusters = nil
	}
	return clusters, true, errs
}

// Describe returns everything that is wrong with a list as one text.
func Describe(errs field.ErrorList) string {
	var details []string
	for _, err := range errs {
		details = append(details, err.Detail)
	}
	return strings.Join(details, "; ")
}

// parse returns a term, or what is wrong with it and what to write instead.
func parse(text string) (term Term, problem string) {
	name, value, isProperty := strings.Cut(text, "=")
	switch {
	case text == "":
		return term, "has an empty term; remove the superfluous comma"
	case !isProperty:
		if problems := validation.IsDNS1123Label(text); len(problems) > 0 {
			return term, fmt.Sprintf("%.100q is no cluster ID: %s; %s", text, strings.Join(problems, "; "), howTo)
		}
		return Term{ID: text}, ""
	case multicluster.ReservedDomain(name) != "":
		return term, fmt.Sprintf("%.100q: properties in the domain %s are not compared; write the ID of the cluster, or name a ClusterProperty in your own domain", text, multicluster.ReservedDomain(name))
	case strings.Contains(name, "/"):
		return term, fmt.Sprintf("%.100q: labels of nodes are not compared; name a ClusterProperty in your own domain, such as region.example.com", text)
	case value == "":
		return term, fmt.Sprintf("%.100q has no value; write it directly after the equals sign", text)
	case value != strings.TrimSpace(value) || strings.HasPrefix(value, "="):
		return term, fmt.Sprintf("%.100q: the value begins with an equals sign, or has spaces around it; write it directly after a single equals sign", text)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return term, fmt.Sprintf("%.100q: %.100q cannot be the name of a ClusterProperty: %s", text, name, strings.Join(problems, "; "))
	}
	return Term{Property: name, Value: value}, ""
}

// Audience returns the audience of an export of a cluster with some annotations: nil if they list
// no clusters. Clusters are listed by their ID, whether they are known or not, or by a property that
// they are known to have. If there are too many, those with an ID come first. An annotation that is
// not valid lists none: it was stored before it would have been refused, and its author did not
// mean all.
func Audience(annotations map[string]string, own string, properties func() map[string]map[string]string) *clusterset.Audience {
	clusters, given, _ := Parse(annotations, multicluster.ExportToAnnotation)
	if !given {
		return nil
	}
	var ids []string
	for _, term := range clusters {
		if term.ID != "" && term.ID != own {
			ids = append(ids, term.ID)
		}
	}
	if clusters.ByProperty() {
		known := properties()
		for _, id := range slices.Sorted(maps.Keys(known)) {
			if id != own && !slices.Contains(ids, id) && clusters.Include(id, known[id]) {
				ids = append(ids, id)
			}
		}
	}
	return clusterset.NewAudience(ids[:min(len(ids), clusterset.MaxAudience)]...)
}

// Imports returns whether a namespace with some annotations imports from a cluster. An annotation
// that is not valid lists none.
func Imports(annotations map[string]string, properties func() map[string]map[string]string) func(cluster string) bool {
	clusters, given, _ := Parse(annotations, clusterset.ImportFromAnnotation)
	if !given {
		return func(string) bool { return true }
	}
	var known map[string]map[string]string
	if clusters.ByProperty() {
		known = properties()
	}
	return func(cluster string) bool { return clusters.Include(cluster, known[cluster]) }
}

// NamesProperties reports whether an annotation may list clusters by their ClusterProperties. It
// takes no time for those that do not exist.
func NamesProperties(annotations map[string]string, annotation string) bool {
	return strings.Contains(annotations[annotation], "=")
}

// Include reports whether a cluster with the given properties is one of them.
func (c Clusters) Include(id string, properties map[string]string) bool {
	return slices.ContainsFunc(c, func(term Term) bool { return term.Matches(id, properties) })
}

// PropertiesOf returns the ClusterProperties of a member.
func PropertiesOf(member *clustersetv1alpha1.Member) map[string]string {
	properties := map[string]string{}
	for _, property := range member.Status.Properties {
		properties[property.Name] = property.Value
	}
	return properties
}

// UnlistedHub returns the first hub on the relay path to a cluster that is not listed, so that it does not
// pass on what is for the cluster. It is empty if all are.
func UnlistedHub(path, listed []string) string {
	for _, hub := range path[min(len(path), 1):] {
		if !slices.Contains(listed, hub) {
			return hub
		}
	}
	return ""
}

// String returns the list as it is annotated.
func (c Clusters) String() string {
	var terms []string
	for _, term := range c {
		terms = append(terms, term.String())
	}
	return strings.Join(terms, ",")
}

// ByProperty reports whether the clusters depend on ClusterProperties.
func (c Clusters) ByProperty() bool {
	return slices.ContainsFunc(c, func(term Term) bool { return term.ID == "" })
}
