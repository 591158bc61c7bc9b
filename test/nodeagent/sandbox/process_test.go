// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"first/tool": 0o644, "second/tool": 0o755, "work/local": 0o755} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/nowhere", "PATH=" + dir + "/first:" + dir + "/second"}
	work := filepath.Join(dir, "work")
	for program, want := range map[string]string{
		"tool":               dir + "/second/tool",
		dir + "/second/tool": dir + "/second/tool",
		"./local":            dir + "/work/local",
	} {
		if got, err := lookUp(program, work, env); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", program, got, err, want)
		}
	}
	for _, program := range []string{"", "absent", dir + "/first/tool", dir + "/first", "./absent"} {
		if got, err := lookUp(program, work, env); err == nil {
			t.Errorf("%q: got %q", program, got)
		}
	}
	if _, err := lookUp("absent", work, env); !strings.Contains(err.Error(), dir+"/second") {
		t.Errorf("error does not contain the search path: %v", err)
	}
}
