// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the kind of a probe.
type Kind string

// Kinds of probes, as named in messages.
const (
	Startup   Kind = "Startup"
	Readiness Kind = "Readiness"
	Liveness  Kind = "Liveness"
)

// Listener receives the results of the probes of a container. Its functions are called from
// several goroutines.
type Listener struct {
	// Started is called when the container has started, with or without a startup probe.
	Started func()
	// Ready is called when the container becomes ready or unready.
	Ready func(bool)
	// Attempt is called for a failed attempt.
	Attempt func(kind Kind, err error)
	// Failed is called when the container must be restarted.
	Failed func(kind Kind)
}

// Watch runs the probes of a container until the context is done. Probes that may restart the
// container end with the other context, which is done when the container is asked to terminate;
// readiness probes continue, since the container may serve until it exits.
func Watch(ctx, restart context.Context, container *corev1.Container, target Target, since time.Time, listener Listener) {
	if probe := container.StartupProbe; probe != nil {
		started := false
		loop(restart, probe, target, since, Startup, listener, func(ok bool) (more bool) {
			started = ok
			if !ok {
				listener.Failed(Startup)
			}
			return false
		})
		if !started {
			return
		}
	}
	listener.Started()
	if container.ReadinessProbe == nil {
		listener.Ready(true)
	}
	var probes sync.WaitGroup
	defer probes.Wait()
	if probe := container.ReadinessProbe; probe != nil {
		probes.Go(func() {
			loop(ctx, probe, target, since, Readiness, listener, func(ok bool) bool {
				listener.Ready(ok)
				return true
			})
		})
	}
	if probe := container.LivenessProbe; probe != nil {
		probes.Go(func() {
			loop(restart, probe, target, since, Liveness, listener, func(ok bool) bool {
				if !ok {
					listener.Failed(Liveness)
				}
				return ok
			})
		})
	}
}

// loop runs one probe until the context is done or decide reports true.
func loop(ctx context.Context, probe *corev1.Probe, target Target, since time.Time, kind Kind, listener Listener, decide func(ok bool) (more bool)) {
	counter := newCounter(probe)
	timer := time.NewTimer(time.Until(since.Add(seconds(probe.InitialDelaySeconds))))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		err := attempt(ctx, probe, target)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			listener.Attempt(kind, fmt.Errorf("%s probe failed: %w", kind, err))
		}
		if counter.observe(err == nil) && !decide(err == nil) {
			return
		}
		timer.Reset(time.Until(begin.Add(seconds(max(probe.PeriodSeconds, 1)))))
	}
}

func attempt(ctx context.Context, probe *corev1.Probe, target Target) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(max(probe.TimeoutSeconds, 1)))
	defer cancel()
	return target.Check(ctx, probe.ProbeHandler)
}

func seconds(count int32) time.Duration { return time.Duration(count) * time.Second }
