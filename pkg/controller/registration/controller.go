// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration registers the API groups of mcs-apiserver with the aggregation
// layer of the kube-apiserver, by means of APIServices. It never takes over a
// group-version that a CRD or another server provides. It removes the APIServices while
// an administrator detaches the API. On request, it publishes inert CRDs for programs that
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
	// marks is a trigger only: whether the API is detached is read from the
	// kube-apiserver.
	marks cache.SharedIndexInformer
	// crds are published if they are not empty. published are those that exist.
	crds      []*unstructured.Unstructured
	published cache.SharedIndexInformer
	// takeOver is whether ClusterProperties are served although a CRD does.
	takeOver bool
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
}

// New returns a controller for the server behind a Service in a namespace.
func New(clients Clients, namespace string, options Options, recorder events.EventRecorder) *Controller {
	informer := aggregatorinformers.NewAPIServiceInformer(clients.Aggregator, 0, cache.Indexers{})
	return &Controller{
		clients:  clients,
		service:  types.NamespacedName{Namespace: namespace, Name: Name},
		recorder: recorder,
		informer: informer,
		lister:   aggregatorlisters.NewAPIServiceLister(informer.GetIndexer()),
		marks: coreinformers.NewFilteredConfigMapInformer(clients.Kubernetes, namespace, 0, cache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, clusterset.DetachedConfigMap).String()
		}),
		crds:       options.CRDs,
		published:  metadatainformer.NewFilteredMetadataInformer(clients.Metadata, apiconflict.CRDResource, metav1.NamespaceAll, 0, cache.Indexers{}, ofMCSController).Informer(),
		takeOver:   options.TakeOverClusterProperties,
		properties: metadatainformer.NewFilteredMetadataInformer(clients.Metadata, apiconflict.CRDResource, metav1.NamespaceAll, 0, cache.Indexers{}, ofProperties).Informer(),
		queue:      loop.NewQueue("registration"),
	}
}

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
	triggers := []cache.SharedIndexInformer{c.marks, c.properties}
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
	switch detached, err := c.isDetached(ctx); {
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
	refused, registrable, err := c.check(ctx, existing)
	if err != nil || !registrable || !leading || len(ca) == 0 {
		return err
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	if err := c.register(ctx, existing, refused, ca, owner); err != nil {
		return err
	}
	if err := c.giveWay(ctx, existing, refused); err != nil {
		return err
	}
	return c.publish(ctx, existing, owner)
}

// isDetached reports whether an administrator detached the API. It asks the
// kube-apiserver: an informer may learn of the ConfigMap later than of the APIServices
// that were deleted after it was created.
func (c *Controller) isDetached(ctx context.Context) (bool, error) {
	_, err := c.clients.Kubernetes.CoreV1().ConfigMaps(c.service.Namespace).Get(ctx, clusterset.DetachedConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("check whether the API is detached: %w", err)
	}
	return true, nil
}

// withdraw deletes the APIServices of mcs-apiserver.
func (c *Controller) withdraw(ctx context.Context, existing map[served]*apiregistrationv1.APIService) error {
	for _, apiService := range existing {
		if !isOurs(apiService, c.service) {
			continue
		}
		err := c.clients.Aggregator.ApiregistrationV1().APIServices().Delete(ctx, apiService.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(apiService.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete APIService %s: %w", apiService.Name, err)
		}
	}
	return nil
}

// check reports which group-versions other servers provide, and whether the others can
// be registered.
func (c *Controller) check(ctx context.Context, existing map[served]*apiregistrationv1.APIService) (refused sets.Set[served], registrable bool, err error) {
	registered := false
	refused = sets.New[served]()
	var refusals, notices []string
	for _, gv := range groupVersions {
		apiService := existing[gv]
		registered = registered || isOurs(apiService, c.service)
		if apiconflict.GivesWay(gv.GroupVersion) {
			notice, err := c.leftToOthers(ctx, gv, apiService)
			if err != nil {
				return nil, false, err
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
				return nil, false, err
			}
			if inert, err := c.areInert(ctx, owner, crds[gv.GroupVersion]); err != nil {
				return nil, false, err
			} else if inert {
				continue // somebody deleted the APIService in front of them
			}
			refused.Insert(gv)
			refusals = append(refusals, apiconflict.Refusal(gv.GroupVersion, owner, crds[gv.GroupVersion]))
		}
	}
	c.announce(ctx, registeredState(refusals, notices, registered))
	return refused, len(refusals) == 0 || registered, nil // an incomplete API is not registered
}

// register creates or updates the APIServices of the group-versions that are not refused.
func (c *Controller) register(ctx context.Context, existing map[served]*apiregistrationv1.APIService, refused sets.Set[served], ca []byte, owner metav1.OwnerReference) error {
	for _, gv := range groupVersions {
		if refused.Has(gv) {
			continue
		}
		if err := c.apply(ctx, existing[gv], desired(existing[gv], gv, c.service, ca, owner)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) apply(ctx context.Context, existing, apiService *apiregistrationv1.APIService) error {
	logger := klog.FromContext(ctx)
	client := c.clients.Aggregator.ApiregistrationV1().APIServices()
	var err error
	switch {
	case existing == nil:
		_, err = client.Create(ctx, apiService, metav1.CreateOptions{})
	case unchanged(existing, apiService):
		return nil
	default:
		_, err = client.Update(ctx, apiService, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("apply APIService %s: %w", apiService.Name, err)
	}
	logger.Info("Registered API", "groupVersion", apiService.Spec.Group+"/"+apiService.Spec.Version, "new", existing == nil)
	return nil
}

func (c *Controller) owner(ctx context.Context) (metav1.OwnerReference, error) {
	role, err := c.clients.Kubernetes.RbacV1().ClusterRoles().Get(ctx, ownerClusterRole, metav1.GetOptions{})
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("get the ClusterRole that owns the APIServices: %w", err)
	}
	return metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
}

// announce reports a state through probes, and once in the log and in an Event of the
// Deployment.
func (c *Controller) announce(ctx context.Context, now state) {
	c.mu.Lock()
	before := c.state
	c.state = now
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
