// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// versionTimeout limits reading the version of a server.
const versionTimeout = 10 * time.Second

// CheckVersion returns an error if a server of the client is too old to
// support watch progress requests reliably: reads from the watch cache could be
// stale or block forever. It requires a response of one server; others may be down.
func CheckVersion(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	servers := client.Endpoints()
	unreachable, old := make([]error, len(servers)), make([]error, len(servers))
	var running sync.WaitGroup
	for i, server := range servers {
		running.Go(func() { unreachable[i], old[i] = checkServer(ctx, client, server) })
	}
	running.Wait()
	if slices.Contains(unreachable, nil) {
		return errors.Join(old...)
	}
	return errors.Join(unreachable...)
}

func checkServer(ctx context.Context, client clientv3.Maintenance, server string) (unreachable, old error) {
	status, err := client.Status(ctx, server)
	if err != nil {
		return fmt.Errorf("read version of etcd at %s: %w", server, err), nil
	}
	if err := supportsWatchProgress(status.Version); err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", server, err)
	}
	return nil, nil
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
