// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memberlease maintains a Lease per member. Its renew time is when the member was
// last known to be alive. The Leases outlive this process and the mcs-apiserver API, and
// show the members with the cluster's own API.
package memberlease

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationv1listers "k8s.io/client-go/listers/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
)

const (
	// namePrefix distinguishes the Leases of members from others in the namespace.
	namePrefix = "member-"
	// renewEvery is the minimum time between two renewals of a Lease: there may be
	// hundreds of members, and their TTL is much longer.
	renewEvery = 10 * time.Second
)

// Controller reconciles the Leases of members.
type Controller struct {
	client    kubernetes.Interface
	namespace string
	queue     loop.Queue
	handlers  loop.Handlers
	members   clustersetlisters.MemberLister
	leases    coordinationv1listers.LeaseLister
}

// New returns a controller for the Leases in a namespace. host is an informer factory for
// that namespace.
func New(client kubernetes.Interface, namespace string, host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory) *Controller {
	members := own.ClusterSet().V1alpha1().Members()
	leases := host.Coordination().V1().Leases()
	c := &Controller{client: client, namespace: namespace, queue: loop.NewQueue("memberlease"), members: members.Lister(), leases: leases.Lister()}
	c.handlers = loop.Handlers{
		members.Informer(): loop.OnChange(func(object metav1.Object) { c.queue.Add(types.NamespacedName{Name: object.GetName()}) }),
		leases.Informer():  loop.OnChange(c.leaseChanged),
	}
	return c
}

func (c *Controller) leaseChanged(object metav1.Object) {
	if lease, ok := object.(*coordinationv1.Lease); ok && isMemberLease(lease) {
		c.queue.Add(types.NamespacedName{Name: lease.Name[len(namePrefix):]})
	}
}

// isMemberLease reports whether a Lease is managed by this controller.
func isMemberLease(lease *coordinationv1.Lease) bool {
	return lease.Labels[multicluster.ManagedByLabel] == multicluster.ManagedBy && len(lease.Name) > len(namePrefix) && lease.Name[:len(namePrefix)] == namePrefix
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "memberlease"))
	return c.handlers.Run(ctx, c.queue, 1, c.sync)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	existing, err := c.leases.Leases(c.namespace).Get(namePrefix + key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil || !isMemberLease(existing) {
		existing = nil
	}
	entry, err := c.members.Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		entry = nil
	}
	client := c.client.CoordinationV1().Leases(c.namespace)
	switch wanted := desired(existing, entry, c.namespace); {
	case wanted == nil && existing == nil:
		return nil
	case wanted == nil:
		if err := client.Delete(ctx, existing.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Lease of former member: %w", err)
		}
	case existing == nil:
		if _, err := client.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Lease of member: %w", err)
		}
	case wanted != existing:
		if _, err := client.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("renew Lease of member: %w", err)
		}
	}
	return nil
}

// desired returns the Lease of a member, nil if it should have none, or the existing one
// if it does not have to be renewed. A member that has not been seen since the server
// started keeps its Lease.
func desired(existing *coordinationv1.Lease, entry *clustersetv1alpha1.Member, namespace string) *coordinationv1.Lease {
	if entry == nil || entry.Status.State == clustersetv1alpha1.MemberLocal || entry.Status.State == clustersetv1alpha1.MemberRefused {
		return nil
	}
	if entry.Status.LastSeen == nil {
		return existing
	}
	seen := entry.Status.LastSeen.Time
	if existing != nil && existing.Spec.RenewTime != nil && seen.Sub(existing.Spec.RenewTime.Time) < renewEvery &&
		ptr.Deref(existing.Spec.LeaseDurationSeconds, 0) == entry.Status.TTLSeconds {
		return existing
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namePrefix + entry.Name}}
	if existing != nil {
		lease = existing.DeepCopy()
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[multicluster.ManagedByLabel] = multicluster.ManagedBy
	lease.Spec.HolderIdentity = ptr.To(entry.Name)
	lease.Spec.LeaseDurationSeconds = nil // 0 is invalid
	if entry.Status.TTLSeconds > 0 {
		lease.Spec.LeaseDurationSeconds = ptr.To(entry.Status.TTLSeconds)
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(seen))
	return lease
}
