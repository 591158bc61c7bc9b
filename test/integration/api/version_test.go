// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// R345: all programs print the version that they were built with.
func TestProgramsPrintTheirVersion(t *testing.T) {
	root := expect.Must(repository.Root())(t)
	number := regexp.MustCompile(`v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\s`)
	versions := map[string]bool{}
	for _, program := range []string{"mcs-apiserver", "mcs-controller", "kubectl-mcs"} {
		output := string(expect.Must(exec.CommandContext(t.Context(), filepath.Join(root, "bin", program), "--version").Output())(t))
		version := number.FindString(output)
		if version == "" {
			t.Errorf("%s prints %q", program, output)
		}
		versions[version] = true
	}
	if len(versions) != 1 {
		t.Errorf("programs of one build have different versions: %v", versions)
	}
}
