// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/etcfiles"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/network"
	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/volumes"
)

// podSetup is the network and the volumes of one Pod, which its containers share. Its methods
// belong to the goroutine of the worker, except where they say otherwise.
type podSetup struct {
	services *services
	// dir holds the volumes and other state of the Pod.
	dir      string
	hostname string
	volumes  *volumes.Set
	// mounted is set if all volumes exist. renewAt is when they need an update.
	mounted bool
	renewAt time.Time
	// retryAt is when to retry a failed setup.
	retryAt time.Time
	backoff lifecycle.Backoff
	// addresses are those of the Pod, kept after it has ended.
	addresses []netip.Addr

	// mu guards the sandbox, which requests of the kubelet API use.
	mu      sync.Mutex
	sandbox *network.Pod
}

// newPodSetup returns the setup of a Pod before anything has been created, with the
// addresses that an earlier agent wrote.
func newPodSetup(s *services, pod *corev1.Pod) *podSetup {
	dir := filepath.Join(s.config.podsDir(), string(pod.UID))
	setup := &podSetup{
		services: s,
		dir:      dir,
		hostname: etcfiles.Hostname(pod, s.config.NodeName),
		volumes:  s.volumes.NewSet(filepath.Join(dir, "volumes")),
	}
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			setup.addresses = append(setup.addresses, address)
		}
	}
	return setup
}

// prepare creates the network and the volumes of the Pod, and updates the volumes if that is
// due or an object has changed. A failure is retried at retryAt; a Pod that has its volumes
// keeps running if an update fails.
func (s *podSetup) prepare(ctx context.Context, pod *corev1.Pod, stale bool) {
	now := time.Now()
	due := !s.mounted || !s.retryAt.IsZero() || !s.renewAt.IsZero() && !s.renewAt.After(now)
	if !stale && (!due || s.retryAt.After(now)) {
		return
	}
	if !s.update(ctx, pod) {
		s.retryAt = time.Now().Add(s.backoff.Next(0))
		return
	}
	s.mounted = true
	s.retryAt, s.backoff = time.Time{}, lifecycle.Backoff{}
}

// update creates what is missing and updates the volumes. It reports whether it succeeded.
func (s *podSetup) update(ctx context.Context, pod *corev1.Pod) bool {
	if err := s.connect(ctx, pod); err != nil {
		logError(ctx, err, "Failed to create the network of the Pod, retrying")
		s.services.events.Event(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
		return false
	}
	var err error
	if s.renewAt, err = s.volumes.Sync(ctx, s.withAddresses(pod)); err != nil {
		logError(ctx, err, "Failed to create or update the volumes of the Pod, retrying")
		s.services.events.Event(pod, corev1.EventTypeWarning, "FailedMount", err.Error())
		return false
	}
	return true
}

// connect creates the network of the Pod if it does not exist yet.
func (s *podSetup) connect(ctx context.Context, pod *corev1.Pod) (err error) {
	if s.sandbox != nil {
		return nil
	}
	var sandbox *network.Pod
	if pod.Spec.HostNetwork {
		sandbox, err = s.services.network.NewHostPod(s.hostname)
	} else {
		sandbox, err = s.services.network.NewPod(ctx, string(pod.UID), s.hostname)
	}
	if err != nil {
		return err
	}
	s.addresses = sandbox.Addresses
	if pod.Spec.HostNetwork {
		s.addresses = s.services.config.nodeAddresses()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandbox = sandbox
	return nil
}

// nextUpdate returns when prepare has work to do without a change of an object, or the zero
// time.
func (s *podSetup) nextUpdate() time.Time { return cmp.Or(s.retryAt, s.renewAt) }

// withAddresses returns the Pod with its addresses, which the API server may not have yet.
func (s *podSetup) withAddresses(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	setAddresses(&pod.Status, s.addresses, s.services.config.hostIPs())
	return pod
}

// podNetwork returns the network of the Pod, or nil if it has none. Any goroutine may call it.
func (s *podSetup) podNetwork() *network.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandbox
}

// remove removes the network, the volumes and all other state of the Pod from the node. No
// process of the Pod may be running.
func (s *podSetup) remove(ctx context.Context) {
	s.mu.Lock()
	sandbox := s.sandbox
	s.sandbox = nil
	s.mu.Unlock()
	if sandbox != nil {
		if err := sandbox.Close(ctx); err != nil {
			logError(ctx, err, "Failed to remove the network of the Pod")
		}
	}
	if err := s.volumes.Remove(); err != nil {
		logError(ctx, err, "Failed to remove the volumes of the Pod")
		return // the directory may still have mounts
	}
	if err := os.RemoveAll(s.dir); err != nil {
		logError(ctx, err, "Failed to remove the state of the Pod")
	}
}
