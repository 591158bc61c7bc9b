// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent replaces the kubelet, the container runtime and the scheduler: it
// registers one Node, binds Pods to nodes, and runs those of its Node as processes.
package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
)

// Config configures an agent.
type Config struct {
	// Kubernetes is the client configuration of a cluster administrator.
	Kubernetes *rest.Config
	// NodeName is the name of the Node.
	NodeName string
	// Schedule makes the agent the scheduler of the cluster. One agent of a cluster must be.
	Schedule bool
	// Zone is the topology.kubernetes.io/zone of the Node, or empty.
	Zone string
	// NodeIPs are the addresses of the Node, the primary family first.
	NodeIPs []string
	// PodCIDRs are the Pod networks of the Node, one per family, the primary family
	// first.
	PodCIDRs []string
	// Bridge is the interface that connects the Pods.
	Bridge string
	// RootDir is the directory of all state.
	RootDir string
	// Images is the directory of images, or empty.
	Images string
	// ClusterDNS are the addresses of the cluster's DNS servers.
	ClusterDNS []string
	// ClusterDomain is the domain of the cluster.
	ClusterDomain string
	// API configures the kubelet API. Without a certificate, it is not served.
	API kubeletapi.Config
}

// Complete validates the configuration and makes paths absolute and free of symbolic
// links, as mounting requires.
func (c *Config) Complete() error {
	if c.NodeName == "" {
		return errors.New("--node-name is required")
	}
	if c.RootDir == "" {
		return errors.New("--root-dir is required")
	}
	if len(c.NodeIPs) == 0 {
		return errors.New("--node-ips is required")
	}
	if len(c.PodCIDRs) == 0 {
		return errors.New("--pod-cidrs is required")
	}
	for _, list := range [][]string{c.NodeIPs, c.ClusterDNS} {
		for _, address := range list {
			if _, err := netip.ParseAddr(address); err != nil {
				return fmt.Errorf("invalid address: %w", err)
			}
		}
	}
	if c.API.CertFile != "" && (c.API.KeyFile == "" || c.API.ClientCAFile == "") {
		return errors.New("--tls-cert-file requires --tls-private-key-file and --client-ca-file")
	}
	for _, path := range []*string{&c.RootDir, &c.Images} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		if *path, err = filepath.EvalSymlinks(absolute); err != nil {
			return fmt.Errorf("directory must exist: %w", err)
		}
	}
	return nil
}

// podsDir returns the directory with a subdirectory per running Pod.
func (c *Config) podsDir() string { return filepath.Join(c.RootDir, "pods") }
