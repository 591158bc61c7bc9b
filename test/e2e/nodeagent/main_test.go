// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeagent tests the node agent with a real control plane and a
// real kubectl.
package nodeagent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/pki"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

const (
	nodeName     = "node"
	nodeIPv6     = "fd00:250::1"
	patience     = 30 * time.Second
	stopPatience = 20 * time.Second
)

// suite is the cluster that all tests share. Each has a namespace of its own.
var suite struct {
	root, dir string
	plane     *controlplane.ControlPlane
	config    *rest.Config
	client    kubernetes.Interface
	agent     *process.Process
}

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == webServer {
		os.Exit(runWebServer())
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "skipped: the node agent requires root")
		return
	}
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	// The tests mostly wait, so that many can run on one processor.
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		return 1, err
	}
	if err := setUp(context.Background()); err != nil {
		return 1, errors.Join(err, tearDown())
	}
	code := m.Run()
	if err := tearDown(); err != nil {
		return 1, err
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "component logs are in", suite.dir)
		return code, nil
	}
	return code, os.RemoveAll(suite.dir)
}

func setUp(ctx context.Context) (err error) {
	if suite.root, err = repository.Root(); err != nil {
		return err
	}
	if suite.dir, err = os.MkdirTemp("", "node-agent-"); err != nil {
		return err
	}
	if output, err := exec.Command("ip", "address", "add", nodeIPv6+"/128", "dev", "lo", "nodad").CombinedOutput(); err != nil {
		return fmt.Errorf("add address: %w: %s", err, output)
	}
	if err := writeCertificates(); err != nil {
		return err
	}
	if err := makeImages(); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-C", filepath.Join(suite.root, "test", "nodeagent"), "-o", path("node-agent"), ".")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build node agent: %w\n%s", err, output)
	}
	suite.plane, err = controlplane.Start(ctx, controlplane.Config{
		Bin: filepath.Join(suite.root, "bin", "kubernetes"),
		Dir: path("kubernetes"),
		APIServerFlags: []string{
			"--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112",
			"--kubelet-client-certificate=" + path("client.crt"), "--kubelet-client-key=" + path("client.key"),
			"--kubelet-certificate-authority=" + path("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP",
		},
	})
	if err != nil {
		return err
	}
	if suite.config, err = suite.plane.AdminConfig(); err != nil {
		return err
	}
	if suite.client, err = kubernetes.NewForConfig(suite.config); err != nil {
		return err
	}
	return startAgent(ctx)
}

func tearDown() error {
	var errs []error
	if suite.agent != nil {
		errs = append(errs, suite.agent.Stop(stopPatience))
	}
	if suite.plane != nil {
		errs = append(errs, suite.plane.Stop())
	}
	return errors.Join(errs...)
}

func path(name string) string { return filepath.Join(suite.dir, name) }

// writeCertificates writes the certificates for connections from kube-apiserver to agent.
func writeCertificates() error {
	authority, err := pki.NewAuthority("kubelet")
	if err != nil {
		return err
	}
	if err := authority.Write(suite.dir, "ca"); err != nil {
		return err
	}
	for name, subject := range map[string]pki.Subject{
		"client":  {Name: "kube-apiserver"},
		"kubelet": {Name: nodeName, IPs: []net.IP{net.ParseIP(netns.Address), net.ParseIP(nodeIPv6)}},
	} {
		pair, err := authority.Issue(subject)
		if err != nil {
			return err
		}
		if err := pair.Write(suite.dir, name); err != nil {
			return err
		}
	}
	return nil
}

// makeImages creates a directory with two images: kubectl, and a web server, which
// is this program.
func makeImages() error {
	if err := os.Mkdir(path("images"), 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if output, err := exec.Command("cp", self, path("images/"+webServer)).CombinedOutput(); err != nil {
		return fmt.Errorf("copy this program: %w: %s", err, output)
	}
	return os.Symlink(filepath.Join(suite.root, "bin", "kubernetes", "kubectl"), path("images/kubectl"))
}

// startAgent starts the agent and waits until its Node is ready.
func startAgent(ctx context.Context) error {
	if err := os.MkdirAll(path("state"), 0o755); err != nil {
		return err
	}
	started := metav1.NewTime(time.Now().Truncate(time.Second))
	agent, err := process.Start(process.Command{
		Name: "node-agent",
		Path: path("node-agent"),
		Args: []string{
			"--kubeconfig=" + suite.plane.AdminKubeconfig(),
			"--node-name=" + nodeName, "--zone=zone-1",
			"--node-ips=" + netns.Address + "," + nodeIPv6,
			"--root-dir=" + path("state"), "--images=" + path("images"),
			"--pod-cidrs=10.81.0.0/16,fd00:81::/64", "--bridge=cbr0",
			"--cluster-dns=10.96.0.10,fd00:96::a",
			"--tls-cert-file=" + path("kubelet.crt"), "--tls-private-key-file=" + path("kubelet.key"), "--client-ca-file=" + path("ca.crt"),
		},
		Log: path("node-agent.log"),
	})
	if err != nil {
		return err
	}
	suite.agent = agent
	return agent.Await(ctx, patience, func(ctx context.Context) error {
		lease, err := suite.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.RenewTime.Time.Before(started.Time) {
			return errors.New("lease was renewed by an earlier agent")
		}
		return nil
	})
}
