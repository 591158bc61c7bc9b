// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// versionTimeout is the timeout for reading the version of an etcd server.
const versionTimeout = 20 * time.Second

// Connect returns a client. It outlives the context; the caller must close it.
func Connect(ctx context.Context, config storagebackend.TransportConfig) (*clientv3.Client, error) {
	tlsInfo := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
	options := clientv3.Config{Context: context.WithoutCancel(ctx), Endpoints: config.ServerList, DialTimeout: versionTimeout}
	if !tlsInfo.Empty() || config.TrustedCAFile != "" {
		tlsConfig, err := tlsInfo.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("load TLS files for etcd (--etcd-cafile, --etcd-certfile, --etcd-keyfile): %w", err)
		}
		options.TLS = tlsConfig
	}
	client, err := clientv3.New(options)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", config.ServerList, err)
	}
	return client, nil
}

// CheckVersion returns an error if any server of the client is too old to
// support watch progress requests reliably: reads from the watch cache could be
// stale or block forever.
func CheckVersion(ctx context.Context, client *clientv3.Client) error {
	var errs []error
	for _, server := range client.Endpoints() {
		errs = append(errs, checkServer(ctx, client, server))
	}
	return errors.Join(errs...)
}

func checkServer(ctx context.Context, client clientv3.Maintenance, server string) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	status, err := client.Status(ctx, server)
	if err != nil {
		return fmt.Errorf("read version of etcd at %s: %w", server, err)
	}
	if err := supportsWatchProgress(status.Version); err != nil {
		return fmt.Errorf("etcd at %s: %w", server, err)
	}
	return nil
}

// supportsWatchProgress returns an error for releases in which a progress request
// of one watch affected others. That was fixed in 3.4.31, 3.5.13 and 3.6.
func supportsWatchProgress(release string) error {
	v, err := version.ParseSemantic(release)
	if err != nil {
		return fmt.Errorf("invalid version %q: %w", release, err)
	}
	fixed35 := version.MustParseSemantic("3.5.13")
	fixed34 := version.MustParseSemantic("3.4.31")
	if v.AtLeast(fixed35) || v.AtLeast(fixed34) && v.LessThan(version.MustParseSemantic("3.5.0-0")) {
		return nil
	}
	return fmt.Errorf("version %s has unreliable watch progress notifications; use 3.4.31, 3.5.13 or 3.6, or a later patch release", release)
}
