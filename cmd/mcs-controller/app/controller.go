// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app implements the command mcs-controller: the controllers that run beside
// mcs-apiserver and write to the local cluster only.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/internal/daemon"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/crdmirror"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/leadership"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/registration"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/replica"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/storagenamespace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/patience"
)

const long = `mcs-controller runs beside mcs-apiserver. It creates and renews the serving
certificate of mcs-apiserver, registers its API with the cluster, and creates the
namespace in which mcs-apiserver stores its objects. It materializes
every ServiceImport as a derived Service and EndpointSlices for kube-proxy and DNS, and
reports the state of ServiceExports in conditions and Events. It sets a default
cluster ID, renews the peer credentials of the members, and shows the members as
ClusterProfiles. During a migration from CRDs, it copies their objects.`

// NewCommand returns the command with its flags.
func NewCommand() *cobra.Command {
	opts := NewOptions()
	cmd := daemon.NewCommand("mcs-controller", long, opts.Flags(), opts.Logs, func(ctx context.Context) error {
		if err := opts.Validate(); err != nil {
			return err
		}
		return Run(ctx, opts)
	})
	// Without these, cobra adds a command for shells.
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newProbeCommand(), newTrialCommand())
	return cmd
}

// Run runs the controllers until the context is canceled.
func Run(ctx context.Context, opts *Options) error {
	registerMetrics()
	config, err := opts.hostConfig()
	if err != nil {
		return err
	}
	clients, err := newClients(config)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.Kubernetes.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("start recording Events: %w", err)
	}
	tasks, err := newTasks(opts, config, clients, broadcaster.NewRecorder(scheme.Scheme, "mcs-controller"))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range tasks {
		group.Go(func() error { return run(ctx) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// task runs until its context is canceled.
type task func(context.Context) error

// newTasks returns what every replica does. Some of it is done only while the replica leads.
func newTasks(opts *Options, config *rest.Config, clients registration.Clients, recorder events.EventRecorder) ([]task, error) {
	serverName, trust, watches := registration.Name+"."+opts.Namespace+".svc", newAuthority(), newOpenWatches()
	own := ownConfig(config, opts.APIServer, serverName, trust)
	own.Wrap(watches.wrap)
	informed, err := patience.NewForConfig(config, func(error) {}, kubernetes.NewForConfigAndClient)
	if err != nil {
		return nil, fmt.Errorf("create client of informers for the cluster: %w", err)
	}
	materializer, err := newMaterializer(opts, clients.Kubernetes, informed, own, recorder)
	if err != nil {
		return nil, err
	}
	mirrored, err := mirrorClients(config, ownConfig(config, opts.APIServer, serverName, trust), clients, opts.Namespace)
	if err != nil {
		return nil, err
	}
	readiness := newReadiness(opts.APIServer, serverName, trust, watches)
	health := leadership.NewHealth(func(ctx context.Context) error {
		if err := readiness.probe(ctx); err != nil {
			return err
		}
		return materializer.outlook.Complete()
	})
	candidates, err := newCandidates(opts, clients.Kubernetes, config, health)
	if err != nil {
		return nil, err
	}
	registered := registration.Options{TakeOverClusterProperties: opts.TakeOverProps, KeepAuthorities: opts.ServingCAFile != ""}
	if opts.PublishCRDs {
		if registered.CRDs, err = crd.Definitions(); err != nil {
			return nil, err
		}
	}
	registrations := registration.New(clients, opts.Namespace, registered, recorder)
	materializer.mirror = func() controller { return crdmirror.New(mirrored, opts.Namespace, registrations.Migration()) }
	tasks := []task{
		health.Run,
		registrations.Run,
		func(ctx context.Context) error { return candidates.registration.Run(ctx, registrations.Lead) },
		func(ctx context.Context) error { return serveHealth(ctx, opts.HealthAddress, registrations) },
		trust.await(func(ctx context.Context) error { return materializer.run(ctx, candidates.materialization) }),
	}
	if opts.MetricsAddress != "" {
		tasks = append(tasks, trust.await(func(ctx context.Context) error { return serveMetrics(ctx, opts, clients.Kubernetes) }))
	}
	if opts.StorageNamespace != "" {
		account := types.NamespacedName{Namespace: opts.Namespace, Name: registration.Name}
		tasks = append(tasks, storagenamespace.New(clients.Kubernetes, opts.StorageNamespace, account).Run)
	}
	if pod := podName(); pod != "" {
		tasks = append(tasks, replica.New(clients.Kubernetes, opts.Namespace, pod, recorder, health.Healthy).Run)
	}
	if opts.ServingCAFile == "" {
		certificates := servingcert.New(clients.Kubernetes, opts.Namespace, registration.Name, opts.ServingCertDir, clock.RealClock{}, func(ca []byte) {
			registrations.SetAuthority(ca)
			trust.set(ca)
		})
		return append(tasks, certificates.Run), nil
	}
	follow, err := followCAFile(opts.ServingCAFile, func(ca []byte) {
		registrations.SetAuthority(ca)
		trust.add(ca)
	})
	if err != nil {
		return nil, err
	}
	return append(tasks, follow), nil
}

// onChange is called by what watches a file.
type onChange func()

func (f onChange) Enqueue() { f() }

// followCAFile calls a function with the CA bundle in a file, and whenever it changes while the
// returned task runs.
func followCAFile(name string, use func(ca []byte)) (task, error) {
	content, err := dynamiccertificates.NewDynamicCAContentFromFile("serving-ca", name)
	if err != nil {
		return nil, fmt.Errorf("read --serving-ca-file: %w", err)
	}
	use(content.CurrentCABundleContent())
	content.AddListener(onChange(func() { use(content.CurrentCABundleContent()) }))
	return func(ctx context.Context) error {
		content.Run(ctx, 1)
		return nil
	}, nil
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

// serveHealth answers the probes of the kubelet. The readiness probe reports why the API
// is not registered, as an Event does.
func serveHealth(ctx context.Context, address string, registrations *registration.Controller) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		state, err := registrations.State()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, state)
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
