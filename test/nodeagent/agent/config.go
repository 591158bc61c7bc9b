// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is a stand-in for kubelet, container runtime and scheduler: it
// keeps one Node, binds all Pods to it, and runs them as processes.
package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
)

// Config is what an agent has to know.
type Config struct {
	// Kubernetes is how to reach the API server, with all rights.
	Kubernetes *rest.Config
	// NodeName is the name of the Node.
	NodeName string
	// Zone is its topology.kubernetes.io/zone, or empty.
	Zone string
	// NodeIPs are its addresses, the primary family first.
	NodeIPs []string
	// PodCIDRs are the networks of its Pods, one for each family, the primary
	// family first.
	PodCIDRs []string
	// Bridge is the interface that connects the Pods.
	Bridge string
	// RootDir takes all state.
	RootDir string
	// Images is the directory with the programs of images, or empty.
	Images string
	// ClusterDNS are the addresses of the cluster's DNS servers.
	ClusterDNS []string
	// ClusterDomain is the domain of the cluster.
	ClusterDomain string
	// API is the kubelet API. Without a certificate it is not served.
	API kubeletapi.Config
}

// Complete checks the configuration and makes the paths absolute and free of
// links, as those that mount them need them.
func (c *Config) Complete() error {
	if c.NodeName == "" {
		return errors.New("give the Node a name with --node-name")
	}
	if c.RootDir == "" {
		return errors.New("give a directory for the state with --root-dir")
	}
	if len(c.NodeIPs) == 0 {
		return errors.New("give the addresses of the node with --node-ips")
	}
	if len(c.PodCIDRs) == 0 {
		return errors.New("give the networks of the Pods with --pod-cidrs")
	}
	for _, list := range [][]string{c.NodeIPs, c.ClusterDNS} {
		for _, address := range list {
			if _, err := netip.ParseAddr(address); err != nil {
				return fmt.Errorf("an address is none: %w", err)
			}
		}
	}
	if c.API.CertFile != "" && (c.API.KeyFile == "" || c.API.ClientCAFile == "") {
		return errors.New("the kubelet API needs --tls-private-key-file and --client-ca-file besides --tls-cert-file")
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
			return fmt.Errorf("a directory has to exist: %w", err)
		}
	}
	return nil
}

// podsDir has a directory for each Pod that runs.
func (c *Config) podsDir() string { return filepath.Join(c.RootDir, "pods") }
