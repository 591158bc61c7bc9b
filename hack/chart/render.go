// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart renders the Helm chart as Helm does, and the kustomizations beside it, so that
// tests can compare what they install. It is a module of its own, because of what Helm
// depends on; `go tool -modfile=hack/chart/go.mod helm` is Helm itself.
package chart

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Object is an object of a manifest.
type Object map[string]any

// Key identifies an object in a cluster.
func (o Object) Key() string {
	metadata, _ := o["metadata"].(map[string]any)
	return fmt.Sprintf("%v %v %v/%v", o["apiVersion"], o["kind"], metadata["namespace"], metadata["name"])
}

// Rendered is what Helm installs and what it prints.
type Rendered struct {
	Objects []Object
	Notes   string
}

// Render renders the chart in a directory or an archive for a namespace with values. These are
// written as in a values file.
func Render(chart, namespace, values string) (*Rendered, error) {
	loaded, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "any", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	rendered := &Rendered{}
	for name, text := range files {
		switch path.Ext(name) {
		case ".txt":
			rendered.Notes = text
		case ".yaml":
			objects, err := Parse(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			rendered.Objects = append(rendered.Objects, objects...)
		}
	}
	slices.SortFunc(rendered.Objects, func(a, b Object) int { return strings.Compare(a.Key(), b.Key()) })
	return rendered, nil
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// Parse returns the objects of a manifest.
func Parse(manifest string) ([]Object, error) {
	var objects []Object
	for _, document := range separator.Split(manifest, -1) {
		var object Object
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			return nil, err
		}
		if len(object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
