// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// stop asks containers to terminate.
func (c *containers) stop(ctx context.Context, pod *corev1.Pod, names []string) {
	for _, name := range names {
		r := c.record(name)
		c.mu.Lock()
		current := r.run
		if current == nil { // the container has already exited
			c.mu.Unlock()
			continue
		}
		grace := r.grace(pod)
		current.stopping, current.killAt = true, time.Now().Add(grace)
		current.endRestart()
		if current.failed != "" {
			c.events.Eventf(pod, corev1.EventTypeNormal, "Killing", "Container %s failed %s probe, will be restarted", name, current.failed)
		} else {
			c.events.Eventf(pod, corev1.EventTypeNormal, "Killing", "Stopping container %s", name)
		}
		c.mu.Unlock()
		klog.FromContext(ctx).Info("Stopping container", "container", name)
		c.tasks.Go(func() { c.ask(ctx, pod, r, current, grace) })
	}
}

// ask runs the hook of a container and then sends the signal to terminate.
func (c *containers) ask(ctx context.Context, pod *corev1.Pod, r *containerRecord, current *run, grace time.Duration) {
	if hooks := r.spec.Lifecycle; hooks != nil && hooks.PreStop != nil {
		ctx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		go func() {
			select {
			case <-current.container.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
		if err := runHook(ctx, hooks.PreStop, probeTarget(r.spec, c.setup.addresses[0], current.container)); err != nil && ctx.Err() == nil {
			c.events.Event(pod, corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
		}
	}
	current.container.Signal(r.stopSignal())
}

// killBefore shortens the deadline of stopping containers, but never extends it.
func (c *containers) killBefore(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		if r.run != nil {
			r.run.killAt = earliest(r.run.killAt, deadline)
		}
	}
}

// killOverdue kills containers whose deadline has passed and returns the next deadline.
func (c *containers) killOverdue() (next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, r := range c.records {
		switch {
		case r.run == nil || r.run.killAt.IsZero():
		case r.run.killAt.After(now):
			next = earliest(next, r.run.killAt)
		default:
			r.run.container.Kill()
		}
	}
	return next
}

// stopAll stops all containers at once, without their hooks, and returns when their
// processes have ended. It kills those that still run after the grace period.
func (c *containers) stopAll(grace time.Duration) {
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	c.eachRunning(func(r *containerRecord) { r.run.container.Signal(r.stopSignal()) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.tasks.Wait()
	}()
	select {
	case <-ended:
	case <-timeout.C:
		c.eachRunning(func(r *containerRecord) { r.run.container.Kill() })
		<-ended
	}
}

// eachRunning calls a function for all running containers.
func (c *containers) eachRunning(do func(*containerRecord)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		if r.run != nil {
			do(r)
		}
	}
}
