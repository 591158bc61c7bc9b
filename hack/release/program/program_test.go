// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const source = `package main

import "fmt"

var version = "unknown"

func main() { fmt.Println(version) }
`

// module writes a module with one program to a new directory.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/hello\n\ngo 1.26\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// R340, R341: a program depends on its source and version, and not on the directory or the
// environment that it was built in; it is static.
func TestProgramIsStaticAndTheSameWhereverItIsBuilt(t *testing.T) {
	var built [][]byte
	for _, flags := range []string{"", "-race", "-tags=x"} {
		t.Setenv("GOFLAGS", flags)
		file := filepath.Join(t.TempDir(), "hello")
		b := Builder{Dir: module(t), LDFlags: "-s -w -X main.version=v1.2.3"}
		if err := b.Build(t.Context(), ".", v1.Platform{OS: "linux", Architecture: "amd64"}, file); err != nil {
			t.Fatal(err)
		}
		if err := CheckStatic(file); err != nil {
			t.Error(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, data)
	}
	for i := range built {
		if !bytes.Equal(built[i], built[0]) {
			t.Errorf("build %d differs from the first one", i)
		}
	}
	if !bytes.Contains(built[0], []byte("v1.2.3")) {
		t.Error("program does not contain its version")
	}
}

// R341.
func TestDynamicProgramIsRefused(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err) // make runs it, too
	}
	if err := CheckStatic(shell); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("got %v", err)
	}
}
