// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial runs the commands of docs/tutorial.md.
package tutorial

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// clusters are those that the tutorial starts.
var clusters *localcluster.Set

func TestMain(m *testing.M) {
	os.Exit(localcluster.RunTests(m, func(_ context.Context, set *localcluster.Set) error {
		clusters = set
		return nil
	}))
}

// script returns all commands of a page as one script.
func script(t *testing.T, page string) string {
	t.Helper()
	text := string(expect.Must(os.ReadFile(page))(t))
	var commands strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		commands.WriteString(block[1])
	}
	return commands.String()
}

// R440: all commands of the tutorial succeed, in their order and as one script: from building images
// and a chart, and installing them, to a response that a Pod of one cluster gets from one of the other.
func TestTutorialLeadsToAResponse(t *testing.T) {
	directory := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", script(t, filepath.Join(clusters.Root, "docs", "tutorial.md")))
	cmd.Dir = clusters.Root
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "CLUSTERSET_DIR="+clusters.Dir,
		"DIST="+filepath.Join(directory, "dist"), "MEMBERS="+filepath.Join(directory, "members"), "PLATFORMS=linux/"+runtime.GOARCH)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	expect.Contains(t, string(output), "\nHello from web-", "curl -sS --retry 5 http://web.demo.svc.clusterset.local")
	if all := expect.Must(clusters.Clusters())(t); len(all) != 0 {
		t.Errorf("%d clusters are left", len(all))
	}
}
