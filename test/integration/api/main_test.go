// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api tests the API through a real kube-apiserver and its aggregator,
// with kubectl and upstream's clients.
package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// suite is the installation that most tests share. Each test has namespaces of its own.
var suite *installation.Installation

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx := context.Background()
	root, err := repository.Root()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mcs-integration-")
	if err != nil {
		return 1, err
	}
	plane, err := controlplane.Start(ctx, controlplane.Config{Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes")})
	if err != nil {
		return 1, err
	}
	suite, err = installation.Install(ctx, installation.Config{Plane: plane, Root: root, Dir: dir})
	if err != nil {
		return 1, err
	}
	// These tests write the status of ServiceExports themselves, which
	// mcs-controller would overwrite.
	if err := suite.StopController(); err != nil {
		return 1, err
	}
	code := m.Run()
	if err := suite.Stop(); err != nil {
		return 1, err
	}
	if err := plane.Stop(); err != nil {
		return 1, err
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "component logs are in", dir)
		return code, nil
	}
	return code, os.RemoveAll(dir)
}
