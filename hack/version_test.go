// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// R345: the version of the programs is that of the tag, followed by the distance from it.
func TestVersionsComeFromTags(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "test@example.com")
	}
	run := func(name string, args ...string) string {
		t.Helper()
		command := exec.Command(name, args...)
		command.Dir = dir
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, output)
		}
		return string(output)
	}
	run("git", "init", "--quiet")
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"commit", "-m", "one", "--allow-empty"}, `v0\.0\.0-[0-9a-f]+`},
		{[]string{"tag", "v0.1.0"}, `v0\.1\.0`},
		{[]string{"commit", "-m", "two", "--allow-empty"}, `v0\.1\.0-1-g[0-9a-f]+`},
		{[]string{"tag", "nightly"}, `v0\.1\.0-1-g[0-9a-f]+`},
	} {
		run("git", step.args...)
		build := run("make", "--no-print-directory", "--dry-run", "build")
		for _, flag := range []string{"gitVersion=" + step.want, "gitCommit=[0-9a-f]{40}", "buildDate=2023-11-14T22:13:20Z"} {
			if !regexp.MustCompile(`version\.` + flag + `["\s]`).MatchString(build) {
				t.Errorf("after git %q, programs are built without %s:\n%s", step.args, flag, build)
			}
		}
	}
}
