// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Observed is the input of the status of a Pod.
type Observed struct {
	// Connected is set if the Pod has its network.
	Connected bool
	// Initialized is that of Pod.
	Initialized bool
	// Finished is set if no container runs or will ever run.
	Finished bool
	// Init and Main are the container statuses.
	Init, Main []corev1.ContainerStatus
}

// Phase returns the phase of a Pod.
func (o Observed) Phase() corev1.PodPhase {
	if o.Finished {
		for _, status := range append(o.failedInit(), o.Main...) {
			if status.State.Terminated == nil || status.State.Terminated.ExitCode != 0 {
				return corev1.PodFailed
			}
		}
		return corev1.PodSucceeded
	}
	if !o.Initialized {
		return corev1.PodPending
	}
	for _, status := range o.Main {
		if status.State.Running == nil && status.State.Terminated == nil && status.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

func (o Observed) failedInit() []corev1.ContainerStatus {
	var failed []corev1.ContainerStatus
	for _, status := range o.Init {
		if !o.Initialized && status.State.Terminated != nil && status.State.Terminated.ExitCode != 0 {
			failed = append(failed, status)
		}
	}
	return failed
}

// Conditions returns the conditions of a Pod that a kubelet sets. Transition times of unchanged
// conditions are kept.
func (o Observed) Conditions(pod *corev1.Pod, now metav1.Time) []corev1.PodCondition {
	containers := o.containersReady(pod)
	conditions := []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, o.Connected, "", ""),
		o.initialized(),
		ready(pod, containers),
		containers,
	}
	for i := range conditions {
		conditions[i].ObservedGeneration = pod.Generation
		conditions[i].LastTransitionTime = now
		for _, before := range pod.Status.Conditions {
			if before.Type == conditions[i].Type && before.Status == conditions[i].Status {
				conditions[i].LastTransitionTime = before.LastTransitionTime
			}
		}
	}
	return conditions
}

func (o Observed) initialized() corev1.PodCondition {
	if o.Initialized {
		return condition(corev1.PodInitialized, true, "", "")
	}
	var names []string
	for _, status := range o.Init {
		if !status.Ready {
			names = append(names, status.Name)
		}
	}
	return condition(corev1.PodInitialized, false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(names, " ")))
}

func (o Observed) containersReady(pod *corev1.Pod) corev1.PodCondition {
	if o.Phase() == corev1.PodSucceeded {
		return condition(corev1.ContainersReady, false, "PodCompleted", "")
	}
	var names []string
	for _, status := range append(sidecars(pod, o.Init), o.Main...) {
		if !status.Ready {
			names = append(names, status.Name)
		}
	}
	if len(names) > 0 {
		return condition(corev1.ContainersReady, false, "ContainersNotReady", fmt.Sprintf("containers with unready status: [%s]", strings.Join(names, " ")))
	}
	return condition(corev1.ContainersReady, true, "", "")
}

// ready also depends on the conditions of readiness gates, which others set.
func ready(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	if containers.Status != corev1.ConditionTrue {
		return condition(corev1.PodReady, false, containers.Reason, containers.Message)
	}
	var missing []string
	for _, gate := range pod.Spec.ReadinessGates {
		if !isTrue(pod, gate.ConditionType) {
			missing = append(missing, string(gate.ConditionType))
		}
	}
	if len(missing) > 0 {
		return condition(corev1.PodReady, false, "ReadinessGatesNotReady", fmt.Sprintf("conditions that are not true: [%s]", strings.Join(missing, " ")))
	}
	return condition(corev1.PodReady, true, "", "")
}

func sidecars(pod *corev1.Pod, statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var found []corev1.ContainerStatus
	for _, c := range ContainersOf(&pod.Spec) {
		for _, status := range statuses {
			if c.Kind == Sidecar && status.Name == c.Name {
				found = append(found, status)
			}
		}
	}
	return found
}

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func condition(kind corev1.PodConditionType, value bool, reason, message string) corev1.PodCondition {
	status := corev1.ConditionFalse
	if value {
		status = corev1.ConditionTrue
	}
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message}
}
