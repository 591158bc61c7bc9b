// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides which containers of a Pod to start and stop, as the kubelet does. It is
// pure: all results depend on the arguments only.
package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the role of a container in its Pod.
type Kind int

// Kinds of containers, in the order in which they run.
const (
	Init    Kind = iota // exits before the next container starts
	Sidecar             // starts before the next container and keeps running
	Main
)

// State is the state of a container.
type State int

// States of containers.
const (
	Waiting State = iota // has not run, or its effects are lost
	Running
	Exited
)

// Container is the state of a container as far as it matters here.
type Container struct {
	Name   string
	Kind   Kind
	Policy corev1.ContainerRestartPolicy

	State    State
	ExitCode int32
	// Started is set if the container runs and its startup probe has succeeded.
	Started bool
	// Unhealthy is set if the container runs and a probe requests a restart.
	Unhealthy bool
	// Stopping is set if the container runs and was asked to terminate.
	Stopping bool
	// RetryAt is when the container may be restarted.
	RetryAt time.Time
}

// Pod is the containers of a Pod in the order of its spec, initContainers first.
type Pod struct {
	// Initialized is set if all initContainers have completed or started.
	Initialized bool
	Containers  []Container
}

// Plan is the actions for a Pod.
type Plan struct {
	Start, Stop []string
	// Initialized is the new value of Pod.Initialized.
	Initialized bool
	// Finished is set if the Pod has ended and none of its containers runs.
	Finished bool
	// Again is when to plan again without an event, or the zero time.
	Again time.Time
}

// ContainersOf returns the containers of a Pod that has not run yet.
func ContainersOf(spec *corev1.PodSpec) []Container {
	var containers []Container
	for _, c := range spec.InitContainers {
		switch {
		case c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways:
			containers = append(containers, Container{Name: c.Name, Kind: Sidecar, Policy: corev1.ContainerRestartPolicyAlways})
		case c.RestartPolicy != nil:
			containers = append(containers, Container{Name: c.Name, Kind: Init, Policy: *c.RestartPolicy})
		case spec.RestartPolicy == corev1.RestartPolicyNever:
			containers = append(containers, Container{Name: c.Name, Kind: Init, Policy: corev1.ContainerRestartPolicyNever})
		default:
			containers = append(containers, Container{Name: c.Name, Kind: Init, Policy: corev1.ContainerRestartPolicyOnFailure})
		}
	}
	for _, c := range spec.Containers {
		policy := corev1.ContainerRestartPolicy(spec.RestartPolicy)
		if c.RestartPolicy != nil {
			policy = *c.RestartPolicy
		}
		containers = append(containers, Container{Name: c.Name, Kind: Main, Policy: policy})
	}
	return containers
}

// Next plans for a Pod that should run.
func Next(pod Pod, now time.Time) Plan {
	plan := Plan{Initialized: pod.Initialized}
	if pod.ended() {
		plan.Stop, plan.Finished = Stop(pod)
		return plan
	}
	for _, c := range pod.Containers {
		switch {
		case c.Kind == Init && (pod.Initialized || c.succeeded()):
			continue
		case c.Kind == Main:
			plan.Initialized = true
		}
		plan.keepRunning(c, now)
		waitFor := c.Kind == Init || c.Kind == Sidecar && !c.Started
		if waitFor && !plan.Initialized {
			break
		}
	}
	return plan
}

// keepRunning starts a container that should run but does not, and stops an unhealthy one.
func (p *Plan) keepRunning(c Container, now time.Time) {
	switch {
	case c.State == Running && c.Unhealthy && !c.Stopping:
		p.Stop = append(p.Stop, c.Name)
	case c.State == Running || !c.RunsAgain():
	case c.RetryAt.After(now):
		if p.Again.IsZero() || c.RetryAt.Before(p.Again) {
			p.Again = c.RetryAt
		}
	default:
		p.Start = append(p.Start, c.Name)
	}
}

// Stop plans for a Pod that should end: which containers to stop now, and whether all have exited.
// Sidecars run until the other containers have exited, and are stopped in the reverse order of their
// start.
func Stop(pod Pod) (stop []string, stopped bool) {
	stopped = true
	var lastSidecar *Container
	for _, c := range pod.Containers {
		if c.State != Running {
			continue
		}
		stopped = false
		if c.Kind == Sidecar {
			lastSidecar = &c
		} else if !c.Stopping {
			stop = append(stop, c.Name)
		}
	}
	if lastSidecar != nil && !lastSidecar.Stopping && !pod.othersRun() {
		stop = append(stop, lastSidecar.Name)
	}
	return stop, stopped
}

func (p Pod) othersRun() bool {
	for _, c := range p.Containers {
		if c.State == Running && c.Kind != Sidecar {
			return true
		}
	}
	return false
}

// ended reports whether only sidecars could ever run again.
func (p Pod) ended() bool {
	for _, c := range p.Containers {
		if c.Kind == Init && c.State == Exited && c.ExitCode != 0 && !c.RunsAgain() {
			return true
		}
	}
	for _, c := range p.Containers {
		if c.Kind == Main && (c.State == Running || c.RunsAgain()) {
			return false
		}
	}
	return true
}

func (c Container) succeeded() bool { return c.State == Exited && c.ExitCode == 0 }

// RunsAgain reports whether the container does not run but should.
func (c Container) RunsAgain() bool {
	switch c.State {
	case Running:
		return false
	case Waiting:
		return true
	}
	switch c.Policy {
	case corev1.ContainerRestartPolicyAlways:
		return true
	case corev1.ContainerRestartPolicyOnFailure:
		return c.ExitCode != 0
	}
	return false
}
