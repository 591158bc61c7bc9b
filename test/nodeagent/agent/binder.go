// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// binder is the scheduler of a cluster with one node: it binds every Pod to that node.
type binder struct {
	node   string
	client kubernetes.Interface
	events record.EventRecorder
}

// run binds Pods until the context is done.
func (b *binder) run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	informer := coreinformers.NewFilteredPodInformer(b.client, metav1.NamespaceAll, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "").String()
	})
	enqueue := func(object any) {
		if pod := object.(*corev1.Pod); needsBinding(pod) {
			queue.Add(cache.MetaObjectToName(pod))
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only when stopped
		AddFunc:    enqueue,
		UpdateFunc: func(_, current any) { enqueue(current) },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
		queue.ShutDown()
	}()
	defer func() { <-done }()
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return
		}
		b.process(ctx, queue, informer.GetStore(), name)
		queue.Done(name)
	}
}

func (b *binder) process(ctx context.Context, queue workqueue.TypedRateLimitingInterface[cache.ObjectName], pods cache.Store, name cache.ObjectName) {
	object, exists, err := pods.GetByKey(name.String())
	if err != nil || !exists || !needsBinding(object.(*corev1.Pod)) {
		queue.Forget(name)
		return
	}
	if err := b.bind(ctx, object.(*corev1.Pod)); err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to bind Pod", "pod", name)
			queue.AddRateLimited(name)
		}
		return
	}
	queue.Forget(name)
}

func (b *binder) bind(ctx context.Context, pod *corev1.Pod) error {
	err := b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.node},
	}, metav1.CreateOptions{})
	switch {
	case err == nil:
		b.events.Eventf(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, b.node)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// The Pod is gone, replaced or already bound: another event will follow.
		return nil
	}
	return err
}

// needsBinding reports whether a Pod waits for this scheduler.
func needsBinding(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil &&
		pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
}
