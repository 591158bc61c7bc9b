// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// binder is the scheduler of the cluster.
type binder struct {
	client kubernetes.Interface
	events record.EventRecorder
}

// run binds Pods until the context is done.
func (b *binder) run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, retryPeriod))
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
	node, err := b.choose(ctx, pod)
	if err != nil {
		return err
	}
	err = b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	switch {
	case err == nil:
		b.events.Eventf(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		// The Pod is gone, replaced or already bound: another event will follow.
		return nil
	}
	return err
}

// choose returns the node for a Pod. It reads the current objects, so that it knows of all
// earlier bindings.
func (b *binder) choose(ctx context.Context, pod *corev1.Pod) (string, error) {
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods, err := b.client.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	node := chooseNode(pod, nodes.Items, pods.Items)
	if node == "" {
		return "", fmt.Errorf("none of %d nodes is ready and accepts the Pod", len(nodes.Items))
	}
	return node, nil
}

// chooseNode returns the ready node that accepts a Pod and runs the fewest Pods of the same
// owner, or an empty string. Among equals, it is the first one.
func chooseNode(pod *corev1.Pod, nodes []corev1.Node, pods []corev1.Pod) string {
	running := map[string]int{}
	for i := range pods {
		if sameOwner(&pods[i], pod) && pods[i].DeletionTimestamp == nil {
			running[pods[i].Spec.NodeName]++
		}
	}
	chosen := ""
	for i := range nodes {
		name := nodes[i].Name
		if accepts(&nodes[i], pod) && (chosen == "" || running[name] < running[chosen]) {
			chosen = name
		}
	}
	return chosen
}

// accepts reports whether a node is ready, not cordoned, and has no taint that keeps a Pod
// from it.
func accepts(node *corev1.Node, pod *corev1.Pod) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
	return ready && !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, func(toleration corev1.Toleration) bool {
			return toleration.ToleratesTaint(klog.Background(), &taint, true)
		})
	})
}

// sameOwner reports whether a controller created both Pods, such as a ReplicaSet.
func sameOwner(a, b *corev1.Pod) bool {
	owner := metav1.GetControllerOf(a)
	other := metav1.GetControllerOf(b)
	return owner != nil && other != nil && owner.UID == other.UID
}

// needsBinding reports whether a Pod waits for this scheduler.
func needsBinding(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil &&
		pod.Spec.SchedulerName == corev1.DefaultSchedulerName && len(pod.Spec.SchedulingGates) == 0
}
