// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/probes"
)

func testRecord(kind lifecycle.Kind, policy corev1.ContainerRestartPolicy) *containerRecord {
	return &containerRecord{spec: &corev1.Container{Name: "c", Image: "x/foo:v1"}, kind: kind, policy: policy}
}

func TestRecordStatus(t *testing.T) {
	now := time.Unix(1000, 0)
	failed := &corev1.ContainerStateTerminated{ExitCode: 1}
	for name, test := range map[string]struct {
		kind   lifecycle.Kind
		policy corev1.ContainerRestartPolicy
		change func(*containerRecord)
		over   bool
		want   string // state, reason, last state, ready, started
	}{
		"new":          {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(*containerRecord) {}, false, "waiting ContainerCreating"},
		"running":      {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(r *containerRecord) { r.run = &run{started: true} }, false, "running started"},
		"ready":        {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(r *containerRecord) { r.run = &run{started: true, ready: true}; r.exited = failed }, false, "running last ready started"},
		"init running": {lifecycle.Init, corev1.ContainerRestartPolicyOnFailure, func(r *containerRecord) { r.run = &run{started: true, ready: true} }, false, "running started"},
		"init done":    {lifecycle.Init, corev1.ContainerRestartPolicyOnFailure, func(r *containerRecord) { r.exited = &corev1.ContainerStateTerminated{} }, false, "terminated ready"},
		"just ended":   {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(r *containerRecord) { r.exited = failed }, false, "terminated"},
		"backing off":  {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(r *containerRecord) { r.exited = failed; r.retryAt = now.Add(1) }, false, "waiting CrashLoopBackOff last"},
		"Pod finished": {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(r *containerRecord) { r.exited = failed; r.retryAt = now.Add(1) }, true, "terminated"},
		"terminated":   {lifecycle.Main, corev1.ContainerRestartPolicyNever, func(r *containerRecord) { r.exited = failed; r.retryAt = now.Add(1) }, false, "terminated"},
		"cannot start": {lifecycle.Main, corev1.ContainerRestartPolicyAlways, func(r *containerRecord) { r.problem = &problem{"ErrImagePull", errors.New("x")} }, false, "waiting ErrImagePull"},
	} {
		r := testRecord(test.kind, test.policy)
		test.change(r)
		if got := describe(r.status(true, test.over, now)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if got := describe(testRecord(lifecycle.Main, "").status(false, false, now)); got != "waiting PodInitializing" {
		t.Errorf("got %q", got)
	}
}

// describe summarizes a status.
func describe(status corev1.ContainerStatus) string {
	text := "terminated"
	switch {
	case status.State.Running != nil:
		text = "running"
	case status.State.Waiting != nil:
		text = "waiting " + status.State.Waiting.Reason
	}
	if status.LastTerminationState.Terminated != nil {
		text += " last"
	}
	if status.Ready {
		text += " ready"
	}
	if *status.Started {
		text += " started"
	}
	return text
}

func TestRecordInherits(t *testing.T) {
	now := metav1.Unix(1000, 0)
	failed := &corev1.ContainerStateTerminated{ExitCode: 1}
	for name, test := range map[string]struct {
		kind       lifecycle.Kind
		state      corev1.ContainerState
		wantState  lifecycle.State
		wantReason string
	}{
		"was running":       {lifecycle.Main, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, lifecycle.Exited, "ContainerStatusUnknown"},
		"had ended":         {lifecycle.Main, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}, lifecycle.Exited, "Completed"},
		"init had ended":    {lifecycle.Init, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, lifecycle.Waiting, ""},
		"init had failed":   {lifecycle.Init, corev1.ContainerState{Terminated: failed}, lifecycle.Exited, ""},
		"was waiting":       {lifecycle.Main, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, lifecycle.Waiting, ""},
		"had never existed": {lifecycle.Main, corev1.ContainerState{}, lifecycle.Waiting, ""},
	} {
		r := testRecord(test.kind, corev1.ContainerRestartPolicyAlways)
		r.inherit(corev1.ContainerStatus{State: test.state, RestartCount: 3}, now)
		if got := r.plan().State; got != test.wantState || r.restarts != 3 {
			t.Errorf("%s: state %v, %d restarts", name, got, r.restarts)
		}
		if r.exited != nil && r.exited.Reason != test.wantReason {
			t.Errorf("%s: reason %q", name, r.exited.Reason)
		}
	}
}

func TestGraceAndSignal(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](7)}}
	r := testRecord(lifecycle.Main, "")
	r.run = &run{}
	if got := r.grace(pod); got != 7*time.Second {
		t.Errorf("of the Pod: %v", got)
	}
	r.spec.StartupProbe = &corev1.Probe{TerminationGracePeriodSeconds: ptr.To[int64](3)}
	r.run.failed = probes.Startup
	if got := r.grace(pod); got != 3*time.Second {
		t.Errorf("of the probe: %v", got)
	}
	if got := r.stopSignal(); got != unix.SIGTERM {
		t.Errorf("signal %v", got)
	}
	r.spec.Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}
	if got := r.stopSignal(); got != unix.SIGUSR1 {
		t.Errorf("signal %v", got)
	}
}

func TestDeadline(t *testing.T) {
	ending, gone := time.Unix(1000, 0), time.Unix(1010, 0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: ptr.To[int64](30)}}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		gone time.Time
		want time.Time
	}{
		"deleted":                    {pod, time.Time{}, ending.Add(30 * time.Second)},
		"deleted, and then by force": {pod, gone, gone.Add(goneGrace)},
		"deleted by force":           {&corev1.Pod{}, gone, gone.Add(goneGrace)},
	} {
		if got := deadline(test.pod, ending, test.gone); !got.Equal(test.want) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestStatusPatchLeavesOtherConditionsUnchanged(t *testing.T) {
	before := corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: "other", Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionFalse}},
	}
	after := *before.DeepCopy()
	after.Phase = corev1.PodRunning
	after.Conditions = mergeConditions(after.Conditions, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}})
	patch, err := statusPatch("uid", before, after)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata struct{ UID string }
		Status   struct {
			Phase      string
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(patch, &got); err != nil {
		t.Fatal(err)
	}
	if got.Metadata.UID != "uid" || got.Status.Phase != "Running" {
		t.Errorf("got %s", patch)
	}
	if diff := cmp.Diff([]struct{ Type, Status string }{{"Ready", "True"}}, got.Status.Conditions); diff != "" {
		t.Errorf("%s\n%s", patch, diff)
	}
}
