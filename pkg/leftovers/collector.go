// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leftovers deletes the stored objects of deleted namespaces, such as ServiceExports.
// Usually the namespace controller of the cluster deletes them. It cannot while the API is not
// registered.
package leftovers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/absence"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

// Collector deletes the stored objects of deleted namespaces. Every replica runs one:
// it deletes through the API of its own server, with the permissions of the server.
type Collector struct {
	host  typedcorev1.NamespacesGetter
	queue loop.Queue

	synced     []cache.InformerSynced
	namespaces corev1listers.NamespaceLister
	stored     []resource
	// cluster is the UID of this cluster when the collector started.
	cluster types.UID
}

// resource is a resource that is stored in namespaces.
type resource struct {
	kind, resourceName string
	cached             cache.SharedIndexInformer
	delete             func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error
}

// storedIn returns all such resources of a server.
func storedIn(own versioned.Interface, cached mcsinformers.SharedInformerFactory) []resource {
	v1alpha1, v1beta1 := cached.MulticlusterX().V1alpha1(), cached.MulticlusterX().V1beta1()
	return []resource{
		{"ServiceExport", "serviceexports", v1beta1.ServiceExports().Informer(), func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
			return own.MulticlusterXV1beta1().ServiceExports(object.GetNamespace()).Delete(ctx, object.GetName(), options)
		}},
		{"ClusterProfile", "clusterprofiles", v1alpha1.ClusterProfiles().Informer(), func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
			return own.MulticlusterXV1alpha1().ClusterProfiles(object.GetNamespace()).Delete(ctx, object.GetName(), options)
		}},
		{"PlacementDecision", "placementdecisions", v1alpha1.PlacementDecisions().Informer(), func(ctx context.Context, object metav1.Object, options metav1.DeleteOptions) error {
			return own.MulticlusterXV1alpha1().PlacementDecisions(object.GetNamespace()).Delete(ctx, object.GetName(), options)
		}},
	}
}

// in returns the objects in a namespace.
func (r resource) in(namespace string) ([]metav1.Object, error) {
	found, err := r.cached.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	objects := make([]metav1.Object, 0, len(found))
	for _, object := range found {
		objects = append(objects, object.(metav1.Object))
	}
	return objects, nil
}

// New returns a collector. host and hostInformers are for the cluster, own and
// ownInformers for this server.
func New(host typedcorev1.NamespacesGetter, hostInformers informers.SharedInformerFactory, own versioned.Interface, ownInformers mcsinformers.SharedInformerFactory) (*Collector, error) {
	namespaces := hostInformers.Core().V1().Namespaces()
	c := &Collector{
		host: host, queue: loop.NewQueue("leftovers"),
		namespaces: namespaces.Lister(), stored: storedIn(own, ownInformers),
	}
	keys := map[cache.SharedIndexInformer]func(metav1.Object) string{namespaces.Informer(): metav1.Object.GetName}
	for _, resource := range c.stored {
		keys[resource.cached] = metav1.Object.GetNamespace
	}
	for informer, key := range keys {
		registration, err := informer.AddEventHandler(loop.OnTransition(func(old, object any) {
			if old != nil && object != nil {
				return // neither the name nor the UID of an object changes
			}
			for _, state := range []any{old, object} {
				if state, ok := state.(metav1.Object); ok {
					c.queue.Add(types.NamespacedName{Name: key(state)})
				}
			}
		}))
		if err != nil {
			return nil, err
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
}

// Run runs the collector until the context is canceled.
func (c *Collector) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "leftovers"))
	loop.Run(ctx, c.queue, 1, c.synced, c.sync)
}

// leftover is an object of a deleted namespace.
type leftover struct {
	resource
	metav1.Object
}

// sync deletes the leftovers in the namespace with the name of the key. A cache may
// only show that there are none; to delete any, the cluster is asked.
func (c *Collector) sync(ctx context.Context, key types.NamespacedName) error {
	var candidates []leftover
	for _, resource := range c.stored {
		objects, err := resource.in(key.Name)
		if err != nil {
			return err
		}
		for _, object := range objects {
			candidates = append(candidates, leftover{resource, object})
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	if c.cluster == "" {
		cluster, err := c.clusterUID(ctx)
		if err != nil {
			return err
		}
		c.cluster = cluster
	}
	cached, err := c.namespaces.Get(key.Name)
	if apierrors.IsNotFound(err) {
		cached, err = nil, nil
	}
	if err != nil || len(c.leftovers(candidates, cached)) == 0 {
		return err
	}
	live, err := c.namespace(ctx, key.Name)
	if err != nil {
		return err
	}
	found := c.leftovers(candidates, live)
	if len(found) == 0 {
		return nil
	}
	// A kube-apiserver with other or lost data does not have the namespace either.
	switch cluster, err := c.clusterUID(ctx); {
	case err != nil:
		return err
	case cluster != c.cluster:
		return fmt.Errorf("namespace %s has the UID %s instead of %s: the kube-apiserver serves another cluster, so that objects of missing namespaces are not deleted; restart mcs-apiserver",
			metav1.NamespaceSystem, cluster, c.cluster)
	}
	for _, object := range found {
		if err := object.collect(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) leftovers(candidates []leftover, namespace *corev1.Namespace) []leftover {
	var found []leftover
	for _, candidate := range candidates {
		if isLeftover(candidate, namespace, c.cluster) {
			found = append(found, candidate)
		}
	}
	return found
}

// collect deletes the object.
func (l leftover) collect(ctx context.Context) error {
	err := l.delete(ctx, l, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(l.GetUID()))})
	switch {
	case absence.Of(err, l.resourceName, l.GetName()), apierrors.IsConflict(err):
		return nil // another replica deleted it, and it may even exist again
	case err != nil:
		return fmt.Errorf("delete %s %s/%s of a deleted namespace: %w", l.kind, l.GetNamespace(), l.GetName(), err)
	}
	klog.FromContext(ctx).Info("Deleted object, because its namespace was deleted while the API was not registered",
		"kind", l.kind, "namespace", l.GetNamespace(), "name", l.GetName(), "finalizers", l.GetFinalizers())
	return nil
}

// namespace reads a namespace from the kube-apiserver. It returns nil only if the
// kube-apiserver says that this namespace does not exist.
func (c *Collector) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := c.host.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if absence.Of(err, "namespaces", name) {
		return nil, nil //nolint:nilnil // the contract of this function
	}
	if err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return namespace, nil
}

func (c *Collector) clusterUID(ctx context.Context) (types.UID, error) {
	system, err := c.host.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}
