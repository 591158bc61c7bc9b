// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterpreference defines how a ServiceExport says which clusters should
// answer.
package clusterpreference

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Tier is a group of clusters that are equally preferred. Which clusters it has depends on
// the cluster of the client.
type Tier string

const (
	// Own is the tier of the cluster of the client.
	Own Tier = "cluster"
	// All is the tier of all clusters. It is the last one of every preference, and never
	// written.
	All Tier = "all"

	propertyPrefix = "property:"
)

const (
	// MaxTiers is how many tiers a preference may have.
	MaxTiers = 8
	// MaxTierLength is how many bytes a tier may have: those of the longest name of a
	// ClusterProperty.
	MaxTierLength = len(propertyPrefix) + validation.DNS1123SubdomainMaxLength
	// DefaultMinReady is how many ready endpoints a tier needs unless something else is said.
	DefaultMinReady = 1

	maxText = MaxTiers * (MaxTierLength + len(", "))
)

// Property returns the name of the ClusterProperty whose value the clusters of a tier
// share. ok is false for other tiers.
func (t Tier) Property() (name string, ok bool) {
	return strings.CutPrefix(string(t), propertyPrefix)
}

// Preference is which clusters should answer.
type Preference struct {
	// Tiers are in the order of preference, without All, which follows them.
	Tiers []Tier
	// MinReady is how many ready endpoints a tier needs to be used.
	MinReady int32
}

// String returns the tiers as they are annotated.
func (p Preference) String() string {
	texts := make([]string, len(p.Tiers))
	for i, tier := range p.Tiers {
		texts[i] = string(tier)
	}
	return strings.Join(texts, ",")
}

// Parse returns the preference that annotations express, nil if they express none, and
// everything that is wrong with them.
func Parse(annotations map[string]string) (*Preference, field.ErrorList) {
	path := field.NewPath("metadata", "annotations")
	minReady, errs := parseMinReady(annotations, path.Key(multicluster.PreferenceMinReadyAnnotation))
	text, given := annotations[multicluster.ClusterPreferenceAnnotation]
	if !given {
		return nil, errs
	}
	tiers, invalid := parseTiers(text, path.Key(multicluster.ClusterPreferenceAnnotation))
	if errs = append(invalid, errs...); len(errs) > 0 {
		return nil, errs
	}
	return &Preference{Tiers: tiers, MinReady: minReady}, nil
}

const howTo = "write cluster for the cluster of the client, property:NAME for those with the same value of a ClusterProperty, or several of them separated by commas; " +
	"clusters cannot be named by their ID"

func parseTiers(text string, path *field.Path) ([]Tier, field.ErrorList) {
	if len(text) > maxText {
		return nil, field.ErrorList{field.TooLong(path, "", maxText)}
	}
	if strings.TrimSpace(text) == "" {
		return nil, field.ErrorList{field.Invalid(path, text, "has no tiers; "+howTo+", or remove the annotation")}
	}
	parts := strings.Split(text, ",")
	if len(parts) > MaxTiers {
		return nil, field.ErrorList{field.Invalid(path, text, fmt.Sprintf("has %d tiers, and may have %d; remove some", len(parts), MaxTiers))}
	}
	var errs field.ErrorList
	tiers := make([]Tier, 0, len(parts))
	for _, part := range parts {
		tier := Tier(strings.TrimSpace(part))
		problem := tier.problem()
		if problem == "" && slices.Contains(tiers, tier) {
			problem = fmt.Sprintf("has tier %q more than once; remove all but the first", tier)
		}
		if problem != "" {
			errs = append(errs, field.Invalid(path, text, problem))
		}
		tiers = append(tiers, tier)
	}
	return tiers, errs
}

// problem returns what is wrong with a tier, and what to write instead. It is empty if
// nothing is.
func (t Tier) problem() string {
	name, isProperty := t.Property()
	switch {
	case t == Own:
		return ""
	case t == "":
		return "has an empty tier; remove the superfluous comma"
	case t == All:
		return fmt.Sprintf("tier %q follows the last one anyway; remove it", t)
	case !isProperty:
		return fmt.Sprintf("tier %q is unknown; %s", t, howTo)
	case name == "":
		return fmt.Sprintf("tier %q has no name; add that of a ClusterProperty, such as property:region.example.com", t)
	case multicluster.ReservedDomain(name) != "":
		return fmt.Sprintf("tier %q: properties in the domain %s are not compared; for the cluster of the client write %s, otherwise name a ClusterProperty in your own domain",
			t, multicluster.ReservedDomain(name), Own)
	}
	if strings.Contains(name, "/") {
		return fmt.Sprintf("tier %q: labels of nodes are not compared; for the cluster of the client write %s, otherwise name a ClusterProperty in your own domain", t, Own)
	}
	if property, value, given := strings.Cut(name, "="); given {
		return fmt.Sprintf("tier %q: values are not given, because those of %q are compared with that of the cluster of the client; remove %q", t, property, "="+value)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Sprintf("tier %q: %q cannot be the name of a ClusterProperty: %s", t, name, strings.Join(problems, "; "))
	}
	return ""
}

// OfImport returns the preference that the annotations of a ServiceImport show, nil if they show
// none. It may have tiers of newer releases.
func OfImport(annotations map[string]string) *Preference {
	text := annotations[multicluster.ClusterPreferenceAnnotation]
	if text == "" {
		return nil
	}
	preference := &Preference{MinReady: DefaultMinReady}
	for part := range strings.SplitSeq(text, ",") {
		preference.Tiers = append(preference.Tiers, Tier(part))
	}
	if minReady, errs := parseMinReady(annotations, nil); len(errs) == 0 {
		preference.MinReady = minReady
	}
	return preference
}

func parseMinReady(annotations map[string]string, path *field.Path) (int32, field.ErrorList) {
	text, given := annotations[multicluster.PreferenceMinReadyAnnotation]
	if !given {
		return DefaultMinReady, nil
	}
	value, err := strconv.ParseUint(text, 10, 31)
	if err != nil || value == 0 {
		return 0, field.ErrorList{field.Invalid(path, text, "must be a positive integer, such as 2; remove the annotation if one ready endpoint is enough")}
	}
	return int32(value), nil
}
