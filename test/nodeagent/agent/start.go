// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/logs"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/probes"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
)

// start starts a container, or records why it cannot be started. The Pod has its
// addresses.
func (c *containers) start(ctx context.Context, pod *corev1.Pod, name string) {
	r := c.record(name)
	spec, err := buildSpec(ctx, c.setup, pod, r.spec)
	var log *logs.Log
	if err == nil {
		log, err = logs.Create(filepath.Join(c.logDir, name, fmt.Sprintf("%d.log", c.runNumber(r))))
	}
	if err != nil {
		c.recordProblem(ctx, pod, r, err)
		return
	}
	stdout, stderr := log.Stream("stdout"), log.Stream("stderr")
	spec.Stdout, spec.Stderr = stdout, stderr
	startedAt := time.Now()
	container, err := c.runtime.Start(ctx, *spec)
	c.recordStart(r, log)
	if err != nil {
		c.recordExit(pod, r, &corev1.ContainerStateTerminated{
			ExitCode: 128, Reason: "StartError", Message: err.Error(),
			StartedAt: stamp(startedAt), FinishedAt: stamp(time.Now()),
		}, startedAt)
		c.events.Event(pod, corev1.EventTypeWarning, "Failed", err.Error())
		_ = log.Close()
		return
	}
	klog.FromContext(ctx).Info("Started container", "container", name, "program", spec.Process.Args[0])
	c.events.Eventf(pod, corev1.EventTypeNormal, "Started", "Started container %s", name)
	c.watch(ctx, pod, r, container, startedAt)
	c.tasks.Go(func() {
		<-container.Done()
		for _, close := range []func() error{stdout.Close, stderr.Close, log.Close} {
			if err := close(); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to close log of container", "container", name)
			}
		}
		code, finishedAt := container.Exit()
		c.recordExit(pod, r, terminated(r.spec, code, startedAt, finishedAt, spec.Stage, log), startedAt)
	})
}

// runNumber returns the number of the next run of a container.
func (c *containers) runNumber(r *containerRecord) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.exited != nil {
		return r.restarts + 1
	}
	return r.restarts
}

// recordStart records an attempt to run a container.
func (c *containers) recordStart(r *containerRecord, log *logs.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.exited != nil {
		r.restarts++
	}
	if r.previous != nil {
		_ = os.Remove(r.previous.Path())
	}
	r.previous, r.log = r.log, log
	r.id = "test://" + string(uuid.NewUUID())
	r.problem = nil
}

// recordProblem records why a container cannot be started.
func (c *containers) recordProblem(ctx context.Context, pod *corev1.Pod, r *containerRecord, err error) {
	var known *problem
	if !errors.As(err, &known) {
		known = &problem{"CreateContainerConfigError", err}
	}
	logError(ctx, err, "Failed to start container, retrying")
	c.events.Eventf(pod, corev1.EventTypeWarning, "Failed", "Error: %s: %v", known.reason, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.problem = known
	r.retryAt = time.Now().Add(r.backoff.Next(0))
}

// watch records a running container and runs its probes and hooks.
func (c *containers) watch(ctx context.Context, pod *corev1.Pod, r *containerRecord, container *sandbox.Container, startedAt time.Time) {
	ctx, endProbes := context.WithCancel(ctx)
	restart, endRestart := context.WithCancel(ctx)
	current := &run{container: container, startedAt: startedAt, endProbes: endProbes, endRestart: endRestart}
	c.mu.Lock()
	r.run = current
	c.mu.Unlock()
	target := probeTarget(r.spec, c.setup.addresses[0], container)
	c.tasks.Go(func() {
		probes.Watch(ctx, restart, r.spec, target, startedAt, probes.Listener{
			Started: func() { c.change(func() { current.started = true }) },
			Ready:   func(ready bool) { c.change(func() { current.ready = ready }) },
			Failed:  func(kind probes.Kind) { c.change(func() { current.failed = kind }) },
			Attempt: func(_ probes.Kind, err error) { c.events.Event(pod, corev1.EventTypeWarning, "Unhealthy", err.Error()) },
		})
	})
	if r.spec.Lifecycle != nil && r.spec.Lifecycle.PostStart != nil {
		c.tasks.Go(func() {
			if err := runHook(restart, r.spec.Lifecycle.PostStart, target); err != nil && restart.Err() == nil {
				c.events.Event(pod, corev1.EventTypeWarning, "FailedPostStartHook", err.Error())
				container.Kill()
			}
		})
	}
}

// recordExit records the exit of a container and when it may be restarted.
func (c *containers) recordExit(pod *corev1.Pod, r *containerRecord, state *corev1.ContainerStateTerminated, startedAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.run != nil {
		r.run.endProbes()
		r.run = nil
	}
	state.ContainerID = r.id
	r.before, r.exited = r.exited, state
	delay := r.backoff.Next(time.Since(startedAt))
	r.retryAt = time.Now().Add(delay)
	if delay > 0 && r.plan().RunsAgain() && !c.terminating {
		c.events.Eventf(pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s", r.spec.Name)
	}
	signal(c.changed)
}
