// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// leasePeriod is the renewal interval of the Lease, as for a kubelet.
	leasePeriod = 10 * time.Second
	// leaseSeconds is the duration of the Lease.
	leaseSeconds = 40
	// retryPeriod is the delay between attempts while the API server does not respond.
	retryPeriod = time.Second
)

// nodeKeeper maintains the Node and its Lease.
type nodeKeeper struct {
	config *Config
	client kubernetes.Interface
}

// register creates the Node, or updates that of an earlier agent. It waits for the API
// server until the context is done.
func (k *nodeKeeper) register(ctx context.Context) error {
	for {
		err := k.keep(ctx)
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Info("Failed to register Node, retrying", "reason", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("register Node %s: %w", k.config.NodeName, err)
		case <-time.After(retryPeriod):
		}
	}
}

// run maintains Node and Lease until the context is done.
func (k *nodeKeeper) run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	informer := coreinformers.NewFilteredNodeInformer(k.client, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, k.config.NodeName).String()
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only when stopped
		UpdateFunc: func(_, current any) {
			if meta, status := k.config.nodeIsRight(current.(*corev1.Node), metav1.Now()); !meta || !status {
				signal(changed)
			}
		},
		DeleteFunc: func(any) { signal(changed) },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-done }()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
			timer.Reset(k.beat(ctx))
			continue
		}
		if err := k.keep(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to update Node")
		}
	}
}

// beat performs periodic updates and returns when it is due again.
func (k *nodeKeeper) beat(ctx context.Context) time.Duration {
	if err := k.renewLease(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to renew Lease of Node")
		}
		return retryPeriod
	}
	if err := k.keep(ctx); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to update Node")
		}
		return retryPeriod
	}
	return leasePeriod
}

// keep updates the Node if needed.
func (k *nodeKeeper) keep(ctx context.Context) error {
	nodes := k.client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, k.config.NodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			node, err = nodes.Create(ctx, k.config.desiredNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName}}), metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		if _, right := k.config.nodeIsRight(node, metav1.Now()); !right {
			node.Status = k.config.desiredStatus(node.Status, metav1.Now())
			if node, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if right, _ := k.config.nodeIsRight(node, metav1.Now()); !right {
			_, err = nodes.Update(ctx, k.config.desiredNode(node), metav1.UpdateOptions{})
		}
		return err
	})
}

func (k *nodeKeeper) renewLease(ctx context.Context) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, k.config.NodeName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	absent := err != nil
	if absent {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.config.NodeName}}
	}
	lease.Spec.HolderIdentity = ptr.To(k.config.NodeName)
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](leaseSeconds)
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if absent {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// signal wakes the reader of a channel of size 1 unless it is already signaled.
func signal(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}
