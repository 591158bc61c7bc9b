// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/openapi"
)

const root = "../.."

// R591: docs/reference.md has all commands, flags, fields and metrics of the code.
func TestReferenceIsUpToDate(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "elsewhere")
	want, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs/reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/reference.md is out of date: run 'make generate', and commit the result")
	}
	for _, part := range []string{
		"### kubectl mcs join\n", "| `--member-ttl duration` |", "| `--serving-ca-file string` |", "| `status.conditions` |",
		"| `mcs_apiserver_cluster_info` | gauge | cluster, clusterset |",
	} {
		if !bytes.Contains(want, []byte(part)) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

// R591: every kind of the API is listed, in one of its versions.
func TestAllKindsAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, group := range groups {
		for _, kind := range group.kinds {
			listed[kind] = true
		}
	}
	for model, definition := range openapi.GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} }) {
		properties := definition.Schema.Properties
		_, isKind := properties["kind"]
		_, isList := properties["items"]
		_, isObject := properties["metadata"]
		if kind := model[strings.LastIndexByte(model, '.')+1:]; isKind && isObject && !isList && !strings.HasPrefix(model, "io.k8s.apimachinery.") && !listed[kind] {
			t.Errorf("kind %s is not listed", model)
		}
	}
}

// R591: every flag, field and metric has a description.
func TestEverythingIsDescribed(t *testing.T) {
	page, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") && strings.HasSuffix(line, "|  |\n") {
			t.Errorf("no description: %s", line)
		}
		if strings.HasPrefix(line, "| `mcs_") && !strings.HasSuffix(line, ". |\n") {
			t.Errorf("the description of a metric is no sentence: %s", line)
		}
	}
}

func TestMetricsAreReadFromCode(t *testing.T) {
	dir := t.TempDir()
	for name, code := range map[string]string{
		"cmd/a.go": `package a
var a = metrics.NewGaugeVec(&metrics.GaugeOpts{Namespace: "n", Subsystem: "s", Name: "a", Help: "One, " + "two."}, []string{"x", "y"})
var b = metrics.NewDesc("n_b_total", "B.", nil, nil, metrics.ALPHA, "")`,
		"cmd/a_test.go": `package a
var c = metrics.NewCounter(&metrics.CounterOpts{Name: "tests"})`,
		"pkg/d.go": `package d
var d = metrics.NewHistogram(&metrics.HistogramOpts{Name: "d", Help: "D."})`,
	} {
		write(t, filepath.Join(dir, name), code)
	}
	found, err := metricsIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	writeMetrics(&page, found)
	for _, row := range []string{"| `d` | histogram |  | D. |", "| `n_b_total` | counter |  | B. |", "| `n_s_a` | gauge | x, y | One, two. |"} {
		if !strings.Contains(page.String(), row+"\n") {
			t.Errorf("%q is missing in\n%s", row, page.String())
		}
	}
	if len(found) != 3 {
		t.Errorf("found %+v", found)
	}
	write(t, filepath.Join(dir, "pkg/d.go"), "package d\nvar d = metrics.NewGauge(options)")
	if _, err := metricsIn(dir); err == nil || !strings.Contains(err.Error(), "d.go:2") {
		t.Errorf("a metric that cannot be read: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
