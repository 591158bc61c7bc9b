// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command openapi-schema prints the OpenAPI v2 document of our types, from
// which the apply configurations take their merge keys.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
)

func main() {
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }
	definitions := spec.Definitions{}
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		schema := definition.Schema
		// A few types, such as IntOrString, have another schema in v2 than in v3.
		if v2, ok := schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			schema = v2
		}
		definitions[name] = schema
	}
	document := &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger:     "2.0",
		Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "mcs-apiserver", Version: "unversioned"}},
		Definitions: definitions,
	}}
	if err := json.NewEncoder(os.Stdout).Encode(document); err != nil {
		log.Fatalf("print the OpenAPI document: %v", err)
	}
}
