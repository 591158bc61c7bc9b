// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/network"
)

// prepare creates the network and the volumes of the Pod, and updates the volumes. A Pod
// that has its volumes keeps running if an update fails.
func (w *worker) prepare(ctx context.Context, pod *corev1.Pod, stale bool) error {
	now := time.Now()
	due := !w.mounted || !w.setUpAt.IsZero() || !w.renewAt.IsZero() && !w.renewAt.After(now)
	if !stale && (!due || w.setUpAt.After(now)) {
		return nil
	}
	if err := w.connect(ctx, pod); err != nil {
		w.logError(ctx, err, "The Pod has no network")
		w.events.Event(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
		return err
	}
	var err error
	if w.renewAt, err = w.set.Sync(ctx, w.withAddresses(pod)); err != nil {
		w.logError(ctx, err, "The Pod lacks volumes")
		w.events.Event(pod, corev1.EventTypeWarning, "FailedMount", err.Error())
		return err
	}
	w.mounted = true
	w.setUpAt, w.setUpBackoff = time.Time{}, lifecycle.Backoff{}
	return nil
}

func (w *worker) connect(ctx context.Context, pod *corev1.Pod) (err error) {
	if w.sandbox != nil {
		return nil
	}
	var sandbox *network.Pod
	if pod.Spec.HostNetwork {
		sandbox, err = w.network.NewHostPod(w.hostname)
	} else {
		sandbox, err = w.network.NewPod(ctx, string(pod.UID), w.hostname)
	}
	if err != nil {
		return err
	}
	w.addresses = sandbox.Addresses
	if pod.Spec.HostNetwork {
		w.addresses = w.config.nodeAddresses()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sandbox = sandbox
	return nil
}

// finish removes the state of the Pod from the node, except its logs. No process of the
// Pod may be running.
func (w *worker) finish(ctx context.Context) {
	w.tasks.Wait()
	w.finished = true
	w.mu.Lock()
	sandbox := w.sandbox
	w.sandbox = nil
	w.mu.Unlock()
	if sandbox != nil {
		if err := sandbox.Close(ctx); err != nil {
			w.logError(ctx, err, "The network of the Pod cannot be removed")
		}
	}
	if err := w.set.Remove(); err != nil {
		w.logError(ctx, err, "The volumes of the Pod cannot be removed")
		return // the directory may still have mounts
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.logError(ctx, err, "The state of the Pod cannot be removed")
	}
}
