// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the command mcs-controller: the controllers that run beside
// mcs-apiserver and write to the local cluster only.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/internal/daemon"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/registration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
)

const long = `mcs-controller runs beside mcs-apiserver. It creates and renews the serving
certificate of mcs-apiserver and registers its API with the cluster. It materializes
every ServiceImport as a derived Service and EndpointSlices for kube-proxy and DNS, and
reports the state of ServiceExports in conditions and Events. It sets a default
cluster ID, and renews the peer credentials of the members.`

// NewCommand returns the command with its flags.
func NewCommand() *cobra.Command {
	opts := NewOptions()
	return daemon.NewCommand("mcs-controller", long, opts.Flags(), opts.Logs, func(ctx context.Context) error {
		if err := opts.Validate(); err != nil {
			return err
		}
		return Run(ctx, opts)
	})
}

// Run runs the controllers until the context is canceled.
func Run(ctx context.Context, opts *Options) error {
	config, err := opts.hostConfig()
	if err != nil {
		return err
	}
	clients, err := newClients(config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)

	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.Kubernetes.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("start recording Events: %w", err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "mcs-controller")

	registrations := registration.New(clients, opts.Namespace, recorder)
	trust := newAuthority()
	trusted := func(ca []byte) {
		registrations.SetAuthority(ca)
		trust.set(ca)
	}
	if opts.ServingCAFile != "" {
		ca, err := os.ReadFile(opts.ServingCAFile)
		if err != nil {
			return fmt.Errorf("read --serving-ca-file: %w", err)
		}
		trusted(ca)
	} else {
		certificates := servingcert.New(clients.Kubernetes, opts.Namespace, registration.Name, opts.ServingCertDir, clock.RealClock{}, trusted)
		group.Go(func() error { return certificates.Run(ctx) })
	}
	group.Go(func() error { return serveHealth(ctx, opts.HealthAddress, registrations) })
	own := ownConfig(config, opts.APIServer, registration.Name+"."+opts.Namespace+".svc", trust)
	group.Go(func() error {
		return lead(ctx, opts, clients.Kubernetes, func(ctx context.Context) error {
			leading, ctx := errgroup.WithContext(ctx)
			leading.Go(func() error { return registrations.Run(ctx) })
			leading.Go(func() error {
				select {
				case <-trust.known:
					return materialize(ctx, clients.Kubernetes, own, opts, recorder)
				case <-ctx.Done():
					return nil
				}
			})
			return leading.Wait()
		})
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func newClients(config *rest.Config) (registration.Clients, error) {
	var clients registration.Clients
	var errs [4]error
	clients.Kubernetes, errs[0] = kubernetes.NewForConfig(config)
	clients.Aggregator, errs[1] = aggregator.NewForConfig(config)
	clients.Metadata, errs[2] = metadata.NewForConfig(config)
	clients.Dynamic, errs[3] = dynamic.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return clients, fmt.Errorf("create clients for the cluster: %w", err)
	}
	return clients, nil
}

// lead runs a function while this replica holds the Lease. Losing the Lease ends the
// process, so that a partitioned leader cannot continue to write.
func lead(ctx context.Context, opts *Options, client kubernetes.Interface, run func(context.Context) error) error {
	if !opts.LeaderElection.LeaderElect {
		return run(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	election := opts.LeaderElection
	namespace := cmp.Or(election.ResourceNamespace, opts.Namespace)
	lock, err := resourcelock.New(election.ResourceLock, namespace, election.ResourceName, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return err
	}
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	var led atomic.Bool
	finished := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   election.LeaseDuration.Duration,
		RenewDeadline:   election.RenewDeadline.Duration,
		RetryPeriod:     election.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Name:            election.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				led.Store(true)
				finished <- run(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(leading)
	if led.Load() {
		if err := <-finished; err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("lost Lease %s/%s", namespace, election.ResourceName)
	}
	return nil
}

// serveHealth answers the probes of the kubelet. The readiness probe reports why the API
// is not registered, as an Event does.
func serveHealth(ctx context.Context, address string, registrations *registration.Controller) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := registrations.Refused(); err != nil {
			http.Error(w, "registration refused: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for health checks (--health-address): %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-ctx.Done()
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(shutdown)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-ended
	return nil
}
