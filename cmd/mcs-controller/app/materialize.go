// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/clusterid"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/credential"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/dataplane"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/endpointprobe"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/exportstatus"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/leadership"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/memberlease"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/memberrefusals"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/memberstate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/patience"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// materializer runs the controllers that turn what mcs-apiserver computes into objects of
// the cluster and that maintain its membership. Its caches are up to date in every
// replica, so that a new leader needs no list.
type materializer struct {
	opts     *Options
	client   kubernetes.Interface
	computed versioned.Interface
	recorder events.EventRecorder
	// host are caches of the cluster, installed those of the namespace of the
	// installation, members those of its member Secrets, and renewed those of renewed credentials.
	host, installed, members, renewed informers.SharedInformerFactory
	// own are caches of the mcs-apiserver in the same Pod, and ownInstalled those of the namespace
	// of the installation in it.
	own, ownInstalled mcsinformers.SharedInformerFactory
	// mirror returns the controller that copies the objects of CRDs.
	mirror func() controller
	// outlook is what that mcs-apiserver knows of members.
	outlook *leadership.Outlook
}

// controller runs until its context is canceled.
type controller interface {
	Run(context.Context) error
}

// informerFactory are caches with the same source.
type informerFactory interface {
	StartWithContext(context.Context)
	WaitForCacheSyncWithContext(context.Context) cache.SyncResult
	Shutdown()
}

// newMaterializer returns a materializer. informed is the client of informers, and config the
// client configuration for the mcs-apiserver in the same Pod.
func newMaterializer(opts *Options, client, informed kubernetes.Interface, config *rest.Config, recorder events.EventRecorder) (*materializer, error) {
	computed, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client for mcs-apiserver: %w", err)
	}
	followed, err := patience.NewForConfig(config, func(error) {}, versioned.NewForConfigAndClient)
	if err != nil {
		return nil, fmt.Errorf("create client of informers for mcs-apiserver: %w", err)
	}
	inNamespace := informers.WithNamespace(opts.Namespace)
	onlyMembers := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = clusterset.MemberSecretSelector() })
	onlyRenewed := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = clusterset.RenewedSecretSelector() })
	trimmed := informers.WithTransform(withoutStatusOfNodes)
	own := mcsinformers.NewSharedInformerFactoryWithOptions(followed, 0, mcsinformers.WithTransform(withoutManagedFields))
	return &materializer{
		opts: opts, client: client, computed: computed, recorder: recorder,
		host:      informers.NewSharedInformerFactoryWithOptions(informed, 0, trimmed),
		installed: informers.NewSharedInformerFactoryWithOptions(informed, 0, inNamespace, trimmed),
		members:   informers.NewSharedInformerFactoryWithOptions(informed, 0, inNamespace, onlyMembers, trimmed),
		renewed:   informers.NewSharedInformerFactoryWithOptions(informed, 0, inNamespace, onlyRenewed, trimmed),
		own:       own,
		ownInstalled: mcsinformers.NewSharedInformerFactoryWithOptions(followed, 0, mcsinformers.WithNamespace(opts.Namespace),
			mcsinformers.WithTransform(withoutManagedFields)),
		outlook: leadership.NewOutlook(own.ClusterSet().V1alpha1().Members().Lister()),
	}, nil
}

// run keeps the caches up to date, shares when the mcs-apiserver in the same Pod sees
// members, and runs the controllers while the candidate leads.
func (m *materializer) run(ctx context.Context, candidate *leadership.Candidate) error {
	if _, err := m.controllers(); err != nil { // determines the caches
		return err
	}
	sightings := memberlease.New(m.client.CoordinationV1(), clock.RealClock{}, m.opts.Namespace, m.installed, m.own, candidate.Health.Healthy)
	factories := []informerFactory{m.host, m.installed, m.members, m.renewed, m.own, m.ownInstalled}
	for _, factory := range factories {
		defer factory.Shutdown()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, factory := range factories {
		factory.StartWithContext(ctx)
	}
	if !m.awaitCaches(ctx) {
		return nil // the context is canceled
	}
	candidate.Yield, candidate.Hesitate = m.outlook.Yield, m.outlook.Hesitate
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return sightings.Run(ctx) })
	group.Go(func() error { return candidate.Run(ctx, m.lead) })
	return group.Wait()
}

// awaitCaches waits until a leader could work, and reports whether it could. Stored objects
// are not waited for, as in [openWatches]: controllers that need them wait themselves.
func (m *materializer) awaitCaches(ctx context.Context) bool {
	for _, factory := range []informerFactory{m.host, m.installed, m.members, m.renewed} {
		if factory.WaitForCacheSyncWithContext(ctx).Err != nil {
			return false
		}
	}
	clusterSet := m.own.ClusterSet().V1alpha1()
	return cache.WaitForNamedCacheSyncWithContext(ctx,
		clusterSet.Members().Informer().HasSynced, clusterSet.ExportedServices().Informer().HasSynced,
		clusterSet.ExportedEndpointSlices().Informer().HasSynced, m.own.MulticlusterX().V1beta1().ServiceImports().Informer().HasSynced)
}

// lead runs the controllers. The first that fails stops all others.
func (m *materializer) lead(ctx context.Context) error {
	controllers, err := m.controllers()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, controller := range controllers {
		group.Go(func() error { return controller.Run(ctx) })
	}
	return group.Wait()
}

// controllers returns the controllers that only the leader runs. They have no memory of
// earlier terms: another replica may have led in between.
func (m *materializer) controllers() ([]controller, error) {
	prober, err := endpointprobe.New(endpointprobe.Config{
		Leases: m.client.CoordinationV1(), Namespace: m.opts.Namespace, Clock: clock.RealClock{}, Dial: (&net.Dialer{}).DialContext, Host: m.askHost,
		Installed: m.installed, Members: m.members, Own: m.own,
	})
	if err != nil {
		return nil, err
	}
	materialized, err := dataplane.New(m.client, m.computed, clock.RealClock{}, prober, preference.Method(m.opts.PreferenceBy), m.host, m.own)
	if err != nil {
		return nil, err
	}
	prober.OnChange(materialized.Reconsider)
	statuses, err := exportstatus.New(m.computed, clock.RealClock{}, m.recorder, m.host, m.own)
	if err != nil {
		return nil, err
	}
	return []controller{
		prober,
		materialized,
		statuses,
		clusterid.New(m.client, m.computed, m.opts.ClusterID, m.own),
		credential.New(m.client, m.opts.Namespace, clock.RealClock{}, m.recorder, m.members.Core().V1().Secrets(), m.renewed.Core().V1().Secrets()),
		inventory.New(m.client.CoreV1(), m.computed, clock.RealClock{}, m.opts.Namespace, m.own, m.ownInstalled),
		m.mirror(),
		memberrefusals.New(clock.RealClock{}, m.recorder, m.own, m.members.Core().V1().Secrets()),
		memberstate.New(m.client.CoordinationV1(), clock.RealClock{}, m.recorder, m.opts.Namespace, m.installed, m.own, m.members.Core().V1().Secrets()),
	}, nil
}

// askHost asks the Kubernetes API of this cluster for its version.
func (m *materializer) askHost(ctx context.Context) error {
	return m.client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}

// withoutManagedFields removes managed fields, which are half of what caches hold.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}

// withoutStatusOfNodes removes managed fields and, of nodes, everything but what says where they
// are: most of a node are its images and conditions.
func withoutStatusOfNodes(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.Status, node.Annotations = corev1.NodeStatus{}, nil
	}
	return withoutManagedFields(object)
}
