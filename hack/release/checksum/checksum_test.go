// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"os"
	"path/filepath"
	"testing"
)

// R343.
func TestChecksumsOfDownloadedFilesAreListed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a/c", "d", "e", Name} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("hello\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(dir, "d"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, Name))
	const sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	if want := sum + "  b\n" + sum + "  e\n"; err != nil || string(got) != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if err := Check(dir, "d"); err != nil {
		t.Error(err)
	}
}
