// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// fixture is a container with exec probes that fail on demand.
type fixture struct {
	failing map[string]*atomic.Bool
	started atomic.Bool
	ready   atomic.Bool
	failed  atomic.Value
	tries   atomic.Int32
}

func newFixture() *fixture {
	f := &fixture{failing: map[string]*atomic.Bool{"startup": {}, "readiness": {}, "liveness": {}}}
	f.failed.Store(Kind(""))
	return f
}

func (f *fixture) target() Target {
	return Target{Exec: func(_ context.Context, args []string) (int, string, error) {
		if f.failing[args[0]].Load() {
			return 0, "", errors.New("probe failed")
		}
		return 0, "", nil
	}}
}

func (f *fixture) listener() Listener {
	return Listener{
		Started: func() { f.started.Store(true) },
		Ready:   f.ready.Store,
		Attempt: func(Kind, error) { f.tries.Add(1) },
		Failed:  func(kind Kind) { f.failed.Store(kind) },
	}
}

func probe(name string, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}},
		InitialDelaySeconds: delay, PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 2,
	}
}

// watch runs Watch in the background of a synctest bubble.
func (f *fixture) watch(t *testing.T, container *corev1.Container) (stopRestart context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	restart, stopRestart := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, restart, container, f.target(), time.Now(), f.listener())
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	return stopRestart
}

func after(duration time.Duration) {
	time.Sleep(duration)
	synctest.Wait()
}

func TestWithoutProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.watch(t, &corev1.Container{})
		if !f.started.Load() || !f.ready.Load() {
			t.Error("a container without probes is not ready")
		}
	})
}

func TestReadinessFollowsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		stopRestart := f.watch(t, &corev1.Container{ReadinessProbe: probe("readiness", 5)})
		after(4 * time.Second)
		if !f.started.Load() || f.ready.Load() {
			t.Error("ready before the initial delay")
		}
		after(time.Second)
		if !f.ready.Load() {
			t.Error("not ready after the initial delay")
		}
		stopRestart() // the readiness probe continues while the container stops
		f.failing["readiness"].Store(true)
		after(10 * time.Second)
		if !f.ready.Load() || f.tries.Load() != 1 {
			t.Error("one failure was enough")
		}
		after(10 * time.Second)
		if f.ready.Load() {
			t.Error("two failures were not enough")
		}
		f.failing["readiness"].Store(false)
		after(10 * time.Second)
		if !f.ready.Load() {
			t.Error("not ready again")
		}
	})
}

func TestOtherProbesWaitForStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.failing["startup"].Store(true)
		f.failing["liveness"].Store(true)
		f.watch(t, &corev1.Container{StartupProbe: probe("startup", 0), LivenessProbe: probe("liveness", 0)})
		if f.started.Load() || f.ready.Load() || f.tries.Load() != 1 {
			t.Error("other probes did not wait")
		}
		f.failing["startup"].Store(false)
		after(10 * time.Second)
		if !f.started.Load() || !f.ready.Load() || f.failed.Load() != Kind("") {
			t.Error("not started")
		}
		after(10 * time.Second)
		if f.failed.Load() != Liveness {
			t.Errorf("failed: %v", f.failed.Load())
		}
	})
}

func TestStartupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.failing["startup"].Store(true)
		f.watch(t, &corev1.Container{StartupProbe: probe("startup", 0)})
		after(10 * time.Second)
		if f.failed.Load() != Startup || f.started.Load() {
			t.Errorf("failed: %v", f.failed.Load())
		}
	})
}

func TestLivenessEndsWhenTheContainerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		stopRestart := f.watch(t, &corev1.Container{LivenessProbe: probe("liveness", 0)})
		stopRestart()
		f.failing["liveness"].Store(true)
		after(time.Minute)
		if f.failed.Load() != Kind("") {
			t.Error("the liveness probe failed for a container that stops")
		}
	})
}
