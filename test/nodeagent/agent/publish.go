// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
)

// statusPublisher writes the status of one Pod.
type statusPublisher struct {
	client kubernetes.Interface
	// status is the last known status in the API server, and version the resourceVersion of
	// the Pod that had it.
	status  corev1.PodStatus
	version string
}

// observe notes a status that others have changed: the node lifecycle controller marks the Pods
// of an unreachable node as not ready.
func (p *statusPublisher) observe(pod *corev1.Pod) {
	if order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, p.version); err == nil && order > 0 {
		p.status, p.version = *pod.Status.DeepCopy(), pod.ResourceVersion
	}
}

// publish writes the status of the Pod if it differs from the last one.
func (p *statusPublisher) publish(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(p.status, status) {
		return nil
	}
	patch, err := statusPatch(pod.UID, p.status, status)
	if err != nil {
		return err
	}
	written, err := p.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the Pod is gone or was replaced
		return nil
	}
	if err != nil {
		return err
	}
	p.status, p.version = written.Status, written.ResourceVersion
	return nil
}

// statusPatch returns a patch from one status to another. It leaves conditions of others
// and another Pod of the same name unchanged.
func statusPatch(uid types.UID, before, after corev1.PodStatus) ([]byte, error) {
	old, err := json.Marshal(corev1.Pod{Status: before})
	if err != nil {
		return nil, err
	}
	changed, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: after})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(old, changed, corev1.Pod{})
}

// newStatus returns the desired status: the last one, with the changes since.
func newStatus(last corev1.PodStatus, pod *corev1.Pod, observed lifecycle.Observed, now time.Time) corev1.PodStatus {
	status := *last.DeepCopy()
	// Conditions of others are those of the API server.
	known := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	known.Status.Conditions = mergeConditions(pod.Status.Conditions, slices.DeleteFunc(slices.Clone(status.Conditions), func(c corev1.PodCondition) bool {
		return !slices.Contains(ownConditions, c.Type)
	}))
	status.Conditions = mergeConditions(status.Conditions, observed.Conditions(known, stamp(now)))
	status.ObservedGeneration = pod.Generation
	status.Phase = observed.Phase()
	status.InitContainerStatuses, status.ContainerStatuses = observed.Init, observed.Main
	if status.StartTime == nil {
		start := stamp(now)
		status.StartTime = &start
	}
	return status
}

// mergeConditions replaces conditions of the same type and adds the others.
func mergeConditions(conditions, more []corev1.PodCondition) []corev1.PodCondition {
	merged := slices.Clone(conditions)
	for _, condition := range more {
		i := slices.IndexFunc(merged, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
		if i < 0 {
			merged = append(merged, condition)
		} else {
			merged[i] = condition
		}
	}
	return merged
}

// ownConditions are the conditions that a kubelet sets.
var ownConditions = []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady}

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func setAddresses(status *corev1.PodStatus, addresses []netip.Addr, hostIPs []corev1.HostIP) {
	status.HostIPs = hostIPs
	status.HostIP = hostIPs[0].IP
	status.PodIP, status.PodIPs = "", nil
	for _, address := range addresses {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: address.String()})
	}
	if len(status.PodIPs) > 0 {
		status.PodIP = status.PodIPs[0].IP
	}
}
