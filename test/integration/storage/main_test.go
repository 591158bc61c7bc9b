// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage tests the storages of mcs-apiserver: ConfigMaps of the host cluster
// against a real kube-apiserver, an external etcd and the embedded etcd.
package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

var (
	// plane is the control plane that all tests share. Each test has a storage
	// namespace of its own.
	plane *controlplane.ControlPlane
	// externalEtcd and embeddedEtcd are the addresses of etcd servers that all tests
	// share. Each test has a key prefix of its own.
	externalEtcd, embeddedEtcd string
)

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

func run(m *testing.M) (code int, err error) {
	root, err := repository.Root()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mcs-storage-")
	if err != nil {
		return 1, err
	}
	defer func() {
		if code == 0 && err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "component logs are in", dir)
		}
	}()
	ctx, bin := context.Background(), filepath.Join(root, "bin", "kubernetes")
	if plane, err = controlplane.Start(ctx, controlplane.Config{Bin: bin, Dir: filepath.Join(dir, "kubernetes")}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	external, err := startEtcd(ctx, bin, filepath.Join(dir, "etcd"))
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, external.Stop(time.Minute)) }()
	embedded, err := etcd.StartEmbedded(ctx, dir)
	if err != nil {
		return 1, err
	}
	defer embedded.Close()
	embeddedEtcd = etcd.EmbeddedEndpoint(dir)
	return m.Run(), nil
}

// startEtcd starts an etcd beside that of the control plane, which compacts its own.
func startEtcd(ctx context.Context, bin, dir string) (*process.Process, error) {
	const peers = "http://127.0.0.1:12380"
	externalEtcd = "http://127.0.0.1:12379"
	started, err := process.Start(process.Command{
		Name: "etcd", Path: filepath.Join(bin, "etcd"), Log: dir + ".log",
		Args: []string{
			"--data-dir=" + dir, "--unsafe-no-fsync", "--watch-progress-notify-interval=1s",
			"--listen-client-urls=" + externalEtcd, "--advertise-client-urls=" + externalEtcd,
			"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=default=" + peers,
		},
	})
	if err != nil {
		return nil, err
	}
	return started, started.Await(ctx, time.Minute, controlplane.Healthy(externalEtcd+"/health"))
}
