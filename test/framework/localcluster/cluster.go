// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
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

// Cluster is one cluster of a Set.
type Cluster struct {
	Name           string
	set            *Set
	number, subnet int
}

// Dir returns the directory of the cluster's kubeconfig, logs, certificates and data.
func (c *Cluster) Dir() string { return filepath.Join(c.set.Dir, c.Name) }

// Kubeconfig returns the kubeconfig file of the cluster's administrator.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir(), "kubeconfig") }

// Config returns a client configuration of the cluster's administrator without
// client-side rate limits.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Kubectl runs kubectl as the cluster's administrator and returns its combined output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	output, err := c.KubectlCommand(ctx, args...).CombinedOutput()
	return string(output), err
}

// KubectlCommand returns a kubectl command that has not been started yet.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin(), "kubectl"), args...)
	cmd.Env = []string{"HOME=" + c.Dir(), "PATH=/usr/bin:/bin", "KUBECONFIG=" + c.Kubeconfig()}
	return cmd
}

func (c *Cluster) bin() string { return filepath.Join(c.set.Root, "bin", "kubernetes") }

func (c *Cluster) progress(format string, args ...any) {
	c.set.Progress("%s: %s", c.Name, fmt.Sprintf(format, args...))
}

// prepare returns the cluster's control plane after creating its certificates.
func (c *Cluster) prepare() (*controlplane.ControlPlane, error) {
	plane, err := controlplane.Prepare(controlplane.Config{
		Bin: c.bin(), Dir: c.Dir(),
		Host: c.NodeIPs()[0], Advertise: c.NodeIPs()[0], ServiceCIDRs: c.ServiceCIDRs(),
		APIServerFlags: []string{"--allow-privileged"},
	})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(c.Dir(), "kubelet.crt")); err == nil {
		return plane, nil
	}
	return plane, plane.Issue("kubelet", pki.Subject{Name: c.nodeName(), IPs: []net.IP{net.ParseIP(c.NodeIPs()[0]), net.ParseIP(c.NodeIPs()[1])}})
}

// nodeName is the same in every cluster, as is common: a node of one cluster
// must not be mistaken for a node of another.
func (c *Cluster) nodeName() string { return "node-1" }

// components returns all components of the cluster with their readiness checks.
func (c *Cluster) components() ([]controlplane.Component, error) {
	plane, err := c.prepare()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(c.Dir(), name) }
	return append(plane.Components(),
		// Before kube-proxy, which waits for its node.
		controlplane.Component{
			Command: process.Command{
				Name: NodeAgent, Path: filepath.Join(c.set.Root, "bin", "test", "node-agent"), Log: file("node-agent.log"),
				Args: []string{
					"--kubeconfig=" + c.Kubeconfig(), "--node-name=" + c.nodeName(), "--root-dir=" + file("node"),
					"--images=" + c.set.images(), "--pod-cidrs=" + strings.Join(c.PodCIDRs(), ","), "--node-ips=" + strings.Join(c.NodeIPs(), ","),
					"--cluster-dns=" + strings.Join(c.dnsIPs(), ","), "--zone=" + c.Name + "-zone",
					"--tls-cert-file=" + file("kubelet.crt"), "--tls-private-key-file=" + file("kubelet.key"), "--client-ca-file=" + file("ca.crt"),
				},
			},
			Ready: c.nodeReady,
		},
		controlplane.Component{
			Command: process.Command{
				Name: Proxy, Path: filepath.Join(c.bin(), "kube-proxy"), Log: file("kube-proxy.log"),
				Args: []string{
					"--kubeconfig=" + c.Kubeconfig(), "--hostname-override=" + c.nodeName(),
					"--proxy-mode=nftables", "--cluster-cidr=" + strings.Join(c.PodCIDRs(), ","),
					// Connection tracking is configured per machine, not per network namespace.
					"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
				},
			},
			Ready: controlplane.Healthy("http://" + c.NodeIPs()[0] + ":10256/livez"),
		},
	), nil
}

// daemon returns a component as a daemon in the cluster's network namespace.
func (c *Cluster) daemon(command process.Command) process.Daemon {
	command.Args = append([]string{"--net=/run/netns/" + c.namespace(), "--", command.Path}, command.Args...)
	command.Path = "nsenter"
	return process.Daemon{Command: command, PIDFile: filepath.Join(c.Dir(), command.Name+".pid")}
}

// disks maps each component that writes to a disk of its own to the directory
// of that disk. The disks are small enough to be filled by a test.
var disks = map[string]string{Etcd: "etcd", NodeAgent: "node"}

const diskSize = "1g"

func (c *Cluster) disk(component string) (string, error) {
	name, ok := disks[component]
	if !ok {
		return "", fmt.Errorf("component %q has no disk: use %s or %s", component, Etcd, NodeAgent)
	}
	return filepath.Join(c.Dir(), name), nil
}

// mountDisks mounts the disks, which are in memory.
func (c *Cluster) mountDisks() error {
	for _, name := range disks {
		dir := filepath.Join(c.Dir(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if mounted, err := isMounted(dir); err != nil || mounted {
			if err != nil {
				return err
			}
			continue
		}
		if err := syscall.Mount("mcs-test", dir, "tmpfs", 0, "mode=0755,size="+diskSize); err != nil {
			return fmt.Errorf("mount disk %s: %w", dir, err)
		}
	}
	return nil
}

func (c *Cluster) unmountDisks() error {
	var errs []error
	for _, name := range disks {
		dir := filepath.Join(c.Dir(), name)
		if mounted, err := isMounted(dir); err == nil && mounted {
			errs = append(errs, syscall.Unmount(dir, syscall.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}

func isMounted(dir string) (bool, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	return strings.Contains(string(mounts), " "+dir+" "), err
}

func (c *Cluster) up(ctx context.Context) error {
	if err := c.mountDisks(); err != nil {
		return err
	}
	components, err := c.components()
	if err != nil {
		return err
	}
	for _, component := range components {
		daemon := c.daemon(component.Command)
		if _, running := daemon.Running(); !running {
			c.progress("starting %s", component.Name)
		}
		if err := c.start(ctx, component); err != nil {
			return err
		}
	}
	c.progress("waiting for DNS")
	if err := c.installDNS(ctx); err != nil {
		return err
	}
	c.progress("installing artifacts/default")
	if err := c.install(ctx); err != nil {
		return err
	}
	c.progress("ready")
	return nil
}

func (c *Cluster) start(ctx context.Context, component controlplane.Component) error {
	daemon := c.daemon(component.Command)
	if err := daemon.Start(); err != nil {
		return err
	}
	return daemon.Await(ctx, patience, component.Ready)
}

// Component returns one of the cluster's components by its name.
func (c *Cluster) Component(name string) (process.Daemon, error) {
	component, err := c.component(name)
	return c.daemon(component.Command), err
}

func (c *Cluster) component(name string) (controlplane.Component, error) {
	components, err := c.components()
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

// down stops all components in reverse order.
func (c *Cluster) down(ctx context.Context) error {
	components, err := c.components()
	if err != nil {
		return err
	}
	c.progress("stopping")
	var errs []error
	for i := len(components) - 1; i >= 0; i-- {
		errs = append(errs, c.daemon(components[i].Command).Stop(ctx, stopPatience))
	}
	errs = append(errs, c.killRest(), c.unmountDisks())
	return errors.Join(errs...)
}

// killRest kills all remaining processes in the cluster's network namespace.
func (c *Cluster) killRest() error {
	if !namespaceExists(c.namespace()) {
		return nil
	}
	output, err := exec.Command("ip", "netns", "pids", c.namespace()).Output()
	if err != nil {
		return fmt.Errorf("list processes in network namespace %s: %w", c.namespace(), err)
	}
	for _, field := range strings.Fields(string(output)) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}
