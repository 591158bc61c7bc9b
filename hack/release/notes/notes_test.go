// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package notes

import (
	"slices"
	"testing"
)

// repository makes a repository with commits, of which those with a version are tagged.
func repository(t *testing.T, commits ...[2]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "test@example.com")
	}
	run := func(args ...string) {
		t.Helper()
		if _, err := git(dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("init", "--quiet")
	for _, commit := range commits {
		run("commit", "--quiet", "--allow-empty", "-m", commit[0]+"\n\nBody.")
		if commit[1] != "" {
			run("tag", commit[1])
		}
	}
	return dir
}

// R347: the notes list what changed since the version before.
func TestNotesListTheCommitsSinceTheLastTag(t *testing.T) {
	for _, test := range []struct {
		name    string
		commits [][2]string
		since   string
		want    []string
	}{
		{"first version", [][2]string{{"One", ""}, {"Two", "v0.1.0"}}, "", []string{"Two", "One"}},
		{"next version", [][2]string{{"One", "v0.1.0"}, {"Two", ""}, {"Three", "v0.2.0"}}, "v0.1.0", []string{"Three", "Two"}},
		{"not tagged yet", [][2]string{{"One", "v0.1.0"}, {"Two", ""}}, "v0.1.0", []string{"Two"}},
		{"other tags", [][2]string{{"One", "v0.1.0"}, {"Two", "nightly"}, {"Three", ""}}, "v0.1.0", []string{"Three", "Two"}},
	} {
		got, err := FromGit(repository(t, test.commits...), "HEAD")
		if err != nil || got.Since != test.since || !slices.Equal(got.Subjects, test.want) {
			t.Errorf("%s: got %+v (%v)", test.name, got, err)
		}
	}
}

// R347.
func TestNotes(t *testing.T) {
	got := Markdown("v0.2.0", []string{"registry.example.com/mcs-apiserver:v0.2.0@sha256:0123"}, Changes{Since: "v0.1.0", Subjects: []string{"Three", "Two"}})
	const want = "# mcs-apiserver v0.2.0\n\n" +
		"Install or upgrade with `kubectl apply -f mcs-apiserver-v0.2.0-default.yaml`. `SHA256SUMS` has the checksums of all files.\n\n" +
		"## Images\n\n- `registry.example.com/mcs-apiserver:v0.2.0@sha256:0123`\n\n" +
		"## Changes since v0.1.0\n\n- Three\n- Two\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
