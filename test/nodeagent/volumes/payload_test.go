// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

// visible returns the visible files of a volume: contents by path.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, entry := range entries {
		if entry.Name()[:1] == "." && entry.Name()[1:2] == "." {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(target, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(file)
			relative, _ := filepath.Rel(target, file)
			content[filepath.Join(filepath.Base(path), relative)] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return content
}

func write(t *testing.T, dir string, p payload) {
	t.Helper()
	if err := p.write(dir, ownership{}); err != nil {
		t.Fatal(err)
	}
}

func TestPayloadReplacesTheContent(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, payload{"a": {"1", 0o644}, "sub/b": {"2", 0o600}, "sub/c": {"3", 0o644}})
	if diff := cmp.Diff(map[string]string{"a": "1", "sub/b": "2", "sub/c": "3"}, visible(t, dir)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "sub/b")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	write(t, dir, payload{"sub/b": {"changed", 0o644}, "new": {"", 0o644}})
	if diff := cmp.Diff(map[string]string{"sub/b": "changed", "new": ""}, visible(t, dir)); diff != "" {
		t.Error(diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 { // new, sub, ..data and its target
		t.Errorf("entries are %v, %v", entries, err)
	}
}

func TestSamePayloadIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	content := func() string {
		t.Helper()
		target, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	write(t, dir, payload{"a": {"1", 0o644}})
	before := content()
	write(t, dir, payload{"a": {"1", 0o644}})
	if content() != before {
		t.Error("the same content was written again")
	}
	write(t, dir, payload{"a": {"1", 0o600}})
	if content() == before {
		t.Error("changed mode was not written")
	}
}

func TestGroupMayRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("changing the owner of files requires root")
	}
	dir := t.TempDir()
	owner := ownership{group: ptr.To[int64](2000)}
	for range 2 {
		if err := (payload{"a": {"1", 0o400}}).write(dir, owner); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "a"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o440 || info.Sys().(*syscall.Stat_t).Gid != 2000 {
			t.Errorf("mode %v, group %d", info.Mode(), info.Sys().(*syscall.Stat_t).Gid)
		}
	}
}

func TestPathsStayInTheVolume(t *testing.T) {
	dir := t.TempDir()
	volume := filepath.Join(dir, "volume")
	write(t, dir, payload{})
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, volume, payload{"key": {"1", 0o644}})
	if err := os.Symlink("/etc", filepath.Join(volume, "out")); err != nil {
		t.Fatal(err)
	}
	set := &Set{paths: map[string]string{"v": volume}}
	path, err := set.Path("v", "key")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "1" {
		t.Errorf("%s: %q, %v", path, data, err)
	}
	if path, err := set.Path("v", "new/deep"); err != nil || path != volume+"/new/deep" {
		t.Errorf("%s, %v", path, err)
	}
	for _, bad := range []string{"../x", "/etc", "out", "out/passwd"} {
		if path, err := set.Path("v", bad); err == nil {
			t.Errorf("%s leads to %s", bad, path)
		}
	}
	if _, err := set.Path("unknown", ""); err == nil {
		t.Error("an unknown volume has a path")
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was created outside of the volume")
	}
}
