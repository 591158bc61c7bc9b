// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notes writes release notes from the subjects of commits.
package notes

import (
	"fmt"
	"os/exec"
	"strings"
)

// Changes are the commits of a release.
type Changes struct {
	// Since is the version before; empty for the first one.
	Since string
	// Subjects are those of the commits, the newest first.
	Subjects []string
}

// FromGit returns the changes of a commit since the tag before it.
func FromGit(dir, revision string) (Changes, error) {
	var changes Changes
	commits := revision
	// Without a tag before, all commits are changes.
	if before, err := git(dir, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", revision+"^"); err == nil {
		changes.Since = before
		commits = before + ".." + revision
	}
	log, err := git(dir, "log", "--no-merges", "--format=%s", commits)
	if err != nil {
		return Changes{}, err
	}
	if log != "" {
		changes.Subjects = strings.Split(log, "\n")
	}
	return changes, nil
}

func git(dir string, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir = dir
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(output)), nil
}

// Markdown returns the notes of a version, whose images have these names.
func Markdown(version string, images []string, changes Changes) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# mcs-apiserver %s\n\n", version)
	fmt.Fprintf(&text, "Install or upgrade with `kubectl apply -f mcs-apiserver-%s-default.yaml`. `SHA256SUMS` has the checksums of all files.\n\n", version)
	text.WriteString("## Images\n\n")
	for _, image := range images {
		fmt.Fprintf(&text, "- `%s`\n", image)
	}
	if changes.Since == "" {
		text.WriteString("\n## Changes\n\n")
	} else {
		fmt.Fprintf(&text, "\n## Changes since %s\n\n", changes.Since)
	}
	for _, subject := range changes.Subjects {
		fmt.Fprintf(&text, "- %s\n", subject)
	}
	return text.String()
}
