// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command openapi-gen is the openapi-gen of k8s.io/kube-openapi restricted to
// the models that mcs-apiserver serves.
//
// The upstream command defines every type of every package it is given. The
// API types here refer to a handful of types of k8s.io/api/core/v1, whose other
// models would make up two thirds of the generated code. This command takes the
// same flags, treats the types of all packages that are not --readonly-pkg as
// roots, and defines only what is reachable from them.
package main

import (
	"log"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
	"k8s.io/gengo/v2/types"
	"k8s.io/kube-openapi/cmd/openapi-gen/args"
	"k8s.io/kube-openapi/pkg/generators"
)

// serverTypes are the types that k8s.io/apiserver refers to in the paths it
// serves for every API: discovery, /version, and the bodies of requests and
// responses. The server does not start if one of them is missing.
var serverTypes = []types.Name{
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "APIGroup"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "APIGroupList"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "APIResourceList"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "APIVersions"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "DeleteOptions"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "Patch"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "Status"},
	{Package: "k8s.io/apimachinery/pkg/apis/meta/v1", Name: "WatchEvent"},
	{Package: "k8s.io/apimachinery/pkg/version", Name: "Info"},
}

func main() {
	arguments := args.New()
	arguments.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if err := arguments.Validate(); err != nil {
		log.Fatalf("invalid arguments: %v", err)
	}
	boilerplate, err := gengo.GoBoilerplate(arguments.GoHeaderFile, gengo.StdBuildTag, gengo.StdGeneratedBy)
	if err != nil {
		log.Fatalf("failed to read the boilerplate: %v", err)
	}
	execute(func(c *generator.Context) []generator.Target {
		return generators.GetModelNameTargets(c, arguments, boilerplate)
	})
	execute(func(c *generator.Context) []generator.Target {
		targets := generators.GetOpenAPITargets(c, arguments, boilerplate)
		served := servedTypes(c, arguments.ReadOnlyPkgs)
		for i := range targets {
			targets[i] = filtered{Target: targets[i], keep: served}
		}
		return targets
	})
}

func execute(targets func(*generator.Context) []generator.Target) {
	if err := gengo.Execute(generators.NameSystems(), generators.DefaultNameSystem(), targets, gengo.StdBuildTag, pflag.Args()); err != nil {
		log.Fatalf("failed to generate: %v", err)
	}
}

// filtered is a target reduced to the types in keep.
type filtered struct {
	generator.Target
	keep map[*types.Type]bool
}

func (f filtered) Filter(c *generator.Context, t *types.Type) bool {
	return f.keep[t] && f.Target.Filter(c, t)
}

// servedTypes returns serverTypes, the types of all input packages that are not
// in readOnly, and everything that these refer to.
func servedTypes(c *generator.Context, readOnly []string) map[*types.Type]bool {
	served := map[*types.Type]bool{}
	for _, name := range serverTypes {
		visit(c.Universe.Type(name), served)
	}
	for _, input := range c.Inputs {
		if slices.Contains(readOnly, input) {
			continue
		}
		for _, t := range c.Universe[input].Types {
			visit(t, served)
		}
	}
	return served
}

// visit adds t and everything that t refers to.
func visit(t *types.Type, served map[*types.Type]bool) {
	if t == nil || served[t] {
		return
	}
	served[t] = true
	visit(t.Elem, served)
	visit(t.Key, served)
	visit(t.Underlying, served)
	for _, member := range t.Members {
		visit(member.Type, served)
	}
}
