// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/probes"
)

const (
	// goneGrace is the grace period of Pods that were deleted without one.
	goneGrace = time.Second
	// shutDownGrace is the grace period of all Pods when the agent stops.
	shutDownGrace = 5 * time.Second
)

// end terminates a deleted Pod.
func (w *worker) end(ctx context.Context, pod *corev1.Pod) (again time.Time, done bool) {
	w.mu.Lock()
	gone := w.gone
	w.mu.Unlock()
	if w.deleted {
		return time.Time{}, !gone.IsZero()
	}
	if w.ending.IsZero() {
		w.ending = time.Now()
	}
	stop, stopped := lifecycle.Stop(w.snapshot())
	if !stopped {
		w.stop(ctx, pod, stop)
		w.killBefore(deadline(pod, w.ending, gone))
		return w.kill(), false
	}
	w.finish(ctx)
	if !gone.IsZero() {
		return time.Time{}, true
	}
	if err := w.delete(ctx, pod); err != nil {
		w.logError(ctx, err, "The Pod cannot be deleted")
		return time.Now().Add(retryPeriod), false
	}
	w.deleted = true
	return time.Time{}, false
}

// deadline returns when the containers of a deleted Pod are killed. The grace period may
// have been shortened since the deletion.
func deadline(pod *corev1.Pod, ending, gone time.Time) time.Time {
	var times []time.Time
	if pod.DeletionGracePeriodSeconds != nil {
		times = append(times, ending.Add(time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second))
	}
	if !gone.IsZero() {
		times = append(times, gone.Add(goneGrace))
	}
	return earliest(times...)
}

// delete writes the final status and then deletes the Pod.
func (w *worker) delete(ctx context.Context, pod *corev1.Pod) error {
	if err := w.publish(ctx, pod); err != nil {
		return err
	}
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the Pod is gone or was replaced
		return nil
	}
	return err
}

// stop asks containers to terminate.
func (w *worker) stop(ctx context.Context, pod *corev1.Pod, names []string) {
	for _, name := range names {
		r := w.record(name)
		w.mu.Lock()
		current := r.run
		if current == nil { // the container has already exited
			w.mu.Unlock()
			continue
		}
		grace := r.grace(pod)
		current.stopping, current.killAt = true, time.Now().Add(grace)
		current.endRestart()
		if current.failed != "" {
			w.events.Eventf(pod, corev1.EventTypeNormal, "Killing", "Container %s failed %s probe, will be restarted", name, current.failed)
		} else {
			w.events.Eventf(pod, corev1.EventTypeNormal, "Killing", "Stopping container %s", name)
		}
		w.mu.Unlock()
		klog.FromContext(ctx).Info("Stopping container", "container", name)
		w.tasks.Go(func() { w.ask(ctx, pod, r, current, grace) })
	}
}

// ask runs the hook of a container and then sends the signal to terminate.
func (w *worker) ask(ctx context.Context, pod *corev1.Pod, r *containerRecord, current *run, grace time.Duration) {
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
		if err := w.hook(ctx, hooks.PreStop, w.target(r, current.container)); err != nil && ctx.Err() == nil {
			w.events.Event(pod, corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
		}
	}
	current.container.Signal(r.stopSignal())
}

// hook runs a hook of a container to completion.
func (w *worker) hook(ctx context.Context, handler *corev1.LifecycleHandler, target probes.Target) error {
	switch {
	case handler.Exec != nil:
		return target.Check(ctx, corev1.ProbeHandler{Exec: handler.Exec})
	case handler.HTTPGet != nil:
		return target.Check(ctx, corev1.ProbeHandler{HTTPGet: handler.HTTPGet})
	case handler.Sleep != nil:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(handler.Sleep.Seconds) * time.Second):
			return nil
		}
	}
	return errors.New("unsupported kind of lifecycle hook")
}

// killBefore shortens the deadline of stopping containers, but never extends it.
func (w *worker) killBefore(deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.run != nil {
			r.run.killAt = earliest(r.run.killAt, deadline)
		}
	}
}

// kill kills containers whose deadline has passed and returns the next deadline.
func (w *worker) kill() (next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, r := range w.records {
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

// shutDown stops all containers because the agent stops. The Pod stays unchanged in the
// API: another agent will run it.
func (w *worker) shutDown(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	timeout := time.NewTimer(shutDownGrace)
	defer timeout.Stop()
	w.each(func(r *containerRecord) { r.run.container.Signal(r.stopSignal()) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.tasks.Wait()
	}()
	select {
	case <-ended:
	case <-timeout.C:
		w.each(func(r *containerRecord) { r.run.container.Kill() })
		<-ended
	}
	w.finish(ctx)
}

// each calls a function for all running containers.
func (w *worker) each(do func(*containerRecord)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.records {
		if r.run != nil {
			do(r)
		}
	}
}
