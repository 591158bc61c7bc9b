// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// R341, R347: every text is listed once, with all modules that it applies to.
func TestTextsOfAllLicenses(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"a/LICENSE": mit, "b/LICENSE": mit + "\n", "b/NOTICE": "a notice", "b/forked/LICENSE": bsd, "b/forked/p.go": "package p"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var output strings.Builder
	for _, dir := range []string{"b/forked", "a", "b"} {
		module := map[string]any{"Path": "example.com/" + dir[:1], "Version": "v1", "Dir": filepath.Join(root, dir[:1])}
		if err := json.NewEncoder(&output).Encode(map[string]any{"Dir": filepath.Join(root, dir), "Module": module}); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := decode([]byte(output.String()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := texts(packages)
	line := strings.Repeat("=", 80) + "\n"
	want := line + "example.com/a v1\nexample.com/b v1\n\n" + mit + "\n\n" + line + "example.com/b v1\n\n" + bsd + "\n\n" + line + "example.com/b v1\n\na notice\n\n"
	if err != nil || got != want {
		t.Errorf("got\n%s\nwant\n%s (%v)", got, want, err)
	}
}
