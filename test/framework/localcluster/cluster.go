// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// Cluster is one cluster of a Set.
type Cluster struct {
	Name string
	// Admin is how the administrator uses the cluster.
	Admin
	network    *fabric.Network
	components *components
	artifacts  string
	report     func(format string, args ...any)
}

func (c *Cluster) progress(format string, args ...any) {
	c.report("%s: %s", c.Name, fmt.Sprintf(format, args...))
}

// up starts what is not running, installs DNS and mcs-apiserver, and returns when the cluster
// is ready.
func (c *Cluster) up(ctx context.Context) error {
	for _, disk := range c.disks() {
		if err := disk.mount(); err != nil {
			return err
		}
	}
	components, err := c.components.all()
	if err != nil {
		return err
	}
	for _, component := range components {
		if _, running := component.daemon().Running(); !running {
			c.progress("starting %s", component.Name)
		}
		if err := component.start(ctx); err != nil {
			return err
		}
	}
	c.progress("waiting for DNS")
	configuration := corefileClusterSet
	if c.artifacts == NoArtifacts {
		configuration = corefile
	}
	if err := installDNS(ctx, c.Admin, c.network.DNSIPs(), configuration); err != nil {
		return err
	}
	if c.artifacts != NoArtifacts {
		c.progress("installing artifacts/%s", c.artifacts)
		if err := installMCS(ctx, c.Admin, filepath.Join(c.components.root, "artifacts", c.artifacts)); err != nil {
			return err
		}
	}
	c.progress("ready")
	return nil
}

// down stops all components and removes the disks.
func (c *Cluster) down(ctx context.Context) error {
	components, err := c.components.all()
	if err != nil {
		return err
	}
	c.progress("stopping")
	errs := []error{stop(ctx, components), c.network.KillAll()}
	for _, disk := range c.disks() {
		errs = append(errs, disk.unmount())
	}
	return errors.Join(errs...)
}

// Component returns one of the cluster's components by its name.
func (c *Cluster) Component(name string) (process.Daemon, error) {
	component, err := c.components.find(name)
	if err != nil {
		return process.Daemon{}, err
	}
	return component.daemon(), nil
}

// Node returns the network of the node that runs the control plane.
func (c *Cluster) Node() *fabric.Node { return c.network.ControlPlane() }

// PodCIDRs returns the Pod networks of the cluster, IPv4 first.
func (c *Cluster) PodCIDRs() []string { return c.network.PodCIDRs() }

// DNSIPs returns the addresses of the cluster's DNS server, IPv4 first.
func (c *Cluster) DNSIPs() []string { return c.network.DNSIPs() }
