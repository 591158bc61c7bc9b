// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/environment"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/etcfiles"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/images"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/kubeletapi"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/network"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/volumes"
)

// Run runs an agent until the context is done. It then stops all Pods and removes
// what it created. It requires root, a mount namespace that ends with this process,
// and the network namespace of the cluster.
func Run(ctx context.Context, config Config) (err error) {
	if err := config.Complete(); err != nil {
		return err
	}
	unlock, err := lock(config.RootDir)
	if err != nil {
		return err
	}
	defer unlock()
	// An agent that was killed has left files, but neither processes nor mounts.
	if err := os.RemoveAll(config.podsDir()); err != nil {
		return fmt.Errorf("remove leftovers of an earlier agent: %w", err)
	}
	client, err := kubernetes.NewForConfig(config.Kubernetes)
	if err != nil {
		return err
	}
	objects, err := metadata.NewForConfig(config.Kubernetes)
	if err != nil {
		return err
	}
	net, err := network.SetUp(ctx, config.Bridge, config.PodCIDRs)
	if err != nil {
		return fmt.Errorf("set up Pod network: %w", err)
	}
	defer func() { err = errors.Join(err, net.Remove(context.WithoutCancel(ctx))) }()
	runtime := sandbox.NewRuntime(config.RootDir, config.Images)
	defer runtime.Close()

	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return serve(ctx, &services{
		config:      &config,
		client:      client,
		events:      broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "node-agent", Host: config.NodeName}),
		network:     net,
		runtime:     runtime,
		volumes:     &volumes.Manager{Client: client, Claims: filepath.Join(config.RootDir, "claims"), Node: capacity()},
		environment: &environment.Builder{Client: client, Node: capacity()},
		images:      images.Directory(config.Images),
		dns:         config.dns(),
	}, objects)
}

// serve runs all parts of the agent until the context is done or one of them fails,
// and returns when all have ended.
func serve(ctx context.Context, s *services, objects metadata.Interface) error {
	keeper := &nodeKeeper{config: s.config, client: s.client}
	if err := keeper.register(ctx); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Registered Node", "node", s.config.NodeName)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	p := &pods{services: s, workers: map[types.UID]*worker{}}
	binder := &binder{client: s.client, events: s.events}
	var parts sync.WaitGroup
	parts.Go(func() { keeper.run(ctx) })
	if s.config.Schedule {
		parts.Go(func() { binder.run(ctx) })
	}
	parts.Go(func() { p.run(ctx) })
	parts.Go(func() { watchObjects(ctx, objects, p.refresh) })
	if s.config.API.CertFile != "" {
		parts.Go(func() {
			if err := kubeletapi.Serve(ctx, s.config.API, p); err != nil {
				fail(err)
			}
		})
	}
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// lock ensures that only one agent uses a directory.
func lock(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another agent uses %s; stop it first: %w", dir, err)
	}
	return func() { file.Close() }, nil
}

// dns returns the DNS configuration of Pods.
func (c *Config) dns() etcfiles.DNS {
	host, _ := os.ReadFile("/etc/resolv.conf") // a node may not have this file
	return etcfiles.DNS{Servers: c.ClusterDNS, Domain: c.ClusterDomain, Host: string(host)}
}
