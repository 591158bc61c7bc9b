// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/absence"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/leftovers"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/patience"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/projection"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// computation keeps the virtual resources up to date.
type computation struct {
	projection *projection.Projection
	lives      *importidentity.Lives
	// The informers are started with the server and stopped after the projection.
	kubernetes   informers.SharedInformerFactory
	multicluster mcsinformers.SharedInformerFactory
	// secrets and leases are those of members, and renewed their renewed credentials.
	secrets, renewed, leases cache.SharedIndexInformer
	// accounts are the service accounts that peers read this cluster with, among others.
	accounts cache.SharedIndexInformer
	// leftovers is nil while storage is accepted: the namespaces of the exports in it
	// may not have been restored yet.
	leftovers *leftovers.Collector
	// host is the cluster that this server extends, and namespaces reads its namespaces.
	host       hostCluster
	namespaces *absence.Reader
	// records are closed after the projection has ended.
	records *records
	// storage is closed until the records can be read.
	storage *gate.Gate
	// computed is true when all virtual resources were computed once.
	computed atomic.Bool
	failure  *informerFailure
	running  sync.WaitGroup
}

// informerFailure is the last error of an informer.
type informerFailure struct {
	last atomic.Pointer[error]
}

func (f *informerFailure) set(err error) { f.last.Store(&err) }

func (c CompletedConfig) newComputation(stores map[schema.GroupResource]*virtual.Store) (*computation, error) {
	loopback := restclient.CopyConfig(c.generic.LoopbackClientConfig)
	loopback.QPS = -1
	own, err := versioned.NewForConfig(loopback)
	if err != nil {
		return nil, err
	}
	informed, err := patience.NewForConfig(loopback, c.failure.set, versioned.NewForConfigAndClient)
	if err != nil {
		return nil, err
	}
	computed := &computation{
		kubernetes:   c.generic.SharedInformerFactory,
		multicluster: mcsinformers.NewSharedInformerFactory(informed, 0),
		secrets: coreinformers.NewFilteredSecretInformer(c.informed, c.Namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector = clusterset.MemberSecretSelector()
		}),
		renewed: coreinformers.NewFilteredSecretInformer(c.informed, c.Namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector = clusterset.RenewedSecretSelector()
		}),
		leases: coordinationinformers.NewFilteredLeaseInformer(c.informed, c.Namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.LabelSelector = sighting.Selector
		}),
		accounts:   coreinformers.NewServiceAccountInformer(c.informed, c.Namespace, 0, cache.Indexers{}),
		host:       hostCluster{c.client, c.Namespace},
		namespaces: absence.NewReader(c.client.CoreV1()),
		records:    &records{options: c.Records},
		storage:    c.Storage.Gate(),
		failure:    c.failure,
	}
	if !c.AcceptStorage {
		if computed.leftovers, err = leftovers.New(c.client.CoreV1(), computed.kubernetes, own, computed.multicluster); err != nil {
			return nil, err
		}
	}
	ended, err := computed.records.open(livesKind)
	if err != nil {
		return nil, err
	}
	memories, err := computed.records.open(membersKind)
	if err != nil {
		return nil, err
	}
	election, err := c.election()
	if err != nil {
		return nil, err
	}
	computed.lives = importidentity.New(importidentity.Config{
		Store: ended, Clock: clock.RealClock{},
		Namespaces: computed.kubernetes.Core().V1().Namespaces().Lister(), GetNamespace: computed.namespaces.Get,
	})
	computed.projection, err = projection.New(projection.Config{
		Kubernetes:   computed.kubernetes,
		Multicluster: computed.multicluster,
		Lives:        computed.lives,
		Clock:        clock.RealClock{},
		Stores:       stores,

		UseClusterSetIP:    c.ClusterSetIP.ByDefault,
		ClusterSetIPRanges: c.ClusterSetIP.Ranges,
		ClusterSetIPCIDRs:  c.ClusterSetIP.CIDRs,
	}, member.Config{
		Secrets:  computed.secrets,
		Renewed:  computed.renewed,
		Leases:   computed.leases,
		Memory:   memories,
		Election: election,
		Clock:    clock.RealClock{},
		TTL:      c.MemberTTL,

		LostPolicy: c.LostPolicy,
		Ranges:     c.ClusterSetIP.Ranges,
		Version:    version.Get().GitVersion,

		ReservedNamespaces: sets.New(metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, c.Namespace, c.StorageNamespace),
	})
	if err != nil {
		return nil, err
	}
	return computed, computed.observeFailures()
}

// observeFailures makes the readiness check report why an informer does not sync.
func (c *computation) observeFailures() error {
	var errs []error
	for _, informer := range []cache.SharedIndexInformer{
		c.multicluster.MulticlusterX().V1beta1().ServiceExports().Informer(),
		c.multicluster.Multicluster().V1().ClusterClaims().Informer(),
		c.kubernetes.Core().V1().Services().Informer(),
		c.kubernetes.Core().V1().Namespaces().Informer(),
		c.kubernetes.Discovery().V1().EndpointSlices().Informer(),
		c.kubernetes.Core().V1().Nodes().Informer(),
		c.kubernetes.Networking().V1().ServiceCIDRs().Informer(),
		c.secrets, c.renewed, c.leases,
	} {
		errs = append(errs, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
			c.failure.set(err)
		}))
	}
	return errors.Join(errs...)
}

// election decides which replica records the exports of members.
func (c CompletedConfig) election() (memory.Election, error) {
	if c.ReplicaID == "" {
		return memory.Unopposed, nil
	}
	return memory.ByLease(c.client.CoordinationV1(), c.Namespace, c.ReplicaID)
}

// start is a post-start hook. It does not wait for storage: a server that waits is
// alive, but not ready.
func (c *computation) start(hook genericapiserver.PostStartHookContext) error {
	ctx := klog.NewContext(hook.Context, klog.Background())
	c.kubernetes.Start(ctx.Done())
	c.multicluster.StartWithContext(ctx)
	c.running.Go(func() { c.secrets.RunWithContext(ctx) })
	c.running.Go(func() { c.renewed.RunWithContext(ctx) })
	c.running.Go(func() { c.leases.RunWithContext(ctx) })
	c.running.Go(func() { c.accounts.RunWithContext(ctx) })
	c.running.Go(func() { c.namespaces.Identify(ctx) })
	c.running.Go(func() { c.host.followVersion(ctx, c.projection.Members().SetKubernetesVersion) })
	if c.leftovers != nil {
		c.running.Go(func() { c.leftovers.Run(ctx) })
	}
	c.running.Go(func() {
		defer c.multicluster.Shutdown()
		if err := c.storage.Await(ctx); err != nil {
			return // shutting down
		}
		c.projection.Run(ctx, func() {
			klog.FromContext(ctx).Info("Computed all virtual resources")
			c.computed.Store(true)
		})
	})
	return nil
}

// storageReady is a readiness check. A server that has computed the virtual resources
// stays ready while storage is closed: it still serves them, other clusters keep
// reading them, and requests that fail say why.
func (c *computation) storageReady(*http.Request) error {
	if c.computed.Load() {
		return nil
	}
	return c.storage.Usable()
}

// ready is a readiness check.
func (c *computation) ready(*http.Request) error {
	if c.computed.Load() {
		return nil
	}
	if err := c.lives.LoadError(); err != nil { // after the informers have synced
		return fmt.Errorf("virtual resources have not been computed yet; last error: %w", err)
	}
	if failure := c.failure.last.Load(); failure != nil {
		return fmt.Errorf("virtual resources have not been computed yet; last error: %w", *failure)
	}
	return errors.New("virtual resources have not been computed yet")
}

// wait returns when everything that start started has ended.
func (c *computation) wait() {
	c.running.Wait()
	c.records.close()
}

// preview returns the warnings for the writer of a ServiceExport.
func (c *computation) preview(_ context.Context, export *multicluster.ServiceExport) []string {
	var written multiclusterxv1beta1.ServiceExport
	if err := multiclusterxv1beta1.Convert_multicluster_ServiceExport_To_v1beta1_ServiceExport(export, &written, nil); err != nil {
		return nil
	}
	return c.projection.Preview(&written)
}
