// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides what becomes of the containers of a Pod, as the
// kubelet does. It does nothing itself: everything here depends on its
// arguments alone.
package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the role of a container in its Pod.
type Kind int

// The kinds of containers, in the order in which they run.
const (
	Init    Kind = iota // ends before the next one starts
	Sidecar             // starts before the next one, and then runs on
	Main
)

// State is what a container does.
type State int

// The states of containers.
const (
	Waiting State = iota // has never run, or lost all that it did
	Running
	Exited
)

// Container is all that matters about a container.
type Container struct {
	Name   string
	Kind   Kind
	Policy corev1.ContainerRestartPolicy

	State    State
	ExitCode int32
	// Started: it runs, and its startup probe has succeeded.
	Started bool
	// Unhealthy: it runs, and a probe wants it to be restarted.
	Unhealthy bool
	// Stopping: it runs, and was asked to end.
	Stopping bool
	// RetryAt is when it may run again.
	RetryAt time.Time
}

// Pod is the containers of a Pod in the order of its spec, those of
// initContainers first.
type Pod struct {
	// Initialized: all containers of initContainers have done their part.
	Initialized bool
	Containers  []Container
}

// Plan is what to do now.
type Plan struct {
	Start, Stop []string
	// Initialized is what the Pod is from now on.
	Initialized bool
	// Finished: the Pod has come to its end, and nothing of it runs.
	Finished bool
	// Again is when to look again even if nothing happens. It may be never.
	Again time.Time
}

// ContainersOf lists the containers of a Pod that has not run yet.
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

// Next plans for a Pod that shall run.
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

// keepRunning starts a container that shall run and does not, and stops one
// that runs and does not work.
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

// Stop plans for a Pod that shall end: which containers to ask now, and
// whether all have ended. Sidecars serve the others until these have ended, and
// end in the opposite order of their start.
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

// ended: nothing but sidecars will ever run again.
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

// RunsAgain: it does not run, but shall.
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
