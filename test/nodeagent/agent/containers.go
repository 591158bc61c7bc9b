// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/lifecycle"
)

// containers runs the containers of one Pod: it starts, probes, stops and kills them as the
// worker decides, and records what happens to them.
type containers struct {
	*services
	// setup is the network and the volumes that the containers use.
	setup *podSetup
	// logDir holds the logs of the containers.
	logDir string
	// changed is signaled when the state of a container changes.
	changed chan<- struct{}
	// tasks are goroutines of running containers, which end with them.
	tasks sync.WaitGroup

	// mu guards the fields below. The records themselves are never replaced.
	mu      sync.Mutex
	records []*containerRecord
	// terminating is set if the Pod is being deleted.
	terminating bool
}

// record returns the record of a container, or nil.
func (c *containers) record(name string) *containerRecord {
	for _, r := range c.records {
		if r.spec.Name == name {
			return r
		}
	}
	return nil
}

// change changes records and signals the change.
func (c *containers) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	signal(c.changed)
}

// markTerminating records that the Pod is being deleted.
func (c *containers) markTerminating() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminating = true
}

// retryProblems allows an immediate start of the containers that could not be started.
func (c *containers) retryProblems() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		if r.problem != nil {
			r.retryAt = time.Time{}
		}
	}
}

// snapshot returns the input of package lifecycle.
func (c *containers) snapshot(initialized bool) lifecycle.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := lifecycle.Pod{Initialized: initialized}
	for _, r := range c.records {
		pod.Containers = append(pod.Containers, r.plan())
	}
	return pod
}

// statuses returns the status of all init containers and of all other containers. The
// containers of a Pod that is over are not restarted.
func (c *containers) statuses(initialized, over bool, now time.Time) (initContainers, mainContainers []corev1.ContainerStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		status := r.status(initialized, over, now)
		if r.kind == lifecycle.Main {
			mainContainers = append(mainContainers, status)
		} else {
			initContainers = append(initContainers, status)
		}
	}
	return initContainers, mainContainers
}
