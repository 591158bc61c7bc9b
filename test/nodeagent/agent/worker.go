// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
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
// difference, and waits for the next event.
type worker struct {
	*services
	// dir holds the volumes and other state of the Pod, logDir its logs.
	dir, logDir string
	hostname    string
	// wake signals the goroutine.
	wake chan struct{}

	// mu guards the fields that other goroutines use.
	mu      sync.Mutex
	pod     *corev1.Pod // as in the API server
	gone    time.Time   // when its deletion from the API server was observed
	stale   bool        // an object that volumes or containers use has changed
	records []*containerRecord
	sandbox *network.Pod

	// The following fields belong to the goroutine.

	// tasks are goroutines of running containers, which end with them.
	tasks sync.WaitGroup
	set   *volumes.Set
	// mounted is set if all volumes exist. renewAt is when they need an update.
	mounted bool
	renewAt time.Time
	// setUpAt is when to retry a failed setup of network or volumes.
	setUpAt      time.Time
	setUpBackoff lifecycle.Backoff
	initialized  bool
	// finished is set if no process of the Pod runs or will ever run.
	finished bool
	// ending is when the deletion of the Pod was first observed.
	ending  time.Time
	deleted bool
	// addresses are those of the Pod, kept after it has ended.
	addresses []netip.Addr
	// status is the last status in the API server.
	status corev1.PodStatus
}

func newWorker(s *services, pod *corev1.Pod) *worker {
	w := &worker{
		services: s,
		dir:      filepath.Join(s.config.podsDir(), string(pod.UID)),
		logDir:   filepath.Join(s.config.RootDir, "logs", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)),
		hostname: etcfiles.Hostname(pod, s.config.NodeName),
		wake:     make(chan struct{}, 1),
		pod:      pod,
		records:  newRecords(pod),
		status:   *pod.Status.DeepCopy(),
		finished: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	w.initialized = w.finished && isTrue(pod, corev1.PodInitialized)
	w.set = s.volumes.NewSet(filepath.Join(w.dir, "volumes"))
	w.inherit()
	return w
}

// inherit adopts the status that an earlier agent wrote.
func (w *worker) inherit() {
	now := stamp(time.Now())
	for _, r := range w.records {
		for _, list := range [][]corev1.ContainerStatus{w.status.InitContainerStatuses, w.status.ContainerStatuses} {
			for _, status := range list {
				if status.Name == r.spec.Name {
					r.inherit(status, now)
				}
			}
		}
	}
	for _, ip := range w.status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			w.addresses = append(w.addresses, address)
		}
	}
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
	signal(w.wake)
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
	if err := w.publish(ctx, pod); err != nil {
		w.logError(ctx, err, "The status of the Pod cannot be written")
		again = earliest(again, time.Now().Add(retryPeriod))
	}
	return again, done
}

// advance performs the next step of the Pod.
func (w *worker) advance(ctx context.Context, pod *corev1.Pod) (again time.Time) {
	if err := w.prepare(ctx, pod, w.takeStale()); err != nil {
		w.setUpAt = time.Now().Add(w.setUpBackoff.Next(0))
	}
	if !w.mounted {
		return w.setUpAt
	}
	plan := lifecycle.Next(w.snapshot(), time.Now())
	w.initialized = plan.Initialized
	w.stop(ctx, pod, plan.Stop)
	for _, name := range plan.Start {
		w.start(ctx, w.withAddresses(pod), w.record(name))
	}
	if plan.Finished {
		w.finish(ctx)
		return time.Time{}
	}
	again = earliest(plan.Again, cmp.Or(w.setUpAt, w.renewAt), w.kill())
	if len(plan.Start) > 0 { // containers that failed to start need another plan
		again = time.Now()
	}
	return again
}

// takeStale reports whether an object changed since the last call. Containers with a problem
// may then be retried at once.
func (w *worker) takeStale() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	stale := w.stale
	w.stale = false
	for _, r := range w.records {
		if stale && r.problem != nil {
			r.retryAt = time.Time{}
		}
	}
	return stale
}

// snapshot returns the input of package lifecycle.
func (w *worker) snapshot() lifecycle.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := lifecycle.Pod{Initialized: w.initialized}
	for _, r := range w.records {
		pod.Containers = append(pod.Containers, r.plan())
	}
	return pod
}

func (w *worker) record(name string) *containerRecord {
	for _, r := range w.records {
		if r.spec.Name == name {
			return r
		}
	}
	return nil
}

// withAddresses returns the Pod with its addresses, which the API server may not have yet.
func (w *worker) withAddresses(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	setAddresses(&pod.Status, w.addresses, w.config.hostIPs())
	return pod
}

func (w *worker) logError(ctx context.Context, err error, message string) {
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
