// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leftovers deletes the ServiceExports of deleted namespaces. Usually the
// namespace controller of the cluster deletes them. It cannot while the API is not
// registered.
package leftovers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
)

// Collector deletes the ServiceExports of deleted namespaces. Every replica runs one:
// it deletes through the API of its own server, with the permissions of the server.
type Collector struct {
	host  typedcorev1.NamespacesGetter
	own   versioned.Interface
	queue loop.Queue

	synced     []cache.InformerSynced
	namespaces corev1listers.NamespaceLister
	exports    multiclusterxlisters.ServiceExportLister
	// cluster is the UID of this cluster when the collector started.
	cluster types.UID
}

// New returns a collector. host and hostInformers are for the cluster, own and
// ownInformers for this server.
func New(host typedcorev1.NamespacesGetter, hostInformers informers.SharedInformerFactory, own versioned.Interface, ownInformers mcsinformers.SharedInformerFactory) (*Collector, error) {
	namespaces, exports := hostInformers.Core().V1().Namespaces(), ownInformers.MulticlusterX().V1beta1().ServiceExports()
	c := &Collector{
		host: host, own: own, queue: loop.NewQueue("leftovers"),
		namespaces: namespaces.Lister(), exports: exports.Lister(),
	}
	for informer, key := range map[cache.SharedIndexInformer]func(metav1.Object) string{
		namespaces.Informer(): metav1.Object.GetName,
		exports.Informer():    metav1.Object.GetNamespace,
	} {
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

// sync deletes the leftovers in the namespace with the name of the key. A cache may
// only show that there are none; to delete any, the cluster is asked.
func (c *Collector) sync(ctx context.Context, key types.NamespacedName) error {
	exports, err := c.exports.ServiceExports(key.Name).List(labels.Everything())
	if err != nil || len(exports) == 0 {
		return err
	}
	if c.cluster == "" {
		if c.cluster, err = c.clusterUID(ctx); err != nil {
			return err
		}
	}
	cached, err := c.namespaces.Get(key.Name)
	if apierrors.IsNotFound(err) {
		cached, err = nil, nil
	}
	if err != nil || len(c.leftovers(exports, cached)) == 0 {
		return err
	}
	live, err := c.namespace(ctx, key.Name)
	if err != nil {
		return err
	}
	found := c.leftovers(exports, live)
	if len(found) == 0 {
		return nil
	}
	// A kube-apiserver with other or lost data does not have the namespace either.
	switch cluster, err := c.clusterUID(ctx); {
	case err != nil:
		return err
	case cluster != c.cluster:
		return fmt.Errorf("namespace %s has the UID %s instead of %s: the kube-apiserver serves another cluster, so that ServiceExports of missing namespaces are not deleted; restart mcs-apiserver",
			metav1.NamespaceSystem, cluster, c.cluster)
	}
	for _, export := range found {
		if err := c.delete(ctx, export); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) leftovers(exports []*multiclusterxv1beta1.ServiceExport, namespace *corev1.Namespace) []*multiclusterxv1beta1.ServiceExport {
	var found []*multiclusterxv1beta1.ServiceExport
	for _, export := range exports {
		if isLeftover(export, namespace, c.cluster) {
			found = append(found, export)
		}
	}
	return found
}

func (c *Collector) delete(ctx context.Context, export *multiclusterxv1beta1.ServiceExport) error {
	err := c.own.MulticlusterXV1beta1().ServiceExports(export.Namespace).Delete(ctx, export.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(export.UID)),
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // another replica deleted it, and it may even exist again
	case err != nil:
		return fmt.Errorf("delete ServiceExport %s/%s of a deleted namespace: %w", export.Namespace, export.Name, err)
	}
	klog.FromContext(ctx).Info("Deleted ServiceExport, because its namespace was deleted while the API was not registered",
		"namespace", export.Namespace, "service", export.Name, "finalizers", export.Finalizers)
	return nil
}

// namespace reads a namespace from the kube-apiserver. It returns nil only if the
// kube-apiserver says that this namespace does not exist.
func (c *Collector) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := c.host.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if isAbsent(err, name) {
		return nil, nil //nolint:nilnil // the contract of this function
	}
	if err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return namespace, nil
}

// isAbsent reports whether the kube-apiserver says that a namespace does not exist.
// A 404 that does not name the namespace has another origin, such as a proxy.
func isAbsent(err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == name
}

func (c *Collector) clusterUID(ctx context.Context) (types.UID, error) {
	system, err := c.host.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}
