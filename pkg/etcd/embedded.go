// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd runs the embedded etcd and checks the version of an external one.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// startTimeout is long enough to replay the log of a large store on a slow disk.
	startTimeout = time.Minute
	// maxSocketPath is the maximum length of the path of a unix socket.
	maxSocketPath = 107
)

// EmbeddedEndpoint returns the endpoint of the embedded etcd with this data
// directory. It is a unix socket in a directory that other users cannot access,
// so that etcd needs neither a password nor a certificate.
func EmbeddedEndpoint(dataDir string) string {
	return (&url.URL{Scheme: "unix", Path: socketPath(dataDir)}).String()
}

// privateDir returns the directory that only this user can access. The data
// directory itself may be a volume with another owner.
func privateDir(dataDir string) string {
	return filepath.Join(dataDir, "etcd")
}

func socketPath(dataDir string) string {
	return filepath.Join(privateDir(dataDir), "etcd.sock")
}

// ValidateDataDir returns an error if the embedded etcd cannot use the directory.
func ValidateDataDir(dataDir string) error {
	switch {
	case dataDir == "":
		return errors.New("the embedded etcd requires a data directory")
	case !filepath.IsAbs(dataDir):
		return fmt.Errorf("data directory %q must be an absolute path", dataDir)
	case len(socketPath(dataDir)) > maxSocketPath:
		return fmt.Errorf("path of data directory %q must be at least %d characters shorter to leave room for a unix socket",
			dataDir, len(socketPath(dataDir))-maxSocketPath)
	}
	return nil
}

// Embedded is a single-member etcd in this process. Every write is synced to
// disk before it is acknowledged.
type Embedded struct {
	etcd *embed.Etcd
}

// StartEmbedded starts etcd with a data directory, which it creates if necessary.
// etcd is ready when StartEmbedded returns. The caller must call Close.
func StartEmbedded(ctx context.Context, dataDir string) (*Embedded, error) {
	if err := ValidateDataDir(dataDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(privateDir(dataDir), 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	// It may exist already, and with fsGroup the kubelet grants a group access.
	if err := os.Chmod(privateDir(dataDir), 0o700); err != nil {
		return nil, fmt.Errorf("restrict access to data directory: %w", err)
	}
	// A socket that a killed process left behind would appear to be in use.
	if err := os.Remove(socketPath(dataDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove socket of an earlier run: %w", err)
	}
	etcd, err := embed.StartEtcd(embeddedConfig(dataDir))
	if err != nil {
		return nil, fmt.Errorf("start embedded etcd in %s: %w", dataDir, err)
	}
	embedded := &Embedded{etcd: etcd}
	select {
	case <-etcd.Server.ReadyNotify():
		return embedded, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startTimeout):
		err = fmt.Errorf("not ready after %s; check whether another process uses the directory", startTimeout)
	}
	embedded.Close()
	return nil, fmt.Errorf("start embedded etcd in %s: %w", dataDir, err)
}

func embeddedConfig(dataDir string) *embed.Config {
	config := embed.NewConfig()
	config.Name = "embedded"
	config.Dir = filepath.Join(privateDir(dataDir), "data")
	config.LogLevel = "warn"
	// NewConfig does not set this default of the command line; with zero every
	// request would be logged as slow.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socketPath(dataDir)}}
	// A single member does not listen for peers. It requires addresses to
	// advertise, which are never dialed.
	unused := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = unused
	config.AdvertiseClientUrls = unused
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config
}

// Failed returns a channel that receives an error when etcd fails.
func (e *Embedded) Failed() <-chan error { return e.etcd.Err() }

// Close stops etcd and waits until it has stopped.
func (e *Embedded) Close() { e.etcd.Close() }
