// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

var rounds = flag.Int("rounds", 1, "How often to inject every fault.")

const (
	// maxDelay is how long a fault may delay a change: how much longer it takes to arrive than
	// without a fault, which is a fraction of a second if the machine is not overloaded.
	maxDelay = 5 * time.Second
	// calm is how long the clients are observed before and after a fault.
	calm = 3 * time.Second
)

// limits are what clients may notice of a fault.
type limits struct {
	// repetitions allows errors that a caller of client-go must hide by repeating a read.
	repetitions bool
	// disturbed is how long after the fault a read may begin that is slow.
	disturbed time.Duration
	// lenient lets the fault delay changes for twice as long, unless it is measured in several
	// rounds: connections and Leases have to expire one after another, and a busy machine adds to each.
	lenient bool
}

// delay returns how long the fault may delay a change.
func (l limits) delay() time.Duration {
	if l.lenient && *rounds == 1 {
		return 2 * maxDelay
	}
	return maxDelay
}

// fault is one kind of failure. It leaves two ready replicas on two nodes.
type fault struct {
	name    string
	prepare func(*testing.T)
	inject  func(*testing.T, *clients)
	limits
}

// faults are injected one after the other.
var faults = []fault{
	{"none", awaitReplicas, func(*testing.T, *clients) {}, limits{}},
	{"kill -9", awaitReplicas, kill, limits{repetitions: true}},
	{"drain", awaitReplicas, drain, limits{}},
	{"rolling update", awaitReplicas, rollingUpdate, limits{}},
	// A vanished node closes no connections. Requests that were sent to its replica, and
	// watches of it, fail when the kube-apiserver notices.
	{"cut-off node", prepareCut, cutOff, limits{repetitions: true, disturbed: 2 * maxDelay, lenient: true}},
}

// R190: while one of two replicas of mcs-apiserver is killed, its node drained or cut off, or all
// replicas replaced, under load: no read fails but with an error that clients hide by retrying.
// R191: no import disappears or changes its identity. R192: changes keep arriving within 5 s.
func TestFailingReplicaIsNotNoticed(t *testing.T) {
	ns := localcluster.CreateNamespace(t, "chaos", east, west)
	load := newLoad(t, expect.Must(east.Config())(t), ns)
	expect.NoError(t, load.create(t.Context()))
	clients := newClients(t, expect.Must(west.Config())(t), ns, load.changes)
	ctx, stop := context.WithCancel(t.Context())
	changing := make(chan error, 1)
	go func() { changing <- load.run(ctx) }()
	t.Cleanup(func() {
		stop()
		expect.NoError(t, <-changing)
	})
	var observations []observation
	usual := time.Duration(0)
	for range *rounds {
		for i, fault := range faults {
			t.Run(fault.name, func(t *testing.T) {
				seen := observe(t, clients, fault)
				observations = append(observations, seen)
				seen.check(t, clients, fault.limits, usual+fault.delay())
				if i == 0 { // there was no fault
					usual = max(usual, slowest(seen.endpoints).Duration, slowest(seen.imports).Duration)
				}
			})
		}
	}
	report(os.Stdout, observations)
}

// kill kills both processes of the leader's Pod.
func kill(t *testing.T, _ *clients) {
	t.Helper()
	pod, _ := leader(t)
	restarts := words(t, west, "get", "pod", pod, "-n", system, "-o", restartCounts)
	var group errgroup.Group
	for _, program := range []string{"mcs-apiserver", "mcs-controller"} {
		group.Go(func() error { return west.SignalProgram(t.Context(), system, pod, program, syscall.SIGKILL) })
	}
	expect.NoError(t, group.Wait())
	expect.Eventually(t, "restart of both containers", func(ctx context.Context) error {
		output, err := west.Kubectl(ctx, "get", "pod", pod, "-n", system, "-o", restartCounts)
		if err != nil {
			return err
		}
		for i, count := range strings.Fields(output) {
			if count == restarts[i] {
				return fmt.Errorf("restarts: %s, were %v", output, restarts)
			}
		}
		return nil
	})
	awaitReplicas(t)
}

// drain drains the leader's node, as for maintenance.
func drain(t *testing.T, _ *clients) {
	t.Helper()
	_, node := leader(t)
	defer west.MustKubectl(t, "uncordon", node)
	west.MustKubectl(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=100s")
	awaitReplicas(t)
}

// rollingUpdate replaces all replicas, and waits until the former ones have ended.
func rollingUpdate(t *testing.T, _ *clients) {
	t.Helper()
	former := words(t, west, "get", "pods", "-n", system, "-l", "app.kubernetes.io/name=mcs-apiserver", "-o", "name")
	west.MustKubectl(t, "rollout", "restart", "deployment/mcs-apiserver", "-n", system)
	awaitReplicas(t)
	west.MustKubectl(t, append([]string{"wait", "--for=delete", "-n", system, "--timeout=60s"}, former...)...)
}

// prepareCut makes the replica on the node that can be cut off the leader.
func prepareCut(t *testing.T) {
	t.Helper()
	moveLeaderTo(t, cuttable)
}

// cutOff cuts off the leader's node, and connects it again when everything works without it.
func cutOff(t *testing.T, c *clients) {
	t.Helper()
	pod, _ := leader(t)
	expect.NoError(t, west.CutNode(cuttable))
	defer func() { expect.NoError(t, west.RepairNode(cuttable)) }()
	// Its replica leaves the Service before the node is not ready.
	west.MustKubectl(t, "wait", "--for=condition=Ready=False", "pod/"+pod, "-n", system, "--timeout=15s")
	c.awaitCurrent(t) // maxDelay/2 is less than the time since the cut
	expect.NoError(t, west.RepairNode(cuttable))
	awaitReplicas(t)
}
