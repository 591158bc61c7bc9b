// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests how the server is installed, registered, restarted,
// killed and removed. Its tests run in order on one control plane: each takes
// over what the one before has left.
package lifecycle

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

var config installation.Config

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	root, err := repository.Root()
	if err == nil {
		config.Root = root
		config.Dir, err = os.MkdirTemp("", "mcs-lifecycle-")
	}
	if err == nil {
		config.Plane, err = controlplane.Start(context.Background(), controlplane.Config{
			Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(config.Dir, "kubernetes"),
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := config.Plane.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 {
		_ = os.RemoveAll(config.Dir)
	} else {
		fmt.Fprintln(os.Stderr, "the logs of all components are in", config.Dir)
	}
	os.Exit(code)
}
