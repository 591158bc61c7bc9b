// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
)

// The generated definitions are a selection (hack/openapi-gen): every model
// that a served type refers to must be part of it.
func TestOpenAPIDefinitionsReferOnlyToEachOther(t *testing.T) {
	const prefix = "#/definitions/"
	references := map[string]bool{}
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		references[name] = true
		return spec.MustCreateRef(prefix + name)
	})
	for name := range references {
		if _, ok := definitions[name]; !ok {
			t.Errorf("model %s is referred to but not defined", name)
		}
	}
	for name, definition := range definitions {
		for _, dependency := range definition.Dependencies {
			if _, ok := definitions[dependency]; !ok {
				t.Errorf("model %s depends on %s, which is not defined", name, dependency)
			}
		}
	}
	for gvk := range Scheme.AllKnownTypes() {
		if gvk.Version == "__internal" || !strings.HasSuffix(gvk.Kind, "List") || gvk.Group == "" {
			continue
		}
		object, err := Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		model, ok := object.(interface{ OpenAPIModelName() string })
		if !ok {
			t.Errorf("%s has no model name", gvk)
			continue
		}
		if _, ok := definitions[model.OpenAPIModelName()]; !ok {
			t.Errorf("%s is served but model %s is not defined", gvk, model.OpenAPIModelName())
		}
	}
}
