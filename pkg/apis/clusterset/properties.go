// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Limits of the ClusterProperties of a Member: other clusters read them every few seconds, and
// store them in ClusterProfiles.
const (
	MaxProperties = 16
	// MaxPropertyValue is in characters, as that of ClusterProfiles.
	MaxPropertyValue = 1024
	// MaxPropertyBytes is the size of all names and values together.
	MaxPropertyBytes = 8 << 10
)

// Fits reports whether the ClusterProperty can be that of a Member. Its name is one that a
// ClusterClaim can have. Names that are reserved for Kubernetes, such as that of the cluster ID,
// could be mistaken for what this cluster knows of the member. Values are shown on terminals.
func (p ClusterProperty) Fits() bool {
	return len(validation.IsDNS1123Subdomain(p.Name)) == 0 && multicluster.ReservedDomain(p.Name) == "" &&
		p.Value != "" && utf8.RuneCountInString(p.Value) <= MaxPropertyValue &&
		utf8.ValidString(p.Value) && !strings.ContainsFunc(p.Value, func(r rune) bool { return !unicode.IsPrint(r) })
}

// FittingProperties returns the first ones of a list that fit into a Member together.
func FittingProperties(list []ClusterProperty) []ClusterProperty {
	var fitting []ClusterProperty
	names, size := sets.New[string](), 0
	for _, property := range list {
		if len(fitting) == MaxProperties {
			break
		}
		more := len(property.Name) + len(property.Value)
		if size+more > MaxPropertyBytes || names.Has(property.Name) || !property.Fits() {
			continue
		}
		names.Insert(property.Name)
		size += more
		fitting = append(fitting, property)
	}
	return fitting
}
