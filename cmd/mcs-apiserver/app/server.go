// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the command mcs-apiserver: it completes and validates
// the options, configures the server and runs it.
package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/internal/daemon"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/mcs-apiserver/app/options"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
)

const long = `mcs-apiserver extends the Kubernetes API of a cluster with the Multi-Cluster
Services API: ServiceExports, ServiceImports and ClusterClaims, and with the Cluster
Inventory API: ClusterProfiles and PlacementDecisions. Clients access it through the
kube-apiserver of the cluster, with which mcs-controller registers it.`

// NewCommand returns the command with its flags.
func NewCommand() *cobra.Command {
	opts := options.New()
	return daemon.NewCommand("mcs-apiserver", long, opts.Flags(), opts.Logs, func(ctx context.Context) error {
		completed, err := opts.Complete()
		if err != nil {
			return err
		}
		if err := completed.Validate(); err != nil {
			return err
		}
		return Run(ctx, completed)
	})
}

// Run serves until the context ends and then shuts down in order: active
// requests first, storage last.
func Run(ctx context.Context, opts options.Completed) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	if opts.Storage.Embedded() {
		klog.FromContext(ctx).Info("Starting embedded etcd", "dataDir", opts.Storage.DataDir)
		embedded, err := etcd.StartEmbedded(ctx, opts.Storage.DataDir)
		if err != nil {
			return err
		}
		defer embedded.Close()
		opts.Storage.Space = embedded
		go func() {
			select {
			case err := <-embedded.Failed():
				cancel(fmt.Errorf("embedded etcd failed: %w", err))
			case <-ctx.Done():
			}
		}()
	}

	config, err := opts.Config(ctx)
	if err != nil {
		return err
	}
	defer config.Storage.Close()
	go func() {
		select {
		case <-config.StorageReplaced:
			cancel(errors.New("storage was lost and can be used again: restart in order to read it anew"))
		case <-ctx.Done():
		}
	}()
	complete, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := complete.New()
	if err != nil {
		return err
	}
	if err := server.Run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
