// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The check fails if the phrases cannot be searched for, as in a directory that is
// not a Git repository or that Git refuses to read.
func TestVerifyWords(t *testing.T) {
	script, err := os.ReadFile("verify-words.sh")
	if err != nil {
		t.Fatal(err)
	}
	// The variables that Git sets for its hooks refer to another repository.
	environ := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
	for _, test := range []struct {
		name, text string
		repository bool
		want       string // of the output of the failed check, empty for success
	}{
		{"no phrase", "The color of the bike shed.", true, ""},
		{"phrase", "The colo" + "ur of the bike shed.", true, "text.md:1:The colo" + "ur"},
		{"flags before a plugin", "Run `kubectl --context east -n=shop m" + "cs export web`.", true, "text.md:1:Run `kubectl --context east"},
		{"flags before another command", "Run `kubectl --context east describe deployment -n mcs-system mcs-apiserver`, or `kubectl mcs status`.", true, ""},
		{"not a repository", "The color of the bike shed.", false, "git grep failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range map[string]string{"hack/verify-words.sh": string(script), "text.md": test.text + "\n"} {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			run := func(name string, args ...string) (string, error) {
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir, cmd.Env = root, append(environ, "GIT_CEILING_DIRECTORIES="+filepath.Dir(root))
				output, err := cmd.CombinedOutput()
				return string(output), err
			}
			if test.repository {
				for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
					if output, err := run("git", args...); err != nil {
						t.Fatalf("git %v: %v: %s", args, err, output)
					}
				}
			}
			output, err := run("hack/verify-words.sh")
			if (err == nil) != (test.want == "") || !strings.Contains(output, test.want) {
				t.Errorf("got error %v and output %q, want %q", err, output, test.want)
			}
		})
	}
}
