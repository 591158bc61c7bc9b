// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

const (
	patience     = controlplane.Patience
	stopPatience = 20 * time.Second
)

// Components of a cluster, in the order in which they start.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	NodeAgent         = "node-agent"
	Proxy             = "kube-proxy"
)

// nodeName is the same in every cluster, as is common: a node of one cluster
// must not be mistaken for a node of another.
const nodeName = "node-1"

// components are the programs of one cluster: its control plane, its node agent and
// kube-proxy. They run in the network of the cluster.
type components struct {
	admin   Admin
	network *fabric.Network
	zone    string
	// root is the root of the repository, images the directory of the images of Pods.
	root, images string
}

// prepare returns the cluster's control plane after creating its certificates.
func (c *components) prepare() (*controlplane.ControlPlane, error) {
	plane, err := controlplane.Prepare(controlplane.Config{
		Bin: c.admin.bin, Dir: c.admin.dir,
		Host: c.network.NodeIPs()[0], Advertise: c.network.NodeIPs()[0], ServiceCIDRs: c.network.ServiceCIDRs(),
		APIServerFlags: []string{"--allow-privileged"},
	})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(c.admin.dir, "kubelet.crt")); err == nil {
		return plane, nil
	}
	return plane, plane.Issue("kubelet", pki.Subject{Name: nodeName, IPs: []net.IP{net.ParseIP(c.network.NodeIPs()[0]), net.ParseIP(c.network.NodeIPs()[1])}})
}

// all returns all components of the cluster with their readiness checks.
func (c *components) all() ([]controlplane.Component, error) {
	plane, err := c.prepare()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(c.admin.dir, name) }
	return append(plane.Components(),
		// Before kube-proxy, which waits for its node.
		controlplane.Component{
			Command: process.Command{
				Name: NodeAgent, Path: filepath.Join(c.root, "bin", "test", "node-agent"), Log: file("node-agent.log"),
				Args: []string{
					"--kubeconfig=" + c.admin.Kubeconfig(), "--node-name=" + nodeName, "--root-dir=" + file("node"),
					"--images=" + c.images, "--pod-cidrs=" + strings.Join(c.network.PodCIDRs(), ","), "--node-ips=" + strings.Join(c.network.NodeIPs(), ","),
					"--cluster-dns=" + strings.Join(c.network.DNSIPs(), ","), "--zone=" + c.zone,
					"--tls-cert-file=" + file("kubelet.crt"), "--tls-private-key-file=" + file("kubelet.key"), "--client-ca-file=" + file("ca.crt"),
				},
			},
			Ready: c.nodeReady,
		},
		controlplane.Component{
			Command: process.Command{
				Name: Proxy, Path: filepath.Join(c.admin.bin, "kube-proxy"), Log: file("kube-proxy.log"),
				Args: []string{
					"--kubeconfig=" + c.admin.Kubeconfig(), "--hostname-override=" + nodeName,
					"--proxy-mode=nftables", "--cluster-cidr=" + strings.Join(c.network.PodCIDRs(), ","),
					// Connection tracking is configured per machine, not per network namespace.
					"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
				},
			},
			Ready: controlplane.Healthy("http://" + c.network.NodeIPs()[0] + ":10256/livez"),
		},
	), nil
}

// nodeReady returns an error unless the cluster's node is ready.
func (c *components) nodeReady(ctx context.Context) error {
	config, err := c.admin.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("node is not ready")
}

// find returns a component by its name.
func (c *components) find(name string) (controlplane.Component, error) {
	components, err := c.all()
	if err != nil {
		return controlplane.Component{}, err
	}
	var names []string
	for _, component := range components {
		if component.Name == name {
			return component, nil
		}
		names = append(names, component.Name)
	}
	return controlplane.Component{}, fmt.Errorf("unknown component %q: use one of %s", name, strings.Join(names, ", "))
}

// start starts a component that is not running, and waits until it is ready.
func (c *components) start(ctx context.Context, component controlplane.Component) error {
	daemon := c.network.Daemon(component.Command)
	if err := daemon.Start(); err != nil {
		return err
	}
	return daemon.Await(ctx, patience, component.Ready)
}

// stop stops components in reverse order.
func (c *components) stop(ctx context.Context, components []controlplane.Component) error {
	var errs []error
	for _, component := range slices.Backward(components) {
		errs = append(errs, c.network.Daemon(component.Command).Stop(ctx, stopPatience))
	}
	return errors.Join(errs...)
}
