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

// onNode returns the name of a component of a node: node-agent and kube-proxy on the first
// node, node-agent-2 and kube-proxy-2 on the second, and so on.
func onNode(component string, node *fabric.Node) string {
	if suffix := strings.TrimPrefix(node.Name(), "node"); suffix != "-1" {
		return component + suffix
	}
	return component
}

// component is a program of a cluster, and the node that it runs on.
type component struct {
	controlplane.Component
	node *fabric.Node
}

func (c component) daemon() process.Daemon { return c.node.Daemon(c.Command) }

// start starts the component unless it is running, and waits until it is ready.
func (c component) start(ctx context.Context) error {
	if err := c.daemon().Start(); err != nil {
		return err
	}
	return c.daemon().Await(ctx, patience, c.Ready)
}

// components are the programs of one cluster: its control plane, and the node agent and the
// kube-proxy of every node.
type components struct {
	admin   Admin
	network *fabric.Network
	zone    string
	// proxyMode is the mode of kube-proxy.
	proxyMode string
	// root is the root of the repository, images the directory of the images of Pods.
	root, images string
}

// prepare returns the cluster's control plane after creating its certificates.
func (c *components) prepare() (*controlplane.ControlPlane, error) {
	host := c.network.ControlPlane().IPs()[0]
	config := controlplane.Config{
		Bin: c.admin.bin, Dir: c.admin.dir, Host: host, Advertise: host, ServiceCIDRs: c.network.ServiceCIDRs(),
		APIServerFlags: []string{"--allow-privileged"},
	}
	if len(c.network.Nodes) > 1 {
		config.ControllerManagerFlags = []string{"--node-monitor-grace-period=20s", "--node-monitor-period=2s"}
	}
	plane, err := controlplane.Prepare(config)
	if err != nil {
		return nil, err
	}
	for _, node := range c.network.Nodes {
		name := onNode("kubelet", node)
		if _, err := os.Stat(filepath.Join(c.admin.dir, name+".crt")); err == nil {
			continue
		}
		if err := plane.Issue(name, pki.Subject{Name: node.Name(), IPs: []net.IP{net.ParseIP(node.IPs()[0]), net.ParseIP(node.IPs()[1])}}); err != nil {
			return nil, err
		}
	}
	return plane, nil
}

// all returns all components of the cluster with their readiness checks.
func (c *components) all() ([]component, error) {
	plane, err := c.prepare()
	if err != nil {
		return nil, err
	}
	var all []component
	for _, program := range plane.Components() {
		if program.Name == "kube-apiserver" && len(c.network.Nodes) > 1 {
			// It notices within 2 seconds, not 45, that a node was cut off.
			program.Env = append(program.Env, "HTTP2_READ_IDLE_TIMEOUT_SECONDS=1", "HTTP2_PING_TIMEOUT_SECONDS=1")
		}
		all = append(all, component{program, c.network.ControlPlane()})
	}
	for _, node := range c.network.Nodes {
		// The node agent first: kube-proxy waits for its node.
		all = append(all, component{c.nodeAgent(node), node}, component{c.proxy(node), node})
	}
	return all, nil
}

// file returns the path of a file of the cluster.
func (c *components) file(name string) string { return filepath.Join(c.admin.dir, name) }

func (c *components) nodeAgent(node *fabric.Node) controlplane.Component {
	name, kubelet := onNode(NodeAgent, node), onNode("kubelet", node)
	return controlplane.Component{
		Command: process.Command{
			Name: name, Path: filepath.Join(c.root, "bin", "test", "node-agent"), Log: c.file(name + ".log"),
			Args: []string{
				"--kubeconfig=" + c.admin.Kubeconfig(), "--node-name=" + node.Name(), "--root-dir=" + c.file(onNode("node", node)),
				"--images=" + c.images, "--pod-cidrs=" + strings.Join(node.PodCIDRs(), ","), "--node-ips=" + strings.Join(node.IPs(), ","),
				"--cluster-dns=" + strings.Join(c.network.DNSIPs(), ","), "--zone=" + c.zone,
				"--tls-cert-file=" + c.file(kubelet+".crt"), "--tls-private-key-file=" + c.file(kubelet+".key"), "--client-ca-file=" + c.file("ca.crt"),
				fmt.Sprintf("--schedule=%t", node == c.network.ControlPlane()),
			},
		},
		Ready: func(ctx context.Context) error { return c.nodeReady(ctx, node.Name()) },
	}
}

func (c *components) proxy(node *fabric.Node) controlplane.Component {
	name := onNode(Proxy, node)
	return controlplane.Component{
		Command: process.Command{
			Name: name, Path: filepath.Join(c.admin.bin, "kube-proxy"), Log: c.file(name + ".log"),
			Args: []string{
				"--kubeconfig=" + c.admin.Kubeconfig(), "--hostname-override=" + node.Name(),
				"--proxy-mode=" + c.proxyMode, "--cluster-cidr=" + strings.Join(c.network.PodCIDRs(), ","),
				// Connection tracking is configured per machine, not per network namespace.
				"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
			},
		},
		Ready: controlplane.Healthy("http://" + node.IPs()[0] + ":10256/livez"),
	}
}

// nodeReady returns an error unless a node is ready.
func (c *components) nodeReady(ctx context.Context, name string) error {
	config, err := c.admin.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
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
func (c *components) find(name string) (component, error) {
	components, err := c.all()
	if err != nil {
		return component{}, err
	}
	var names []string
	for _, component := range components {
		if component.Name == name {
			return component, nil
		}
		names = append(names, component.Name)
	}
	return component{}, fmt.Errorf("unknown component %q: use one of %s", name, strings.Join(names, ", "))
}

// stop stops components in reverse order.
func stop(ctx context.Context, components []component) error {
	var errs []error
	for _, component := range slices.Backward(components) {
		errs = append(errs, component.daemon().Stop(ctx, stopPatience))
	}
	return errors.Join(errs...)
}
