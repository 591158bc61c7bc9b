// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestName(t *testing.T) {
	for image, want := range map[string]string{
		"foo":                                 "foo",
		"foo:v1":                              "foo",
		"team/foo:v1":                         "foo",
		"registry:5000/foo":                   "foo",
		"registry:5000/team/foo:v1":           "foo",
		"foo@sha256:0123":                     "foo",
		"registry.example/foo:v1@sha256:0123": "foo",
		"":                                    "",
		"foo/":                                "",
	} {
		if got := Name(image); got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}

func TestProgramIsAnExecutableFile(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"program": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]bool{
		"team/program:v1": true,
		"text":            false,
		"directory":       false,
		"absent":          false,
		"..":              false,
	} {
		found, err := Directory(dir).Find(image)
		if err != nil || (found != nil) != want {
			t.Errorf("%q: got %v (%v), want %v", image, found, err, want)
		}
		if found != nil && (found.Root != "" || !slices.Equal(found.Entrypoint, []string{"program"})) {
			t.Errorf("%q: got %+v", image, found)
		}
	}
	if found, err := Directory("").Find("program"); found != nil || err != nil {
		t.Errorf("%v was found without a directory (%v)", found, err)
	}
}
