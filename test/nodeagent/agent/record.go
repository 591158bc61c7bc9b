// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/images"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/probes"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// containerRecord is the state of a container. The mutex of its containers guards it, except
// for the specification, which does not change.
type containerRecord struct {
	spec   *corev1.Container
	kind   lifecycle.Kind
	policy corev1.ContainerRestartPolicy

	// run is the current run, or nil.
	run *run
	// exited is the result of the last run, before that of the previous one.
	exited, before *corev1.ContainerStateTerminated
	// log is the log of the current or last run, previous that of the one before.
	log, previous *logs.Log
	id            string
	restarts      int32
	// problem is why the container could not be started.
	problem *problem
	retryAt time.Time
	backoff lifecycle.Backoff
}

// run is one run of a container.
type run struct {
	container *sandbox.Container
	// endProbes ends all probes, endRestart those that may restart the container.
	endProbes, endRestart context.CancelFunc
	startedAt             time.Time

	started, ready bool
	// failed is the probe that requests a restart, if any.
	failed probes.Kind
	// stopping is set when the container was asked to terminate; it is killed later.
	stopping bool
	killAt   time.Time
}

func newRecords(pod *corev1.Pod) []*containerRecord {
	specs := map[string]*corev1.Container{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			specs[list[i].Name] = list[i].DeepCopy()
		}
	}
	var records []*containerRecord
	for _, c := range lifecycle.ContainersOf(&pod.Spec) {
		records = append(records, &containerRecord{spec: specs[c.Name], kind: c.Kind, policy: c.Policy})
	}
	return records
}

// inheritedRecords returns the records of a Pod with the status that an earlier agent wrote.
func inheritedRecords(pod *corev1.Pod, now metav1.Time) []*containerRecord {
	records := newRecords(pod)
	for _, r := range records {
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for _, status := range list {
				if status.Name == r.spec.Name {
					r.inherit(status, now)
				}
			}
		}
	}
	return records
}

// inherit adopts the container status that an earlier agent wrote. The processes of that
// agent are gone.
func (r *containerRecord) inherit(status corev1.ContainerStatus, now metav1.Time) {
	r.restarts = status.RestartCount
	r.id = status.ContainerID
	r.before = status.LastTerminationState.Terminated
	switch {
	case status.State.Terminated != nil:
		r.exited = status.State.Terminated
	case status.State.Running != nil:
		r.exited = &corev1.ContainerStateTerminated{
			ExitCode: 128 + int32(syscall.SIGKILL), Reason: "ContainerStatusUnknown",
			Message:   "processes were terminated by a restart of the node agent",
			StartedAt: status.State.Running.StartedAt, FinishedAt: now, ContainerID: status.ContainerID,
		}
	default: // waiting
		r.exited, r.before = r.before, nil
	}
	if r.kind == lifecycle.Init && r.exited != nil && r.exited.ExitCode == 0 {
		// Its effects are gone with the volumes, so it runs again.
		r.before, r.exited = r.exited, nil
	}
}

// plan returns the input of package lifecycle.
func (r *containerRecord) plan() lifecycle.Container {
	c := lifecycle.Container{Name: r.spec.Name, Kind: r.kind, Policy: r.policy, RetryAt: r.retryAt}
	switch {
	case r.run != nil:
		c.State, c.Started, c.Unhealthy, c.Stopping = lifecycle.Running, r.run.started, r.run.failed != "", r.run.stopping
	case r.exited != nil:
		c.State, c.ExitCode = lifecycle.Exited, r.exited.ExitCode
	}
	return c
}

// status returns the status of the container. Containers of a finished Pod are not restarted.
func (r *containerRecord) status(initialized, over bool, now time.Time) corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name: r.spec.Name, Image: r.spec.Image, ImageID: "test://" + images.Name(r.spec.Image),
		ContainerID: r.id, RestartCount: r.restarts, Started: ptr.To(false),
	}
	switch {
	case r.run != nil:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: stamp(r.run.startedAt)}
		status.LastTerminationState.Terminated = r.exited
		status.Started = ptr.To(r.run.started)
		status.Ready = r.run.ready && r.kind != lifecycle.Init
	case r.exited != nil && (over || r.problem == nil && !r.retryAt.After(now) || !r.plan().RunsAgain()):
		status.State.Terminated = r.exited
		status.LastTerminationState.Terminated = r.before
		status.Ready = r.kind == lifecycle.Init && r.exited.ExitCode == 0
	default:
		status.State.Waiting = r.waiting(initialized, now)
		status.LastTerminationState.Terminated = r.exited
	}
	return status
}

func (r *containerRecord) waiting(initialized bool, now time.Time) *corev1.ContainerStateWaiting {
	switch {
	case r.problem != nil:
		return &corev1.ContainerStateWaiting{Reason: r.problem.reason, Message: r.problem.Error()}
	case r.exited != nil && r.retryAt.After(now):
		return &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off restarting failed container %s until %s", r.spec.Name, r.retryAt.UTC().Format(time.RFC3339))}
	case r.kind == lifecycle.Main && !initialized:
		return &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

// stopSignal returns the signal that asks the container to terminate.
func (r *containerRecord) stopSignal() syscall.Signal {
	if lifecycle := r.spec.Lifecycle; lifecycle != nil && lifecycle.StopSignal != nil {
		if number := unix.SignalNum(string(*lifecycle.StopSignal)); number != 0 {
			return number
		}
	}
	return unix.SIGTERM
}

// grace returns how long the container may take to terminate after a failed probe.
func (r *containerRecord) grace(pod *corev1.Pod) time.Duration {
	probe := r.spec.LivenessProbe
	if r.run != nil && r.run.failed == probes.Startup {
		probe = r.spec.StartupProbe
	}
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return 30 * time.Second
}

// stamp returns a time with the resolution of the API, one second.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
