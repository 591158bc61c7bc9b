// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storagenamespace ensures that the namespace in which mcs-apiserver stores its
// objects exists, and that mcs-apiserver may write to it. The namespace is not one of the
// objects that an administrator applies, so that uninstalling does not delete it.
package storagenamespace

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
)

// Controller creates the storage namespace and the RoleBinding in it. It never deletes
// the namespace.
type Controller struct {
	client               kubernetes.Interface
	key                  types.NamespacedName
	account              types.NamespacedName
	queue                loop.Queue
	namespaces, bindings cache.SharedIndexInformer
}

// New returns a controller of a storage namespace. account is the service account that
// stores objects in it.
func New(client kubernetes.Interface, namespace string, account types.NamespacedName) *Controller {
	named := func(name string) func(*metav1.ListOptions) {
		return func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	return &Controller{
		client: client, account: account, queue: loop.NewQueue("storagenamespace"),
		key:        types.NamespacedName{Namespace: namespace, Name: roleName},
		namespaces: coreinformers.NewFilteredNamespaceInformer(client, 0, cache.Indexers{}, named(namespace)),
		bindings:   rbacinformers.NewFilteredRoleBindingInformer(client, namespace, 0, cache.Indexers{}, named(roleName)),
	}
}

// Run runs the controller until the context is canceled. Every replica runs it: no server
// becomes ready without the namespace.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "storagenamespace"))
	var informers sync.WaitGroup
	defer informers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handlers := loop.Handlers{}
	for _, informer := range []cache.SharedIndexInformer{c.namespaces, c.bindings} {
		handlers[informer] = loop.OnChange(func(metav1.Object) { c.queue.Add(c.key) })
		informers.Go(func() { informer.RunWithContext(ctx) })
	}
	c.queue.Add(c.key) // without the namespace there is no event
	return handlers.Run(ctx, c.queue, 1, c.sync)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	namespace, err := cached[corev1.Namespace](c.namespaces, key.Namespace)
	if err != nil {
		return err
	}
	if namespace != nil && namespace.DeletionTimestamp != nil {
		return nil // its end is an event
	}
	if namespace == nil {
		if _, err := c.client.CoreV1().Namespaces().Create(ctx, desiredNamespace(key.Namespace), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create storage namespace: %w", err)
		}
		klog.FromContext(ctx).Info("Created storage namespace", "namespace", key.Namespace)
	}
	return c.bind(ctx, key)
}

// bind allows mcs-apiserver to write to the namespace.
func (c *Controller) bind(ctx context.Context, key types.NamespacedName) error {
	existing, err := cached[rbacv1.RoleBinding](c.bindings, key.String())
	if err != nil {
		return err
	}
	client, wanted := c.client.RbacV1().RoleBindings(key.Namespace), desiredBinding(existing, c.account)
	switch {
	case existing == nil:
		_, err = client.Create(ctx, wanted, metav1.CreateOptions{})
	case existing.RoleRef != wanted.RoleRef:
		return fmt.Errorf("RoleBinding %s refers to %s %s and cannot be changed; delete it so that it is created again",
			key, existing.RoleRef.Kind, existing.RoleRef.Name)
	case wanted != existing:
		_, err = client.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("allow mcs-apiserver to write to the storage namespace: %w", err)
	}
	return nil
}

// cached returns an object from a cache, nil if it does not exist.
func cached[T any](informer cache.SharedIndexInformer, key string) (*T, error) {
	object, exists, err := informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil, err
	}
	typed, ok := object.(*T)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", object)
	}
	return typed, nil
}
