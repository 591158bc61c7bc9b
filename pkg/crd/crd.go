// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd describes ServiceExports and ServiceImports as CustomResourceDefinitions, for
// programs that wait for these before they use the API. They are inert: the APIServices of
// mcs-apiserver take all requests, and there are no objects behind them.
package crd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
)

// model is the name of the OpenAPI model of a type.
type model interface{ OpenAPIModelName() string }

// Definitions returns the definitions, with the schemas of the types that are served.
func Definitions() ([]*unstructured.Unstructured, error) {
	schemas := newSchemas()
	var definitions []*unstructured.Unstructured
	for _, resource := range []struct {
		kind       string
		shortNames []any
		// v1beta1 and v1alpha1 are its types in these versions.
		v1beta1, v1alpha1 model
	}{
		{"ServiceExport", []any{"svcex", "svcexport"}, multiclusterxv1beta1.ServiceExport{}, multiclusterxv1alpha1.ServiceExport{}},
		{"ServiceImport", []any{"svcim", "svcimport"}, multiclusterxv1beta1.ServiceImport{}, multiclusterxv1alpha1.ServiceImport{}},
	} {
		singular := strings.ToLower(resource.kind)
		var versions []any
		for _, version := range []struct {
			name string
			typ  model
		}{{"v1beta1", resource.v1beta1}, {"v1alpha1", resource.v1alpha1}} {
			root, err := schemas.root(version.typ.OpenAPIModelName())
			if err != nil {
				return nil, fmt.Errorf("schema of %s %s: %w", version.name, resource.kind, err)
			}
			versions = append(versions, map[string]any{
				"name": version.name, "served": true, "storage": len(versions) == 0,
				"schema": map[string]any{"openAPIV3Schema": root}, "subresources": map[string]any{"status": map[string]any{}},
			})
		}
		definition := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"group": multicluster.XGroupName, "scope": "Namespaced",
			"names": map[string]any{
				"plural": singular + "s", "singular": singular, "kind": resource.kind, "listKind": resource.kind + "List",
				"shortNames": resource.shortNames, "categories": []any{multicluster.Category},
			},
			"conversion": map[string]any{"strategy": "None"},
			"versions":   versions,
		}}}
		definition.SetAPIVersion(apiconflict.CRDResource.GroupVersion().String())
		definition.SetKind("CustomResourceDefinition")
		definition.SetName(singular + "s." + multicluster.XGroupName)
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// schemas resolves the references of OpenAPI models, which schemas of CRDs cannot have.
type schemas map[string]common.OpenAPIDefinition

func newSchemas() schemas {
	return openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
}

// root returns the schema of an object. That of its metadata is given.
func (s schemas) root(name string) (map[string]any, error) {
	root, err := s.model(name)
	if err != nil {
		return nil, err
	}
	if properties, ok := root["properties"].(map[string]any); ok {
		properties["metadata"] = map[string]any{"type": "object"}
	}
	return root, nil
}

func (s schemas) model(name string) (map[string]any, error) {
	found, ok := s[name]
	if !ok {
		return nil, fmt.Errorf("no model %q", name)
	}
	data, err := json.Marshal(found.Schema)
	if err != nil {
		return nil, err
	}
	var node map[string]any
	if err := json.Unmarshal(data, &node); err != nil {
		return nil, err
	}
	return s.resolve(node)
}

// kept are the extensions that CRDs have as well.
var kept = []string{"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"}

// resolve returns a schema without references, and without what CRDs cannot have.
func (s schemas) resolve(node map[string]any) (map[string]any, error) {
	if name, ok := node["$ref"].(string); ok {
		resolved, err := s.model(name)
		if err == nil && node["description"] != nil {
			resolved["description"] = node["description"]
		}
		return resolved, err
	}
	maps.DeleteFunc(node, func(key string, value any) bool {
		return strings.HasPrefix(key, "x-") && !slices.Contains(kept, key) || key == "default" && isZero(value)
	})
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := node[key].(map[string]any); ok {
			resolved, err := s.resolve(inner)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			node[key] = resolved
		}
	}
	properties, _ := node["properties"].(map[string]any)
	for name, property := range properties {
		inner, ok := property.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("property %s is a %T", name, property)
		}
		resolved, err := s.resolve(inner)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		properties[name] = resolved
	}
	return node, nil
}

// isZero reports whether a default is that of the Go type, which models have for all fields
// that are not pointers.
func isZero(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case string:
		return value == ""
	case float64:
		return value == 0
	case bool:
		return !value
	}
	return value == nil
}
