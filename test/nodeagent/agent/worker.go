// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/environment"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/etcfiles"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/images"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/network"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/sandbox"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/volumes"
)

// services are shared by all workers.
type services struct {
	config      *Config
	client      kubernetes.Interface
	events      record.EventRecorder
	network     *network.Network
	runtime     *sandbox.Runtime
	volumes     *volumes.Manager
	environment *environment.Builder
	images      images.Directory
	dns         etcfiles.DNS
}

// worker runs one Pod in a goroutine that compares desired and actual state, acts on the
// difference, and waits for the next event. It decides what happens when: containers, setup
// and publisher do it, and do not know the worker.
type worker struct {
	*services
	// wake signals the goroutine.
	wake       chan struct{}
	setup      *podSetup
	containers *containers
	publisher  *statusPublisher

	// mu guards the fields that other goroutines use.
	mu    sync.Mutex
	pod   *corev1.Pod // as in the API server
	gone  time.Time   // when its deletion from the API server was observed
	stale bool        // an object that volumes or containers use has changed

	// The following fields belong to the goroutine.

	initialized bool
	// finished is set if no process of the Pod runs or will ever run.
	finished bool
	// ending is when the deletion of the Pod was first observed.
	ending  time.Time
	deleted bool
}

// newWorker returns a worker that continues from the status that an earlier agent wrote.
func newWorker(s *services, pod *corev1.Pod) *worker {
	w := &worker{
		services:  s,
		wake:      make(chan struct{}, 1),
		setup:     newPodSetup(s, pod),
		publisher: &statusPublisher{client: s.client, status: *pod.Status.DeepCopy(), version: pod.ResourceVersion},
		pod:       pod,
		finished:  pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	w.initialized = w.finished && isTrue(pod, corev1.PodInitialized)
	w.containers = &containers{
		services:    s,
		setup:       w.setup,
		logDir:      filepath.Join(s.config.RootDir, "logs", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)),
		changed:     w.wake,
		records:     inheritedRecords(pod.DeepCopy(), stamp(time.Now())),
		terminating: pod.DeletionTimestamp != nil,
	}
	return w
}

// update notifies the worker of a changed Pod.
func (w *worker) update(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Labels and annotations may be used in a volume.
	if !maps.Equal(w.pod.Labels, pod.Labels) || !maps.Equal(w.pod.Annotations, pod.Annotations) {
		w.stale = true
	}
	w.pod = pod
	if pod.DeletionTimestamp != nil {
		w.containers.markTerminating()
	}
	signal(w.wake)
}

// current returns the Pod as in the API server.
func (w *worker) current() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

// remove notifies the worker that the Pod was deleted from the API server.
func (w *worker) remove() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone.IsZero() {
		w.gone = time.Now()
	}
	signal(w.wake)
}

// refresh notifies the worker that an object changed to which the Pod refers.
func (w *worker) refresh() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = true
	signal(w.wake)
}

// run runs the Pod until it is gone, or stops it when the context is done.
func (w *worker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			w.shutDown(ctx)
			return
		case <-w.wake:
		case <-timer.C:
		}
		again, done := w.sync(ctx)
		if done {
			return
		}
		timer.Stop()
		if !again.IsZero() {
			timer.Reset(time.Until(again))
		}
	}
}

// sync performs the pending actions. It returns when to run again without an event, or the
// zero time, and whether the worker is done.
func (w *worker) sync(ctx context.Context) (again time.Time, done bool) {
	w.mu.Lock()
	pod, gone := w.pod, !w.gone.IsZero()
	w.mu.Unlock()
	switch {
	case gone || pod.DeletionTimestamp != nil:
		again, done = w.end(ctx, pod)
	case !w.finished:
		again = w.advance(ctx, pod)
	}
	if gone || w.deleted {
		return again, done
	}
	if err := w.publishStatus(ctx, pod); err != nil {
		logError(ctx, err, "Failed to write the status of the Pod, retrying")
		again = earliest(again, time.Now().Add(retryPeriod))
	}
	return again, done
}

// advance performs the next step of the Pod.
func (w *worker) advance(ctx context.Context, pod *corev1.Pod) (again time.Time) {
	stale := w.takeStale()
	if stale {
		w.containers.retryProblems()
	}
	w.setup.prepare(ctx, pod, stale)
	if !w.setup.mounted {
		return w.setup.retryAt
	}
	plan := lifecycle.Next(w.containers.snapshot(w.initialized), time.Now())
	w.initialized = plan.Initialized
	w.containers.stop(ctx, pod, plan.Stop)
	for _, name := range plan.Start {
		w.containers.start(ctx, w.setup.withAddresses(pod), name)
	}
	if plan.Finished {
		w.finish(ctx)
		return time.Time{}
	}
	again = earliest(plan.Again, w.setup.nextUpdate(), w.containers.killOverdue())
	if len(plan.Start) > 0 { // containers that failed to start need another plan
		again = time.Now()
	}
	return again
}

// takeStale reports whether an object changed since the last call.
func (w *worker) takeStale() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	stale := w.stale
	w.stale = false
	return stale
}

// publishStatus writes the status of the Pod if it has changed.
func (w *worker) publishStatus(ctx context.Context, pod *corev1.Pod) error {
	now := time.Now()
	w.publisher.observe(pod)
	status := newStatus(w.publisher.status, pod, w.observe(now), now)
	setAddresses(&status, w.setup.addresses, w.config.hostIPs())
	return w.publisher.publish(ctx, pod, status)
}

// observe returns the input of package lifecycle for the status of the Pod.
func (w *worker) observe(now time.Time) lifecycle.Observed {
	observed := lifecycle.Observed{Connected: w.setup.podNetwork() != nil, Initialized: w.initialized, Finished: w.finished}
	observed.Init, observed.Main = w.containers.statuses(w.initialized, w.finished || !w.ending.IsZero(), now)
	return observed
}

// logError logs an error, unless the agent stops.
func logError(ctx context.Context, err error, message string) {
	if ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, message)
	}
}

// earliest returns the earliest of several times, ignoring zero times.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
