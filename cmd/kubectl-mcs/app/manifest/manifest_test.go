// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

func claimFile(path, value string) File {
	return File{Path: path, Title: "Claims of east", Objects: []runtime.Object{plan.NewClaim("a", value), plan.NewClaim("b", value)}}
}

// R418: files are readable by the user only, and are replaced only if they are earlier
// versions.
func TestFilesAreWrittenAndReplaced(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "new", "east")
	path := filepath.Join(directory, "3-claims.yaml")
	for _, value := range []string{"one", "two"} {
		if err := Write([]File{claimFile(path, value)}); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		expect.Text(t, `
# Claims of east
---
apiVersion: multicluster.k8s.io/v1
kind: ClusterClaim
metadata:
  name: a
spec:
  value: `+value+`
---
apiVersion: multicluster.k8s.io/v1
kind: ClusterClaim
metadata:
  name: b
spec:
  value: `+value+`
`, string(content))
	}
	for path, mode := range map[string]os.FileMode{path: 0o600, directory: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: got %v, %v, want mode %v", path, info.Mode(), err, mode)
		}
	}
	for _, name := range []string{"mine.yaml", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if others, err := Others(directory, []File{claimFile(path, "")}); err != nil || !slices.Equal(others, []string{"mine.yaml"}) {
		t.Errorf("got others %v, %v", others, err)
	}
	if entries, _ := filepath.Glob(filepath.Join(directory, ".*")); len(entries) > 0 {
		t.Errorf("got leftovers %v", entries)
	}
}

// R418: nothing is written if any file is somebody else's.
func TestForeignFilesAreNotReplaced(t *testing.T) {
	for name, occupy := range map[string]func(path string) error{
		"another file":  func(path string) error { return os.WriteFile(path, []byte("# Claims of east, by me\n"), 0o600) },
		"an empty file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a directory":   func(path string) error { return os.Mkdir(path, 0o700) },
		"a link": func(path string) error {
			if err := Write([]File{claimFile(path+".linked", "one")}); err != nil {
				return err
			}
			return os.Symlink(path+".linked", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "claims.yaml")
			if err := occupy(path); err != nil {
				t.Fatal(err)
			}
			first := filepath.Join(filepath.Dir(path), "first.yaml")
			expect.Error(t, Write([]File{claimFile(first, "one"), claimFile(path, "one")}), path+" exists and is not an earlier version of the file: remove it, or choose another directory")
			if _, err := os.Stat(first); !os.IsNotExist(err) {
				t.Errorf("another file was written (%v)", err)
			}
		})
	}
}

// R418: a credential in plain text does not replace an encrypted one.
func TestEncryptedFilesAreNotReplaced(t *testing.T) {
	for name, change := range map[string]func(content string) string{
		"values": func(content string) string {
			return strings.Replace(content, "value: one", "value: ENC[AES256_GCM,data:b25l,type:str]", 1)
		},
		"metadata": func(content string) string { return content + "sops:\n  version: 3.9.0\n" },
		"comments": func(content string) string {
			_, rest, _ := strings.Cut(content, "\n")
			return "#ENC[AES256_GCM,data:b25l,type:comment]\n" + rest
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "claims.yaml")
			if err := Write([]File{claimFile(path, "one")}); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := change(string(content))
			if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			expect.Error(t, Write([]File{claimFile(path, "two")}), path+" was encrypted, and would be replaced by plain text: choose another directory")
			if content, err := os.ReadFile(path); err != nil || string(content) != changed {
				t.Errorf("got %s, %v", content, err)
			}
		})
	}
}

// faulty is an object that does something else when it is encoded.
type faulty struct {
	runtime.Object
	encode func() error
}

func (f faulty) MarshalJSON() ([]byte, error) { return []byte("{}"), f.encode() }

// R418: if a file cannot be written, earlier versions of all of them stay as they are.
func TestFailedWriteChangesNothing(t *testing.T) {
	directory := t.TempDir()
	first, second := filepath.Join(directory, "east", "first.yaml"), filepath.Join(directory, "west", "second.yaml")
	if err := Write([]File{claimFile(first, "one")}); err != nil {
		t.Fatal(err)
	}
	failing := claimFile(second, "two")
	failing.Objects = []runtime.Object{faulty{encode: func() error { return errors.New("disk full") }}}
	expect.Error(t, Write([]File{claimFile(first, "two"), failing}), "write "+second, "disk full")
	if content, err := os.ReadFile(first); err != nil || !strings.Contains(string(content), "value: one") {
		t.Errorf("got %s, %v", content, err)
	}
	for _, pattern := range []string{"*/.*", "west/*"} {
		if left, _ := filepath.Glob(filepath.Join(directory, pattern)); len(left) > 0 {
			t.Errorf("got leftovers %v", left)
		}
	}
}

// R418, R423: if a file cannot get its name, new ones are removed, and the others are named.
func TestFailedWriteIsUndone(t *testing.T) {
	directory := t.TempDir()
	former, created, last := filepath.Join(directory, "former.yaml"), filepath.Join(directory, "new.yaml"), filepath.Join(directory, "last.yaml")
	if err := Write([]File{claimFile(former, "one")}); err != nil {
		t.Fatal(err)
	}
	failing := claimFile(last, "two")
	failing.Objects = []runtime.Object{faulty{encode: func() error { return os.Mkdir(last, 0o700) }}} // in the way, after the check
	expect.Error(t, Write([]File{claimFile(former, "two"), claimFile(created, "two"), failing}), "write "+last, "these files were replaced already: "+former)
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) != 2 { // the former file, and what is in the way
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestDirectoriesThatCannotBeCreatedAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Check([]File{claimFile(filepath.Join(file, "east", "claims.yaml"), "one"), claimFile(filepath.Join(file, "west", "claims.yaml"), "two")})
	expect.Error(t, err, file, "not a directory", "choose another one with --output-dir")
	if count := strings.Count(err.Error(), "not a directory"); count != 1 {
		t.Errorf("the error is repeated %d times: %v", count, err)
	}
}
