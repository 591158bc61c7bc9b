// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func waiting(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
}

func crashed(name string) corev1.ContainerStatus {
	status := waiting(name)
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	return status
}

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func exited(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func statuses(list ...corev1.ContainerStatus) []corev1.ContainerStatus { return list }

func TestPhase(t *testing.T) {
	for name, test := range map[string]struct {
		observed Observed
		want     corev1.PodPhase
	}{
		"not initialized":                       {Observed{Init: statuses(running("i")), Main: statuses(waiting("a"))}, corev1.PodPending},
		"not started":                           {Observed{Initialized: true, Main: statuses(running("a"), waiting("b"))}, corev1.PodPending},
		"running":                               {Observed{Initialized: true, Main: statuses(running("a"), exited("b", 1))}, corev1.PodRunning},
		"crashing":                              {Observed{Initialized: true, Main: statuses(crashed("a"))}, corev1.PodRunning},
		"exited, but runs again":                {Observed{Initialized: true, Main: statuses(exited("a", 0))}, corev1.PodRunning},
		"succeeded":                             {Observed{Initialized: true, Finished: true, Init: statuses(exited("s", 143)), Main: statuses(exited("a", 0))}, corev1.PodSucceeded},
		"failed":                                {Observed{Initialized: true, Finished: true, Main: statuses(exited("a", 0), exited("b", 2))}, corev1.PodFailed},
		"finished before any container started": {Observed{Finished: true, Main: statuses(waiting("a"))}, corev1.PodFailed},
		"init container failed":                 {Observed{Finished: true, Init: statuses(exited("i", 1)), Main: statuses(waiting("a"))}, corev1.PodFailed},
		"finished while waiting":                {Observed{Initialized: true, Finished: true, Main: statuses(crashed("a"))}, corev1.PodFailed},
		"finished with success":                 {Observed{Initialized: true, Finished: true, Main: statuses(exited("a", 0), exited("b", 0))}, corev1.PodSucceeded},
	} {
		if got := test.observed.Phase(); got != test.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestConditions(t *testing.T) {
	sidecar := corev1.Container{Name: "s", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
	for name, test := range map[string]struct {
		spec     corev1.PodSpec
		gate     corev1.ConditionStatus
		observed Observed
		want     string // Connected Initialized Ready ContainersReady
		reason   string // of Ready
	}{
		"new":                           {observed: Observed{Main: statuses(waiting("a"))}, want: "----", reason: "ContainersNotReady"},
		"ready":                         {observed: Observed{Connected: true, Initialized: true, Main: statuses(running("a"))}, want: "++++"},
		"one container is not ready":    {observed: Observed{Connected: true, Initialized: true, Main: statuses(running("a"), crashed("b"))}, want: "++--", reason: "ContainersNotReady"},
		"a sidecar is not ready":        {spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar}}, observed: Observed{Connected: true, Initialized: true, Init: statuses(crashed("s")), Main: statuses(running("a"))}, want: "++--", reason: "ContainersNotReady"},
		"a gate is closed":              {spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}}}, observed: Observed{Connected: true, Initialized: true, Main: statuses(running("a"))}, want: "++-+", reason: "ReadinessGatesNotReady"},
		"a gate is open":                {spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "gate"}}}, gate: corev1.ConditionTrue, observed: Observed{Connected: true, Initialized: true, Main: statuses(running("a"))}, want: "++++"},
		"all containers have succeeded": {observed: Observed{Initialized: true, Finished: true, Main: statuses(exited("a", 0))}, want: "-+--", reason: "PodCompleted"},
	} {
		pod := &corev1.Pod{Spec: test.spec}
		if test.gate != "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "gate", Status: test.gate}}
		}
		got, reason := "", ""
		for _, condition := range test.observed.Conditions(pod, metav1.Now()) {
			got += map[corev1.ConditionStatus]string{corev1.ConditionTrue: "+", corev1.ConditionFalse: "-"}[condition.Status]
			if condition.Type == corev1.PodReady {
				reason = condition.Reason
			}
		}
		if got != test.want || reason != test.reason {
			t.Errorf("%s: got %s, %q", name, got, reason)
		}
	}
}

func TestConditionsKeepTheirTime(t *testing.T) {
	before, now := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: before},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: before},
	}}}
	got := map[corev1.PodConditionType]metav1.Time{}
	for _, condition := range (Observed{Initialized: true, Main: statuses(running("a"))}).Conditions(pod, now) {
		got[condition.Type] = condition.LastTransitionTime
	}
	want := map[corev1.PodConditionType]metav1.Time{
		corev1.PodReadyToStartContainers: now, corev1.PodInitialized: before, corev1.PodReady: now, corev1.ContainersReady: now,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
