// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet runs several clusters in one network namespace (package
// netns): control planes without nodes, each with mcs-apiserver installed, and
// links between them that a test can cut.
package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/tcplink"
)

// atOnce is how many clusters start in parallel. More would only compete for
// processors.
const atOnce = 2

// Config configures a Fleet.
type Config struct {
	// Root is the root of the repository.
	Root string
	// Dir is the directory for the data and logs of all clusters.
	Dir string
	// Names are the IDs of the clusters.
	Names []string
	// ClusterSet is the ClusterSet that all clusters join. If empty, they do not join.
	ClusterSet string
	// Configure, if set, changes the configuration of a cluster, such as flags or
	// the number of mcs-apiserver replicas.
	Configure func(id string, plane *controlplane.Config, installed *installation.Config)
	// Progress reports progress. By default, progress is printed in a test that
	// runs with -v.
	Progress func(format string, args ...any)
}

// Fleet is a set of clusters that are independent of each other until they join.
type Fleet struct {
	// Clusters are in the order of Config.Names.
	Clusters []*Cluster
}

// Cluster is one cluster of a fleet.
type Cluster struct {
	// ID identifies the cluster in the fleet. It is the cluster ID in the member
	// Secrets of its peers.
	ID string
	*installation.Installation
	// Clientset is the project's clientset for the administrator.
	Clientset versioned.Interface
	// Links are the links from this cluster to the kube-apiservers of its peers,
	// by cluster ID. The first Join with a peer creates the link.
	Links map[string]*tcplink.Link

	number int
}

// Start starts clusters and returns when the API of each is available.
func Start(ctx context.Context, config Config) (*Fleet, error) {
	if config.Progress == nil {
		config.Progress = printIfVerbose()
	}
	f := &Fleet{}
	group, starting := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for number, id := range config.Names {
		if f.Cluster(id) != nil {
			return nil, fmt.Errorf("duplicate cluster name %q", id)
		}
		c := &Cluster{ID: id, Links: map[string]*tcplink.Link{}, number: number + 1}
		f.Clusters = append(f.Clusters, c)
	}
	for _, c := range f.Clusters {
		group.Go(func() error {
			if err := c.start(starting, config); err != nil {
				return fmt.Errorf("start cluster %s: %w", c.ID, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, f.Stop())
	}
	if config.ClusterSet != "" {
		if err := f.JoinAll(ctx, config.ClusterSet); err != nil {
			return nil, errors.Join(err, f.Stop())
		}
	}
	return f, nil
}

func printIfVerbose() func(string, ...any) {
	if !testing.Testing() {
		return func(string, ...any) {}
	}
	if !flag.Parsed() { // TestMain runs before flags are parsed
		flag.Parse()
	}
	start := time.Now()
	return func(format string, args ...any) {
		if testing.Verbose() {
			fmt.Printf("%5.1fs %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
		}
	}
}

// Cluster returns the cluster with the given ID, or nil.
func (f *Fleet) Cluster(id string) *Cluster {
	for _, c := range f.Clusters {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Stop stops all clusters.
func (f *Fleet) Stop() error {
	var group errgroup.Group
	errs := make([]error, len(f.Clusters))
	for number, c := range f.Clusters {
		group.Go(func() error {
			errs[number] = c.stop()
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// start starts the cluster with an address and Service networks of its own.
func (c *Cluster) start(ctx context.Context, config Config) error {
	dir := filepath.Join(config.Dir, c.ID)
	planeConfig := controlplane.Config{
		Bin: filepath.Join(config.Root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes"),
		Address:      fmt.Sprintf("10.250.0.%d", c.number),
		ServiceCIDRs: []string{fmt.Sprintf("10.%d.0.0/16", 150+c.number), fmt.Sprintf("fd00:150:%d::/112", c.number)},
		Progress: func(format string, args ...any) {
			config.Progress("%s: %s", c.ID, fmt.Sprintf(format, args...))
		},
	}
	installConfig := installation.Config{Root: config.Root, Dir: dir}
	if config.Configure != nil {
		config.Configure(c.ID, &planeConfig, &installConfig)
	}
	plane, err := controlplane.Start(ctx, planeConfig)
	if err != nil {
		return err
	}
	installConfig.Plane = plane
	if c.Installation, err = installation.Install(ctx, installConfig); err != nil {
		return errors.Join(err, plane.Stop())
	}
	admin, err := plane.AdminConfig()
	if err != nil {
		return err
	}
	admin.WarningHandler = rest.NoWarnings{}
	if c.Clientset, err = versioned.NewForConfig(admin); err != nil {
		return err
	}
	plane.Progress("ready")
	return nil
}

func (c *Cluster) stop() error {
	for _, l := range c.Links {
		l.Close()
	}
	if c.Installation == nil { // the cluster did not start
		return nil
	}
	return errors.Join(c.Stop(), c.Plane.Stop())
}
