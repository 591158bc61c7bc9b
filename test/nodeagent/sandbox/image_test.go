// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// looker is a program that prints what it sees.
const looker = `package main

import (
	"fmt"
	"os"
)

func main() {
	entries, err := os.ReadDir("/")
	for _, entry := range entries {
		fmt.Print(entry.Name(), " ")
	}
	note, _ := os.ReadFile("/etc/note")
	mounted, _ := os.ReadFile("/data/file")
	fmt.Println(err, os.Getuid(), os.Args, string(note), string(mounted))
	fmt.Println(os.WriteFile("/new", nil, 0o644), os.WriteFile("/data/new", nil, 0o644))
}
`

// image builds an image with one static program.
func image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(looker), 0o644); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "a,b:c") // characters that options of overlays cannot have
	command := exec.Command("go", "build", "-o", filepath.Join(root, "bin", "looker"), filepath.Join(dir, "main.go"))
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return root
}

// R348: a container of an image sees the file system of the image, and nothing of the host
// but what is mounted. It does not change the image.
func TestContainerSeesItsImageOnly(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		s, output := spec(t, "")
		s.Image, s.ReadOnlyRoot = image(t), readOnly
		s.Process.Args, s.Process.Env, s.Process.UID = []string{"looker", "x"}, []string{"PATH=/bin"}, 65532
		volume := t.TempDir()
		if err := os.Chmod(volume, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(volume, "file"), []byte("mounted"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.Mounts, s.Files = []Mount{{Source: volume, Target: "/data"}}, map[string]string{"/etc/note": "a note"}
		if readOnly {
			s.Process.UID = 0
		}
		if code := run(t, s); code != 0 {
			t.Errorf("exit code %d", code)
		}
		want := "bin data dev etc proc sys <nil> 65532 [looker x] a note mounted\nopen /new: permission denied <nil>\n"
		if readOnly {
			want = "bin data dev etc proc sys <nil> 0 [looker x] a note mounted\nopen /new: read-only file system <nil>\n"
		}
		if got := output.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if entries, err := os.ReadDir(s.Image); err != nil || len(entries) != 1 {
			t.Errorf("the image has %v (%v)", entries, err)
		}
	}
}

// R348: programs of the host cannot be run in a container of an image.
func TestContainerOfAnImageHasNoShell(t *testing.T) {
	s, _ := spec(t, "true")
	s.Image = image(t)
	if _, err := testRuntime(t).Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), `"sh": executable file not found`) {
		t.Errorf("got %v", err)
	}
}
