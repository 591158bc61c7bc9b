// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration registers the API groups of mcs-apiserver with the aggregation
// layer of the kube-apiserver, by means of APIServices. It never takes over a
// group-version that a CRD or another server provides.
package registration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	aggregatorlisters "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
)

const (
	// Name is the name of the Service and the Deployment of the installation.
	Name = "mcs-apiserver"
	// ownerClusterRole is the cluster-scoped object of the installation that owns the
	// APIServices, so that they are deleted with it. The namespace cannot be the owner:
	// it is not finalized while an APIService refers to a missing Service.
	ownerClusterRole = "mcs-controller"
)

// queueKey is the only key: all APIServices are reconciled together.
var queueKey = types.NamespacedName{Name: "apiservices"}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Clients are the APIs that the controller uses.
type Clients struct {
	Kubernetes kubernetes.Interface
	Aggregator aggregator.Interface
	Metadata   metadata.Interface
	Dynamic    dynamic.Interface
}

// Controller reconciles the APIServices of mcs-apiserver.
type Controller struct {
	clients   Clients
	service   types.NamespacedName
	recorder  events.EventRecorder
	informer  cache.SharedIndexInformer
	lister    aggregatorlisters.APIServiceLister
	queue     loop.Queue
	announced string

	mu      sync.Mutex
	ca      []byte
	refused error
	leading bool
}

// New returns a controller for the server behind a Service in a namespace.
func New(clients Clients, namespace string, recorder events.EventRecorder) *Controller {
	informer := aggregatorinformers.NewAPIServiceInformer(clients.Aggregator, 0, cache.Indexers{})
	return &Controller{
		clients:  clients,
		service:  types.NamespacedName{Namespace: namespace, Name: Name},
		recorder: recorder,
		informer: informer,
		lister:   aggregatorlisters.NewAPIServiceLister(informer.GetIndexer()),
		queue:    loop.NewQueue("registration"),
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

// Refused returns an error while another server provides the API and none of it could
// be registered. Once a part is registered, the remaining conflicts do not count: the
// Pod would become unready, and the registered part unavailable.
func (c *Controller) Refused() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
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
	done := make(chan struct{})
	go func() { defer close(done); c.informer.RunWithContext(ctx) }()
	loop.Run(ctx, c.queue, 1, []cache.InformerSynced{c.informer.HasSynced}, c.sync)
	<-done
	return nil
}

func (c *Controller) sync(ctx context.Context, _ types.NamespacedName) error {
	c.mu.Lock()
	ca, leading := c.ca, c.leading
	c.mu.Unlock()
	if len(ca) == 0 {
		return nil
	}
	existing := map[served]*apiregistrationv1.APIService{}
	registered := false
	var refusals []string
	for _, gv := range groupVersions {
		apiService, err := c.lister.Get(gv.apiServiceName())
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		existing[gv] = apiService
		registered = registered || apiService.Spec.Service != nil && isService(apiService.Spec.Service, c.service)
		if owner := conflict(apiService, c.service); owner != (conflictOwner{}) {
			crds, err := c.crdsServing(ctx, gv.GroupVersion)
			if err != nil {
				return err
			}
			refusals = append(refusals, refusal(gv, owner, crds))
		}
	}
	c.announce(ctx, refusals, registered)
	if !leading {
		return nil
	}
	if len(refusals) > 0 && !registered {
		return nil // an incomplete API is not registered
	}
	owner, err := c.owner(ctx)
	if err != nil {
		return err
	}
	for _, gv := range groupVersions {
		if conflict(existing[gv], c.service) != (conflictOwner{}) {
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

// crdsServing returns the names of the CRDs that serve a group-version. It lists
// metadata only, since a cluster may have hundreds of CRDs with very large schemas.
func (c *Controller) crdsServing(ctx context.Context, gv schema.GroupVersion) ([]string, error) {
	list, err := c.clients.Metadata.Resource(crdResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var names []string
	for _, item := range list.Items {
		if !strings.HasSuffix(item.Name, "."+gv.Group) {
			continue
		}
		crd, err := c.clients.Dynamic.Resource(crdResource).Get(ctx, item.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("get CustomResourceDefinition %s: %w", item.Name, err)
		}
		if crdServes(crd, gv) {
			names = append(names, item.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func crdServes(crd *unstructured.Unstructured, gv schema.GroupVersion) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return group == gv.Group && slices.ContainsFunc(versions, func(version any) bool {
		fields, ok := version.(map[string]any)
		return ok && fields["name"] == gv.Version && fields["served"] == true
	})
}

// announce reports refusals in the log, in an Event of the Deployment, and through
// readiness, once per change.
func (c *Controller) announce(ctx context.Context, refusals []string, registered bool) {
	message := strings.Join(refusals, "; ")
	c.mu.Lock()
	c.refused = nil
	if message != "" && !registered {
		c.refused = errors.New(message)
	}
	c.mu.Unlock()
	if message == c.announced {
		return
	}
	c.announced = message
	if message == "" {
		return
	}
	logger := klog.FromContext(ctx)
	logger.Error(nil, "Refused to register the API", "reason", message)
	deployment, err := c.clients.Kubernetes.AppsV1().Deployments(c.service.Namespace).Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		logger.Error(err, "Failed to get the Deployment to record an Event", "deployment", Name, "namespace", c.service.Namespace)
		return
	}
	regarding := &corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: "Deployment", Namespace: deployment.Namespace, Name: deployment.Name, UID: deployment.UID,
	}
	c.recorder.Eventf(regarding, nil, corev1.EventTypeWarning, "RegistrationRefused", "Register", "%s", message)
}
