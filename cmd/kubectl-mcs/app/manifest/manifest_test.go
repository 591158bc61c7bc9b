// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"slices"
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

func TestDirectoriesThatCannotBeCreatedAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect.Error(t, Check([]File{claimFile(filepath.Join(file, "east", "claims.yaml"), "one")}), file, "not a directory")
}
