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

// Kind is what a probe is for.
type Kind string

// The kinds of probes, as messages call them.
const (
	Startup   Kind = "Startup"
	Readiness Kind = "Readiness"
	Liveness  Kind = "Liveness"
)

// Listener is told what the probes of a container find. Its functions are
// called from several goroutines.
type Listener struct {
	// Started: the container has started, with or without a probe for it.
	Started func()
	// Ready: the container has become ready, or stopped to be.
	Ready func(bool)
	// Attempt: one attempt has failed.
	Attempt func(kind Kind, err error)
	// Failed: the container has to be restarted.
	Failed func(kind Kind)
}

// Watch runs the probes of a container that was started at some time, until
// the context ends. Those that may restart it run only until the other context
// ends, which is when the container is asked to stop; the others go on, since
// it may serve until it does.
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

// loop runs one probe until the context ends or decide says that it is enough.
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
