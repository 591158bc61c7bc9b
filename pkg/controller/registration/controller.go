// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration registers the API groups of mcs-apiserver with the aggregation
// layer of the kube-apiserver, by means of APIServices. It never takes over a
// group-version that a CRD or another server provides. It removes the APIServices while
// an administrator detaches the API. While objects of CRDs are migrated, it registers the
// group-versions that they do not serve. On request, it publishes inert CRDs for programs that
// wait for them.
package registration

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	aggregatorlisters "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
)

const (
	// Name is the name of the Service, the Deployment and the service account of the
	// installation.
	Name = "mcs-apiserver"
	// ownerClusterRole is the cluster-scoped object of the installation that owns the
	// APIServices, so that they are deleted with it. The namespace cannot be the owner:
	// it is not finalized while an APIService refers to a missing Service.
	ownerClusterRole = "mcs-controller"
)

// queueKey is the only key: all APIServices are reconciled together.
var queueKey = types.NamespacedName{Name: "apiservices"}

// Clients are the APIs that the controller uses.
type Clients struct {
	Kubernetes kubernetes.Interface
	Aggregator aggregator.Interface
	Metadata   metadata.Interface
	Dynamic    dynamic.Interface
}

// Controller reconciles the APIServices of mcs-apiserver.
type Controller struct {
	clients  Clients
	service  types.NamespacedName
	recorder events.EventRecorder
	informer cache.SharedIndexInformer
	lister   aggregatorlisters.APIServiceLister
	// marks are triggers only: whether the API is detached, or being migrated, is read from
	// the kube-apiserver.
	marks []cache.SharedIndexInformer
	// migration is the one of them that says that objects of CRDs are migrated.
	migration cache.SharedIndexInformer
	// crds are published if they are not empty. published are those that exist.
	crds      []*unstructured.Unstructured
	published cache.SharedIndexInformer
	// takeOver is whether ClusterProperties are served although a CRD does.
	takeOver bool
	// keepAuthorities is that of the options.
	keepAuthorities bool
	// properties is a trigger only: whether the CRD serves ClusterProperties is read from the
	// kube-apiserver.
	properties cache.SharedIndexInformer
	queue      loop.Queue

	mu      sync.Mutex
	ca      []byte
	state   state
	leading bool
}

// Options are what an administrator decides about the registration.
type Options struct {
	// CRDs are published, if there are any.
	CRDs []*unstructured.Unstructured
	// TakeOverClusterProperties is whether ClusterProperties are served although a CRD does.
	TakeOverClusterProperties bool
	// KeepAuthorities is whether CAs that are registered stay so until they expire, because
	// others issue the serving certificate. A replica that does not lead adds its CA as well:
	// replicas get certificates of another CA one after another.
	KeepAuthorities bool
}

// New returns a controller for the server behind a Service in a namespace.
func New(clients Clients, namespace string, options Options, recorder events.EventRecorder) *Controller {
	registerMetrics()
	informer := aggregatorinformers.NewAPIServiceInformer(clients.Aggregator, 0, cache.Indexers{})
	migration := newMarkInformer(clients.Kubernetes, namespace, clusterset.MigrationConfigMap)
	return &Controller{
		clients:         clients,
		service:         types.NamespacedName{Namespace: namespace, Name: Name},
		recorder:        recorder,
		informer:        informer,
		lister:          aggregatorlisters.NewAPIServiceLister(informer.GetIndexer()),
		marks:           []cache.SharedIndexInformer{newMarkInformer(clients.Kubernetes, namespace, clusterset.DetachedConfigMap), migration},
		migration:       migration,
		crds:            options.CRDs,
		published:       metadatainformer.NewFilteredMetadataInformer(clients.Metadata, apiconflict.CRDResource, metav1.NamespaceAll, 0, cache.Indexers{}, ofMCSController).Informer(),
		takeOver:        options.TakeOverClusterProperties,
		keepAuthorities: options.KeepAuthorities,
		properties:      metadatainformer.NewFilteredMetadataInformer(clients.Metadata, apiconflict.CRDResource, metav1.NamespaceAll, 0, cache.Indexers{}, ofProperties).Informer(),
		queue:           loop.NewQueue("registration"),
	}
}

// newMarkInformer returns an informer of one ConfigMap.
func newMarkInformer(client kubernetes.Interface, namespace, name string) cache.SharedIndexInformer {
	return coreinformers.NewFilteredConfigMapInformer(client, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	})
}

// Migration returns the cache of the ConfigMap that says that objects of CRDs are migrated. It
// runs with the controller.
func (c *Controller) Migration() cache.SharedIndexInformer { return c.migration }

// SetAuthority sets the CA bundle with which the kube-apiserver verifies mcs-apiserver.
// Nothing is registered before it is set. It does not block.
func (c *Controller) SetAuthority(ca []byte) {
	c.mu.Lock()
	c.ca = ca
	c.mu.Unlock()
	c.queue.Add(queueKey)
}

// State describes the registration for probes. The error says why the API cannot be
// registered.
func (c *Controller) State() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.probe()
}

// Lead lets this replica write the APIServices until the context is canceled.
func (c *Controller) Lead(ctx context.Context) error {
	c.setLeading(true)
	defer c.setLeading(false)
	c.queue.Add(queueKey)
	<-ctx.Done()
	return nil
}

func (c *Controller) setLeading(leading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leading = leading
}

// Run runs the controller until the context is canceled. Every replica runs it, so that
// each reports refusals; only the one that leads writes.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "registration"))
	names := map[string]bool{}
	for _, gv := range groupVersions {
		names[gv.apiServiceName()] = true
	}
	if _, err := c.informer.AddEventHandler(loop.OnChange(func(object metav1.Object) {
		if names[object.GetName()] {
			c.queue.Add(queueKey)
		}
	})); err != nil {
		return err
	}
	triggers := append([]cache.SharedIndexInformer{c.properties}, c.marks...)
	if len(c.crds) > 0 {
		triggers = append(triggers, c.published)
	}
	for _, trigger := range triggers {
		if _, err := trigger.AddEventHandler(loop.OnChange(func(metav1.Object) { c.queue.Add(queueKey) })); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	for _, informer := range append(triggers, c.informer) {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	loop.Run(ctx, c.queue, 1, []cache.InformerSynced{c.informer.HasSynced}, c.sync)
	running.Wait()
	return nil
}

func (c *Controller) sync(ctx context.Context, _ types.NamespacedName) error {
	c.mu.Lock()
	ca, leading := c.ca, c.leading
	c.mu.Unlock()
	existing := map[served]*apiregistrationv1.APIService{}
	for _, gv := range groupVersions {
		apiService, err := c.lister.Get(gv.apiServiceName())
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		existing[gv] = apiService
	}
	switch detached, err := c.isMarked(ctx, clusterset.DetachedConfigMap); {
	case err != nil:
		return err
	case detached:
		c.announce(ctx, detachedState(c.service.Namespace))
		if !leading {
			return nil
		}
		if err := c.unpublish(ctx); err != nil { // or the kube-apiserver would serve them
			return err
		}
		return c.withdraw(ctx, existing)
	}
	refused, migrating, registrable, err := c.check(ctx, existing)
	if err != nil || !registrable || len(ca) == 0 {
		return err
	}
	if !leading {
		return c.addAuthority(ctx, existing, ca)
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	if err := c.register(ctx, existing, refused, migrating, ca, owner); err != nil {
		return err
	}
	if err := c.giveWay(ctx, existing, refused); err != nil {
		return err
	}
	return c.publish(ctx, existing, owner)
}

// isMarked reports whether a ConfigMap exists with which an administrator detached the API, or
// migrates to it. It asks the kube-apiserver: an informer may learn of the ConfigMap later than
// of the APIServices that were changed after it was created.
func (c *Controller) isMarked(ctx context.Context, name string) (bool, error) {
	_, err := c.clients.Kubernetes.CoreV1().ConfigMaps(c.service.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("check whether ConfigMap %s exists: %w", name, err)
	}
	return true, nil
}

// check reports which group-versions other servers provide, whether some of them are being
// migrated, and whether the others can be registered: an incomplete API is registered only
// while it is being migrated.
func (c *Controller) check(ctx context.Context, existing map[served]*apiregistrationv1.APIService) (refused sets.Set[served], migrating, registrable bool, err error) {
	registered := false
	refused = sets.New[served]()
	names := sets.New[string]()
	var refusals, notices []string
	for _, gv := range groupVersions {
		apiService := existing[gv]
		registered = registered || isOurs(apiService, c.service)
		if apiconflict.GivesWay(gv.GroupVersion) {
			notice, err := c.leftToOthers(ctx, gv, apiService)
			if err != nil {
				return nil, false, false, err
			}
			if notice != "" {
				refused.Insert(gv)
				notices = append(notices, notice)
			}
			continue
		}
		if owner := conflict(apiService, c.service); owner != (apiconflict.Owner{}) {
			crds, err := apiconflict.CRDsServing(ctx, c.clients.Metadata, c.clients.Dynamic, gv.GroupVersion)
			if err != nil {
				return nil, false, false, err
			}
			if inert, err := c.areInert(ctx, owner, crds[gv.GroupVersion]); err != nil {
				return nil, false, false, err
			} else if inert {
				continue // somebody deleted the APIService in front of them
			}
			refused.Insert(gv)
			names.Insert(gv.String())
			refusals = append(refusals, apiconflict.Refusal(gv.GroupVersion, owner, crds[gv.GroupVersion]))
		}
	}
	if len(refusals) > 0 {
		migrating, err = c.isMarked(ctx, clusterset.MigrationConfigMap)
		if err != nil {
			return nil, false, false, err
		}
		if migrating {
			c.announce(ctx, migratingState(c.service.Namespace, sets.List(names)))
			return refused, true, true, nil
		}
	}
	c.announce(ctx, registeredState(refusals, notices, registered))
	return refused, false, len(refusals) == 0 || registered, nil
}

// announce reports a state through probes and metrics, and once in the log and in an Event of
// the Deployment.
func (c *Controller) announce(ctx context.Context, now state) {
	c.mu.Lock()
	before := c.state
	c.state = now
	if now.event != before.event {
		now.measure()
	}
	c.mu.Unlock()
	if now == before || now.event == "" {
		return
	}
	logger := klog.FromContext(ctx)
	eventType := corev1.EventTypeNormal
	if now.isWarning() {
		eventType = corev1.EventTypeWarning
		logger.Error(nil, "API is not completely registered", "reason", now.event, "message", now.message)
	} else {
		logger.Info("API is not completely registered", "reason", now.event, "message", now.message)
	}
	deployment, err := c.clients.Kubernetes.AppsV1().Deployments(c.service.Namespace).Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		logger.Error(err, "Failed to get the Deployment to record an Event", "deployment", Name, "namespace", c.service.Namespace)
		return
	}
	regarding := &corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: "Deployment", Namespace: deployment.Namespace, Name: deployment.Name, UID: deployment.UID,
	}
	c.recorder.Eventf(regarding, nil, eventType, now.event, "Register", "%s", now.message)
}
