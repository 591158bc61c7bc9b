// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
)

// R465: the definitions have the whole schemas of the types, so that `kubectl explain` shows
// them.
func TestDefinitionsHaveWholeSchemas(t *testing.T) {
	definitions, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, definition := range definitions {
		names = append(names, definition.GetName())
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		for _, version := range versions {
			version := version.(map[string]any)
			for _, field := range []string{"spec", "status"} {
				properties, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", field, "properties")
				if err != nil || version["name"] == "v1beta1" && (!found || len(properties) == 0) {
					t.Errorf("%s %s: no properties of %s: %v", definition.GetName(), version["name"], field, err)
				}
			}
			data, err := json.Marshal(version)
			if err != nil {
				t.Fatal(err)
			}
			for _, forbidden := range []string{`"$ref"`, "x-kubernetes-group-version-kind", "x-kubernetes-patch"} {
				if strings.Contains(string(data), forbidden) {
					t.Errorf("%s %s has %s", definition.GetName(), version["name"], forbidden)
				}
			}
		}
	}
	if !slices.Equal(names, apiconflict.PublishedCRDs) {
		t.Errorf("got %v, want %v", names, apiconflict.PublishedCRDs)
	}
	ports, found, err := unstructured.NestedMap(definitions[1].Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any),
		"schema", "openAPIV3Schema", "properties", "spec", "properties", "ports")
	if !found || err != nil || ports["x-kubernetes-list-type"] == nil {
		t.Errorf("ports of ServiceImports: %v, %v", ports, err)
	}
}

func TestUnknownModelsAreRefused(t *testing.T) {
	if _, err := newSchemas().resolve(map[string]any{"items": map[string]any{"$ref": "missing"}}); err == nil || !strings.Contains(err.Error(), `items: no model "missing"`) {
		t.Errorf("got %v", err)
	}
}
