// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
)

// groups are the versions whose types are listed, with the prefix of their models, and which of
// their kinds. Other served versions have the same kinds.
var groups = []struct {
	version, prefix string
	kinds           []string
}{
	{"multicluster.x-k8s.io/v1beta1", "io.x-k8s.multicluster.v1beta1.", []string{"ServiceExport", "ServiceImport"}},
	{"multicluster.x-k8s.io/v1alpha1", "io.x-k8s.multicluster.v1alpha1.", []string{"ClusterProfile", "PlacementDecision"}},
	{"multicluster.k8s.io/v1", "io.k8s.multicluster.v1.", []string{"ClusterClaim"}},
	{"about.k8s.io/v1beta1", "io.k8s.about.v1beta1.", []string{"ClusterProperty"}},
	{"clusterset.mcs-apiserver.io/v1alpha1", "io.mcs-apiserver.clusterset.v1alpha1.", []string{"Member", "ExportedService", "ExportedEndpointSlice"}},
}

// writeTypes writes all fields of all kinds.
func writeTypes(page *bytes.Buffer) {
	page.WriteString("## API types\n\nOf every version of a group, the newest that has a kind is listed. `kubectl explain` shows the same for all of them.\n\n")
	definitions := openapi.GetOpenAPIDefinitions(func(model string) spec.Ref { return spec.MustCreateRef(model) })
	for _, group := range groups {
		for _, kind := range group.kinds {
			model := definitions[group.prefix+kind]
			fmt.Fprintf(page, "### %s (%s)\n\n%s\n\n| Field | Type | Description |\n| --- | --- | --- |\n", kind, group.version, cell(model.Schema.Description))
			writeFields(page, definitions, group.prefix, "", model.Schema)
			page.WriteString("\n")
		}
	}
}

// writeFields writes the fields of a type, and below each those of its own type if that is one of the group.
func writeFields(page *bytes.Buffer, definitions map[string]common.OpenAPIDefinition, prefix, path string, schema spec.Schema) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if path == "" && (name == "kind" || name == "apiVersion" || name == "metadata") {
			continue
		}
		field := schema.Properties[name]
		kind, model := typeOf(field)
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", path+name, kind, cell(field.Description))
		if strings.HasPrefix(model, prefix) {
			writeFields(page, definitions, prefix, path+name+".", definitions[model].Schema)
		}
	}
}

// typeOf returns the type of a field, and the model that it, or each of its items, has.
func typeOf(field spec.Schema) (kind, model string) {
	switch {
	case field.Ref.String() != "":
		model = field.Ref.String()
		return model[strings.LastIndexByte(model, '.')+1:], model
	case len(field.AllOf) == 1:
		return typeOf(field.AllOf[0])
	case field.Items != nil && field.Items.Schema != nil:
		kind, model = typeOf(*field.Items.Schema)
		return "list of " + kind, model
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		kind, model = typeOf(*field.AdditionalProperties.Schema)
		return "map to " + kind, model
	}
	return cmp.Or(strings.Join(field.Type, ", "), "any"), ""
}
