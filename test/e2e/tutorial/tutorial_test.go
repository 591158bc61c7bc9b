// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tutorial runs the commands of docs/tutorial.md.
package tutorial

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
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

// R440, R592: all commands of the tutorial succeed, in their order and as one script: from building images
// and a chart, and installing them, to a response that a Pod of one cluster gets from one of the other.
func TestTutorialLeadsToAResponse(t *testing.T) {
	directory := t.TempDir()
	shell := documents.Shell{Dir: clusters.Root, Env: append(os.Environ(), "MAKEFLAGS=", "CLUSTERSET_DIR="+clusters.Dir,
		"DIST="+filepath.Join(directory, "dist"), "MEMBERS="+filepath.Join(directory, "members"), "PLATFORMS=linux/"+runtime.GOARCH)}
	commands := documents.Assigned(t, clusters.Root)
	output := commands.Run(t, shell, commands.Of(t, "docs/tutorial.md")...)
	expect.Contains(t, output, "\nHello from web-")
	if all := expect.Must(clusters.Clusters())(t); len(all) != 0 {
		t.Errorf("%d clusters are left", len(all))
	}
}
