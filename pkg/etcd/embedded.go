// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd provides the etcd that the server keeps its few stored objects
// in: an embedded one, or the assurance that a given one is new enough.
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
	// startTimeout is enough for replaying the log of a large store on a slow disk.
	startTimeout = time.Minute
	// maxSocketPath is what the kernel allows for the address of a unix socket.
	maxSocketPath = 107
)

// EmbeddedEndpoint is where the embedded etcd with this data directory listens.
// It is a unix socket and not a port: its directory is closed to other users,
// so no password or certificate is needed to keep them out.
func EmbeddedEndpoint(dataDir string) string {
	return (&url.URL{Scheme: "unix", Path: socketPath(dataDir)}).String()
}

// privateDir is closed to other users. It is not the data directory itself,
// which may be a volume that belongs to somebody else.
func privateDir(dataDir string) string {
	return filepath.Join(dataDir, "etcd")
}

func socketPath(dataDir string) string {
	return filepath.Join(privateDir(dataDir), "etcd.sock")
}

// ValidateDataDir says why an embedded etcd could not live in this directory.
func ValidateDataDir(dataDir string) error {
	switch {
	case dataDir == "":
		return errors.New("a data directory is needed for the embedded etcd")
	case !filepath.IsAbs(dataDir):
		return fmt.Errorf("data directory %q must be an absolute path", dataDir)
	case len(socketPath(dataDir)) > maxSocketPath:
		return fmt.Errorf("data directory %q is too long by %d characters: a unix socket has to fit into it",
			dataDir, len(socketPath(dataDir))-maxSocketPath)
	}
	return nil
}

// Embedded is a one-member etcd inside this process. Every write is on the
// disk before it is acknowledged.
type Embedded struct {
	etcd *embed.Etcd
}

// StartEmbedded starts etcd on a data directory, which is made if need be.
// It serves when StartEmbedded returns. The caller must Close it.
func StartEmbedded(ctx context.Context, dataDir string) (*Embedded, error) {
	if err := ValidateDataDir(dataDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(privateDir(dataDir), 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	// It may be there already, and with fsGroup a kubelet opens it to a group.
	if err := os.Chmod(privateDir(dataDir), 0o700); err != nil {
		return nil, fmt.Errorf("close the data directory to other users: %w", err)
	}
	// A socket that a killed process left behind would be taken for one in use.
	if err := os.Remove(socketPath(dataDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier run: %w", err)
	}
	etcd, err := embed.StartEtcd(embeddedConfig(dataDir))
	if err != nil {
		return nil, fmt.Errorf("start the embedded etcd in %s: %w", dataDir, err)
	}
	embedded := &Embedded{etcd: etcd}
	select {
	case <-etcd.Server.ReadyNotify():
		return embedded, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startTimeout):
		err = fmt.Errorf("not ready after %s: is another process using the directory?", startTimeout)
	}
	embedded.Close()
	return nil, fmt.Errorf("start the embedded etcd in %s: %w", dataDir, err)
}

func embeddedConfig(dataDir string) *embed.Config {
	config := embed.NewConfig()
	config.Name = "embedded"
	config.Dir = filepath.Join(privateDir(dataDir), "data")
	config.LogLevel = "warn"
	// The default counts only for the command line; here it would be zero, and
	// every request would be reported as a slow one.
	config.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	config.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socketPath(dataDir)}}
	// There are no peers and there will be none, so nothing listens for them.
	// A member cannot do without addresses to advertise; nobody ever dials these.
	nowhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = nowhere
	config.AdvertiseClientUrls = nowhere
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config
}

// Failed receives an error when etcd can go on no longer.
func (e *Embedded) Failed() <-chan error { return e.etcd.Err() }

// Close stops etcd and waits for it.
func (e *Embedded) Close() { e.etcd.Close() }
