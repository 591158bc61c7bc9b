// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
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
	stop, stopped := lifecycle.Stop(w.containers.snapshot(w.initialized))
	if !stopped {
		w.containers.stop(ctx, pod, stop)
		w.containers.killBefore(deadline(pod, w.ending, gone))
		return w.containers.killOverdue(), false
	}
	w.finish(ctx)
	if !gone.IsZero() {
		return time.Time{}, true
	}
	if err := w.delete(ctx, pod); err != nil {
		logError(ctx, err, "Failed to delete the Pod, retrying")
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
	if err := w.publishStatus(ctx, pod); err != nil {
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

// shutDown stops all containers because the agent stops. The Pod stays unchanged in the
// API: another agent will run it.
func (w *worker) shutDown(ctx context.Context) {
	w.containers.stopAll(shutDownGrace)
	w.finish(context.WithoutCancel(ctx))
}

// finish removes the state of the Pod from the node, except its logs, once its last process
// has ended.
func (w *worker) finish(ctx context.Context) {
	w.containers.tasks.Wait()
	w.finished = true
	w.setup.remove(ctx)
}
