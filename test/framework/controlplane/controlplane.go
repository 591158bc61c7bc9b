// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real Kubernetes control plane: etcd,
// kube-apiserver with RBAC and aggregation, and kube-controller-manager. It
// uses the default ports, and therefore needs a network namespace of its own
// (package netns), or an address of its own in a shared one.
package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

const (
	// Patience is how long a component may take to become ready on a busy machine.
	Patience     = 2 * time.Minute
	stopPatience = 30 * time.Second
	loopback     = "127.0.0.1"
)

// Config configures a control plane.
type Config struct {
	// Bin is the directory of the Kubernetes programs.
	Bin string
	// Dir is the directory for certificates, kubeconfigs, data and logs.
	Dir string
	// Address is the only address that components listen at, so that several
	// control planes can share a network namespace. If empty, etcd listens at
	// 127.0.0.1 and all other components at all addresses.
	Address string
	// Host is the address at which clients reach the kube-apiserver. It defaults
	// to Address, then to 127.0.0.1.
	Host string
	// Advertise is the address at which Pods reach the kube-apiserver. It defaults
	// to Address, then to netns.Address.
	Advertise string
	// ServiceCIDRs are the Service networks, one per IP family.
	ServiceCIDRs []string
	// Realistic makes etcd sync writes to disk, and all components collect garbage as
	// often as in a real cluster. Tests that measure neither are faster without: the
	// collection alone takes a fifth of the processor time.
	Realistic bool
	// APIServerFlags are additional flags of the kube-apiserver.
	APIServerFlags []string
	// ControllerManagerFlags are additional flags of the kube-controller-manager.
	ControllerManagerFlags []string
	// Progress reports progress.
	Progress func(format string, args ...any)
}

// Component is one program of a control plane with its readiness check.
type Component struct {
	process.Command
	Ready func(context.Context) error
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	Config
	authority *pki.Authority
	// processes are the running components, in the order of Components.
	processes []*process.Process
}

// Prepare creates certificates and kubeconfigs, unless they exist from an
// earlier run. It starts nothing.
func Prepare(config Config) (*ControlPlane, error) {
	if config.Progress == nil {
		config.Progress = func(string, ...any) {}
	}
	config.Host = cmp.Or(config.Host, config.Address, loopback)
	config.Advertise = cmp.Or(config.Advertise, config.Address, netns.Address)
	if len(config.ServiceCIDRs) == 0 {
		config.ServiceCIDRs = []string{"10.96.0.0/16"}
	}
	c := &ControlPlane{Config: config}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := c.loadOrWriteCredentials(); err != nil {
		return nil, fmt.Errorf("create certificates: %w", err)
	}
	return c, nil
}

// Components returns the components in the order in which they start.
func (c *ControlPlane) Components() []Component {
	return []Component{
		{c.etcd(), func(context.Context) error { return nil }}, // kube-apiserver waits for etcd
		{c.apiServer(APIServer, apiServerPort, c.EtcdURL()), apiServerReady(c.AdminConfig)},
		{c.controllerManager(), c.controllerManagerReady},
	}
}

// Start starts a control plane and returns when all components are ready.
func Start(ctx context.Context, config Config) (_ *ControlPlane, err error) {
	c, err := Prepare(config)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	for _, component := range c.Components() {
		c.Progress("starting %s", component.Name)
		running, err := process.Start(component.Command)
		if err != nil {
			return nil, err
		}
		c.processes = append(c.processes, running)
		if err := running.Await(ctx, Patience, component.Ready); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Names of the components, in the order of Components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
)

func (c *ControlPlane) index(name string) int {
	return slices.IndexFunc(c.Components(), func(component Component) bool { return component.Name == name })
}

// PID returns the process ID of a component.
func (c *ControlPlane) PID(name string) int { return c.processes[c.index(name)].PID() }

// Kill kills a component with SIGKILL.
func (c *ControlPlane) Kill(name string) { c.processes[c.index(name)].Kill() }

// Restart kills a component unless that was done, starts it again, and returns when it is
// ready. Components that have exited are restarted too, as a kubelet does: a
// kube-controller-manager exits if it loses its kube-apiserver while it is starting.
func (c *ControlPlane) Restart(ctx context.Context, name string) error {
	c.Kill(name)
	for i, component := range c.Components() {
		select {
		case <-c.processes[i].Exited():
		default:
			continue
		}
		restarted, err := process.Start(component.Command)
		if err != nil {
			return err
		}
		c.processes[i] = restarted
		if err := restarted.Await(ctx, Patience, component.Ready); err != nil {
			return err
		}
	}
	return nil
}

// EtcdDir returns the data directory of etcd.
func (c *ControlPlane) EtcdDir() string { return c.path("etcd") }

// Stop stops all components in reverse order.
func (c *ControlPlane) Stop() error {
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		errs = append(errs, c.processes[i].Stop(stopPatience))
	}
	c.processes = nil
	return errors.Join(errs...)
}

// PauseAPIServer makes the kube-apiserver hang until resume is called.
func (c *ControlPlane) PauseAPIServer() (resume func() error, err error) {
	pid := c.processes[c.index(APIServer)].PID()
	return func() error { return syscall.Kill(pid, syscall.SIGCONT) }, syscall.Kill(pid, syscall.SIGSTOP)
}

// AddAPIServer starts another kube-apiserver on the same data, and returns a client
// configuration of the administrator for it, and a function that kills it. It listens at
// a port of its own and reaches etcd at the given URL.
func (c *ControlPlane) AddAPIServer(ctx context.Context, port, etcdURL string) (config *rest.Config, kill func(), err error) {
	if config, err = c.AdminConfig(); err != nil {
		return nil, nil, err
	}
	config.Host = "https://" + net.JoinHostPort(c.Host, port)
	running, err := process.Start(c.apiServer(APIServer+"-"+port, port, etcdURL))
	if err != nil {
		return nil, nil, err
	}
	if err := running.Await(ctx, Patience, apiServerReady(func() (*rest.Config, error) { return config, nil })); err != nil {
		running.Kill()
		return nil, nil, err
	}
	return config, running.Kill, nil
}

const apiServerPort = "6443"

// Endpoint returns the host and port of the kube-apiserver.
func (c *ControlPlane) Endpoint() string { return net.JoinHostPort(c.Host, apiServerPort) }

// EtcdURL returns the URL at which clients reach etcd.
func (c *ControlPlane) EtcdURL() string { return c.etcdURL("2379") }

func (c *ControlPlane) etcdURL(port string) string {
	return "http://" + net.JoinHostPort(cmp.Or(c.Address, loopback), port)
}

// bind returns the flags that make a Kubernetes component listen at Address.
func (c *ControlPlane) bind() []string {
	if c.Address == "" {
		return nil
	}
	return []string{"--bind-address=" + c.Address}
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.Dir, name) }

func (c *ControlPlane) command(name string, args ...string) process.Command {
	command := process.Command{Name: name, Path: filepath.Join(c.Bin, name), Args: args, Log: c.path(name + ".log")}
	if !c.Realistic {
		command.Env = []string{"GOGC=400"}
	}
	return command
}

func (c *ControlPlane) etcd() process.Command {
	return c.command(Etcd,
		"--data-dir="+c.EtcdDir(),
		"--listen-client-urls="+c.EtcdURL(), "--advertise-client-urls="+c.EtcdURL(),
		"--listen-peer-urls="+c.etcdURL("2380"),
		fmt.Sprintf("--unsafe-no-fsync=%t", !c.Realistic))
}

func (c *ControlPlane) apiServer(name, port, etcdURL string) process.Command {
	command := c.command(APIServer, slices.Concat([]string{
		"--etcd-servers=" + etcdURL,
		"--secure-port=" + port, "--advertise-address=" + c.Advertise,
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=" + strings.Join(c.ServiceCIDRs, ","),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("service-account.crt"),
		"--service-account-signing-key-file=" + c.path("service-account.key"),
		"--requestheader-client-ca-file=" + c.path("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.path("front-proxy.crt"), "--proxy-client-key-file=" + c.path("front-proxy.key"),
		"--kubelet-client-certificate=" + c.path("kubelet-client.crt"), "--kubelet-client-key=" + c.path("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--enable-aggregator-routing=true",
	}, c.bind(), c.APIServerFlags)...)
	command.Name, command.Log = name, c.path(name+".log")
	return command
}

func (c *ControlPlane) controllerManager() process.Command {
	return c.command(ControllerManager, slices.Concat([]string{
		"--kubeconfig=" + c.AdminKubeconfig(),
		"--service-account-private-key-file=" + c.path("service-account.key"),
		"--root-ca-file=" + c.path("ca.crt"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--controllers=*,-node-ipam-controller",
	}, c.bind(), c.ControllerManagerFlags)...)
}

// AdminConfig returns a client configuration of the administrator without
// client-side rate limits.
func (c *ControlPlane) AdminConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

func apiServerReady(getConfig func() (*rest.Config, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		config, err := getConfig()
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

func (c *ControlPlane) controllerManagerReady(ctx context.Context) error {
	config := &rest.Config{Host: "https://" + net.JoinHostPort(c.Host, "10257"), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	return healthy(client, config.Host+"/healthz")(ctx)
}

// Healthy returns a check that a URL answers with status 200.
func Healthy(url string) func(context.Context) error { return healthy(http.DefaultClient, url) }

func healthy(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}
