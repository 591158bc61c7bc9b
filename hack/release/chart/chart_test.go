// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/plugin"
)

const source = "../../../artifacts/chart"

// R351: the chart of a release has its version and its images, contains the manifests that
// the repository links to, and is the same file every time.
func TestChartOfARelease(t *testing.T) {
	files := [2]string{}
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), File("v1.2.3"))
		if err := Pack(source, files[i], "v1.2.3", "registry.example.com/team", time.Unix(1700000000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if name := filepath.Base(files[0]); name != "mcs-apiserver-1.2.3.tgz" {
		t.Errorf("file is %s", name)
	}
	first, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(files[1]); err != nil || !bytes.Equal(first, second) {
		t.Errorf("two files of the same chart differ (%v)", err)
	}
	content, err := plugin.Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mcs-apiserver/Chart.yaml":                   "\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"mcs-apiserver/values.yaml":                  "\n  registry: \"registry.example.com/team\"\n",
		"mcs-apiserver/templates/deployment.yaml":    "kind: Deployment",
		"mcs-apiserver/files/admission-account.yaml": "account.mcs-apiserver.io",
		"mcs-apiserver/files/kustomization.yaml":     "resources:",
		"mcs-apiserver/values.schema.json":           `"additionalProperties": false`,
		"mcs-apiserver/templates/NOTES.txt":          "kubectl mcs join",
	} {
		if !strings.Contains(string(content[name]), want) {
			t.Errorf("%s does not contain %q:\n%s", name, want, content[name])
		}
	}
}

func TestChartWithoutAVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte("name: mcs-apiserver\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Pack(dir, filepath.Join(t.TempDir(), "x.tgz"), "v1.2.3", "", time.Time{})
	if err == nil || !strings.Contains(err.Error(), "Chart.yaml has 0 lines that match") {
		t.Errorf("got %v", err)
	}
}
