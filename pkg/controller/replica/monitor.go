// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replica takes replicas out of service that lost the connection to the cluster.
//
// The kube-apiserver sends requests to all ready Pods of the Service. When a node vanishes,
// its Pods stay ready until the node controller notices, which takes 50 seconds by default,
// and a share of all requests hangs meanwhile. Therefore every replica renews a Lease of its
// own, and marks the Pods of replicas that do not as not ready, as the node controller would.
// A kubelet that is connected marks its Pods as ready again, so that a mistake does not last.
package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// period is the time between two renewals.
	period = 500 * time.Millisecond
	// timeout is how long a renewal and what follows from it may take.
	timeout = 2 * time.Second
	// namePrefix distinguishes the Leases of replicas from others in the namespace.
	namePrefix = "replica-"
	// NotResponding is the reason of the condition Ready of a Pod that was taken out of service.
	NotResponding = "ReplicaNotResponding"
)

// leaseLabels are the labels of the Leases of replicas. They are not those of the Leases of
// members, which prove that the API was served.
var leaseLabels = labels.Set{"app.kubernetes.io/name": "mcs-apiserver", "app.kubernetes.io/component": "replica"}

// Monitor renews the Lease of one replica and monitors the Leases of the others.
type Monitor struct {
	client    kubernetes.Interface
	namespace string
	pod       string
	recorder  events.EventRecorder
	// healthy reports whether the server of this replica is ready.
	healthy func() bool

	// lease is the Lease as last written, or nil if it has to be read.
	lease *coordinationv1.Lease
	peers sightings
}

// New returns a monitor for the replica in a Pod. Nothing is taken out of service while healthy
// returns false.
func New(client kubernetes.Interface, namespace, pod string, recorder events.EventRecorder, healthy func() bool) *Monitor {
	return &Monitor{client: client, namespace: namespace, pod: pod, recorder: recorder, healthy: healthy}
}

// Run renews and monitors until the context is canceled.
func (m *Monitor) Run(ctx context.Context) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), "replica")
	ctx = klog.NewContext(ctx, logger)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := m.beat(ctx); err != nil && ctx.Err() == nil {
			logger.V(2).Info("Failed to monitor replicas, retrying", "err", err)
			m.peers = nil // the others may have had the same problem
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// beat renews the Lease, and takes replicas out of service that did not renew theirs.
func (m *Monitor) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := m.renew(ctx); err != nil {
		return fmt.Errorf("renew Lease of this replica: %w", err)
	}
	if !m.healthy() {
		m.peers = nil // without this replica, others must stay
		return nil
	}
	leases, err := m.client.CoordinationV1().Leases(m.namespace).List(ctx, metav1.ListOptions{LabelSelector: leaseLabels.String()})
	if err != nil {
		return fmt.Errorf("list Leases of replicas: %w", err)
	}
	var silent []Pod
	m.peers, silent = m.peers.next(renewals(leases.Items, m.pod))
	for _, pod := range silent {
		if err := m.takeOut(ctx, pod); err != nil {
			return fmt.Errorf("mark Pod %s as not ready: %w", pod.Name, err)
		}
	}
	return nil
}

// renew renews the Lease of this replica, and creates it if it does not exist.
func (m *Monitor) renew(ctx context.Context) error {
	lease := m.lease.DeepCopy()
	m.lease = nil // until it was written
	leases := m.client.CoordinationV1().Leases(m.namespace)
	if lease == nil {
		var err error
		if lease, err = leases.Get(ctx, namePrefix+m.pod, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return m.create(ctx)
		} else if err != nil {
			return err
		}
	}
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	lease, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	m.lease = lease
	return nil
}

// create creates the Lease of this replica. It is deleted with the Pod.
func (m *Monitor) create(ctx context.Context) error {
	pod, err := m.client.CoreV1().Pods(m.namespace).Get(ctx, m.pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	lease, err := m.client.CoordinationV1().Leases(m.namespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: namePrefix + m.pod, Labels: leaseLabels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &pod.Name, LeaseDurationSeconds: ptr.To(int32(silence.Seconds())), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	m.lease = lease
	return nil
}

// takeOut marks a Pod as not ready, so that it leaves the Service, unless it would be the last
// one in the Service.
func (m *Monitor) takeOut(ctx context.Context, silent Pod) error {
	pods := m.client.CoreV1().Pods(m.namespace)
	own, err := pods.Get(ctx, m.pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !ready(own) {
		return fmt.Errorf("%s is not ready itself", m.pod)
	}
	pod, err := pods.Get(ctx, silent.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if pod.UID != silent.UID || !ready(pod) {
		return nil
	}
	message := fmt.Sprintf("replica has not renewed Lease %s%s for %s; it was taken out of service by %s", namePrefix, pod.Name, silence, m.pod)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: NotResponding, Message: message, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // deleted or replaced meanwhile
		return nil
	} else if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Took replica out of service", "pod", klog.KObj(pod), "node", pod.Spec.NodeName, "reason", message)
	m.recorder.Eventf(pod, nil, corev1.EventTypeWarning, NotResponding, "TakeOutOfService", "%s", message)
	return nil
}

// ready reports whether a Pod is in the Service.
func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}
