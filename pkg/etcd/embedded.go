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

// etcdDir returns the directory of etcd's own files.
func etcdDir(dataDir string) string {
	return filepath.Join(privateDir(dataDir), "data")
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
// disk before it is acknowledged. It keeps within a part of its volume: it
// compacts and defragments itself, and refuses writes other than deletions
// while it is full.
type Embedded struct {
	etcd        *embed.Etcd
	lock        *os.File
	maintenance *maintenance
	stop        context.CancelFunc
	stopped     chan struct{}
}

// StartEmbedded starts etcd with a data directory, which it creates if necessary.
// etcd is ready when StartEmbedded returns. The caller must call Close.
func StartEmbedded(ctx context.Context, dataDir string) (*Embedded, error) {
	if err := prepare(dataDir); err != nil {
		return nil, err
	}
	volume, err := volumeOf(dataDir)
	if err != nil {
		return nil, err
	}
	return start(ctx, dataDir, quotaFor(volume.size), volume.free)
}

// StartExistingEmbedded is StartEmbedded for a data directory that was used before.
func StartExistingEmbedded(ctx context.Context, dataDir string) (*Embedded, error) {
	if _, err := os.Stat(etcdDir(dataDir)); err != nil {
		return nil, fmt.Errorf("data directory %s holds no objects of an embedded etcd; check that its volume is mounted: %w", dataDir, err)
	}
	return StartEmbedded(ctx, dataDir)
}

// prepare creates the private directory.
func prepare(dataDir string) error {
	if err := ValidateDataDir(dataDir); err != nil {
		return err
	}
	if err := os.MkdirAll(privateDir(dataDir), 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	// It may exist already, and with fsGroup the kubelet grants a group access.
	if err := os.Chmod(privateDir(dataDir), 0o700); err != nil {
		return fmt.Errorf("restrict access to data directory: %w", err)
	}
	return nil
}

// start starts etcd in a prepared directory on a volume with some free space.
func start(ctx context.Context, dataDir string, quota, free int64) (*Embedded, error) {
	lock, err := occupy(ctx, dataDir)
	if err != nil {
		return nil, err
	}
	etcd, err := embed.StartEtcd(embeddedConfig(dataDir, quota, free))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", dataDir, err), lock.Close())
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(startTimeout):
		err = fmt.Errorf("not ready after %s", startTimeout)
	}
	if err != nil {
		etcd.Close()
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", dataDir, err), lock.Close())
	}
	e := &Embedded{etcd: etcd, lock: lock, maintenance: &maintenance{server: etcd.Server, dataDir: dataDir, quota: quota}, stopped: make(chan struct{})}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(e.stopped)
		e.maintenance.run(ctx)
	}()
	return e, nil
}

func embeddedConfig(dataDir string, quota, free int64) *embed.Config {
	config := embed.NewConfig()
	config.Name = "embedded"
	config.Dir = etcdDir(dataDir)
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

	config.QuotaBackendBytes = quota
	config.MaxWalFiles = maxWALFiles
	// The write-ahead log is kept from the last snapshot on, and the latest writes also
	// in memory for followers, which do not exist. A write has up to 1.5 MiB.
	config.SnapshotCount = 100
	config.SnapshotCatchUpEntries = 100
	config.BootstrapDefragThresholdMegabytes = startDefragmentation(databaseSize(config.Dir), free)
	return config
}

// databaseSize returns zero for a database that does not exist yet.
func databaseSize(dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, "member", "snap", "db"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// Failed returns a channel that receives an error when etcd fails.
func (e *Embedded) Failed() <-chan error { return e.etcd.Err() }

var _ Space = (*Embedded)(nil)

// Refusing implements Space.
func (e *Embedded) Refusing() bool { return e.maintenance.refusing() }

// ExplainFull implements Space.
func (e *Embedded) ExplainFull() string {
	u, err := e.maintenance.usage()
	if err != nil {
		return fmt.Sprintf("embedded etcd in %s is full: %v", e.maintenance.dataDir, err)
	}
	return u.explain(e.maintenance.dataDir)
}

// Close stops etcd and waits until it has stopped.
func (e *Embedded) Close() {
	e.stop()
	<-e.stopped
	e.etcd.Close()
	_ = e.lock.Close() // the lock ends in any case
}
