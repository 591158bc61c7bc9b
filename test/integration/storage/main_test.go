// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage tests storage in ConfigMaps of the host cluster against
// a real kube-apiserver, with the storage tests of k8s.io/apiserver among others.
package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// plane is the control plane that all tests share. Each test has a storage
// namespace of its own.
var plane *controlplane.ControlPlane

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
	root, err := repository.Root()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mcs-storage-")
	if err != nil {
		return 1, err
	}
	plane, err = controlplane.Start(context.Background(), controlplane.Config{Bin: filepath.Join(root, "bin", "kubernetes"), Dir: dir})
	if err != nil {
		return 1, err
	}
	code := m.Run()
	if err := plane.Stop(); err != nil {
		return 1, err
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "component logs are in", dir)
		return code, nil
	}
	return code, os.RemoveAll(dir)
}
