// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const artifacts = "../../../artifacts"

var imageField = regexp.MustCompile(`(?m)^\s*(?:- )?image: (.*)$`)

// R347: the manifests of a release have the images of the release, and no others.
func TestManifestsHaveTheImagesOfTheRelease(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "mcs-apiserver-v1.2.3-")
	if err := WriteAll(artifacts, prefix, []Image{
		{"mcs-apiserver", "registry.example.com/team/mcs-apiserver", "v1.2.3"},
		{"mcs-controller", "registry.example.com/team/mcs-controller", "v1.2.3"},
	}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(prefix + "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"default", "embedded", "etcd"} {
		if !slices.Contains(files, prefix+want+".yaml") {
			t.Errorf("%s is not rendered: %q", want, files)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var images []string
		for _, match := range imageField.FindAllStringSubmatch(string(text), -1) {
			images = append(images, match[1])
		}
		want := []string{"registry.example.com/team/mcs-apiserver:v1.2.3", "registry.example.com/team/mcs-controller:v1.2.3"}
		if !slices.Equal(images, want) {
			t.Errorf("%s has images %q", file, images)
		}
		if !strings.Contains(string(text), "kind: Namespace\n") {
			t.Errorf("%s has no Namespace", file)
		}
	}
}

func TestDirectoryWithoutKustomizationsIsRefused(t *testing.T) {
	if err := WriteAll(t.TempDir(), "x", nil); err == nil {
		t.Error("nothing was rendered, without an error")
	}
}
