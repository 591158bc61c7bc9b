// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command node-agent replaces the kubelet, the container runtime and the scheduler
// in tests: Pods of a real control plane run as plain processes, without a
// container engine. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/agent"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// The main thread represents the process in /proc, so only main may change its
// namespaces: see package osthread.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) > 1 && os.Args[1] == sandbox.InitCommand {
		os.Exit(sandbox.Init())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "node-agent:", err)
		os.Exit(1)
	}
}

func run() error {
	config := agent.Config{}
	kubeconfig := addFlags(pflag.CommandLine, &config)
	pflag.Parse()
	if err := ownMounts(); err != nil {
		return err
	}
	var err error
	if config.Kubernetes, err = clientcmd.BuildConfigFromFlags("", *kubeconfig); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.Kubernetes.QPS = -1 // no client-side rate limit
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	return agent.Run(klog.NewContext(ctx, klog.Background()), config)
}

func addFlags(flags *pflag.FlagSet, config *agent.Config) (kubeconfig *string) {
	kubeconfig = flags.String("kubeconfig", "", "kubeconfig of a cluster administrator")
	flags.StringVar(&config.NodeName, "node-name", "", "name of the Node")
	flags.BoolVar(&config.Schedule, "schedule", true, "bind the Pods of the cluster to its nodes; true for one node of a cluster, false for the others")
	flags.StringVar(&config.Zone, "zone", "", "label topology.kubernetes.io/zone of the Node")
	flags.StringSliceVar(&config.NodeIPs, "node-ips", nil, "addresses of the Node, the primary family first")
	flags.StringVar(&config.RootDir, "root-dir", "", "directory for all state: pods, claims, logs")
	flags.StringVar(&config.Images, "images", "", "directory with images: an OCI image layout, and a program per other image, named like the last part of the image name")
	flags.StringSliceVar(&config.PodCIDRs, "pod-cidrs", []string{"10.81.0.0/16", "fd00:81::/64"}, "networks of the Pods, the primary family first")
	flags.StringVar(&config.Bridge, "bridge", "cbr0", "bridge that connects the Pods; created if it does not exist")
	flags.StringSliceVar(&config.ClusterDNS, "cluster-dns", nil, "addresses of the DNS servers of the cluster")
	flags.StringVar(&config.ClusterDomain, "cluster-domain", "cluster.local", "DNS domain of the cluster")
	flags.IntVar(&config.API.Port, "kubelet-port", 10250, "port of the kubelet API")
	flags.StringVar(&config.API.CertFile, "tls-cert-file", "", "certificate of the kubelet API; without it, the API is not served")
	flags.StringVar(&config.API.KeyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.StringVar(&config.API.ClientCAFile, "client-ca-file", "", "certificate authorities of clients of the kubelet API")
	logging := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(logging)
	flags.AddGoFlag(logging.Lookup("v"))
	return kubeconfig
}

// ownMountsVariable is set if the agent runs in a mount namespace of its own.
const ownMountsVariable = "NODE_AGENT_OWN_MOUNTS"

// ownMounts runs this program again in a mount namespace of its own. Mounts of the
// agent are then invisible to others and are removed when the agent exits, even if
// it is killed. The process ID stays the same.
func ownMounts() error {
	if os.Getenv(ownMountsVariable) != "" {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("create mount namespace, which requires root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	err := unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), ownMountsVariable+"=1"))
	return fmt.Errorf("execute node agent again: %w", err)
}
