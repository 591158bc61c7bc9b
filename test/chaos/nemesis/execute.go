// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/nemesis/wallclock"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

const (
	system = "mcs-system"
	// patience is how long a cluster may take to be ready after a fault.
	patience = 3 * time.Minute
)

// Executor plays faults on local clusters.
type Executor struct {
	Set      *localcluster.Set
	Recorder *history.Recorder
	// NewNamespace deletes a namespace of a cluster and creates it again.
	NewNamespace func(ctx context.Context, cluster string) error

	// links serializes changes of links: they are in one file.
	links sync.Mutex
}

// Run plays a plan, and returns when all faults are over. An error means that a fault could not
// be played or undone.
func (e *Executor) Run(ctx context.Context, plan []Fault) error {
	begun := time.Now()
	return inTurn(plan, func(fault Fault) error {
		if !wait(ctx, time.Until(begun.Add(fault.At))) {
			return nil
		}
		return e.play(ctx, fault)
	})
}

// inTurn plays all faults at the same time, but those of one link or one cluster one after another,
// in their order: undoing one may take longer than planned, such as a restart.
func inTurn(plan []Fault, play func(Fault) error) error {
	places := map[string][]Fault{}
	for _, fault := range plan {
		places[fault.where()] = append(places[fault.where()], fault)
	}
	var errs []error
	var guard sync.Mutex
	var running sync.WaitGroup
	for _, faults := range places {
		running.Go(func() {
			for _, fault := range faults {
				if err := play(fault); err != nil {
					guard.Lock()
					errs = append(errs, fmt.Errorf("%s: %w", strings.TrimSpace(fault.String()), err))
					guard.Unlock()
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// wait waits, and reports whether the context was not done before.
func wait(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}

// play plays one fault, and undoes it also if the context is done.
func (e *Executor) play(ctx context.Context, fault Fault) error {
	recorded := history.Fault{ID: fault.ID, Kind: string(fault.Kind), Clusters: fault.Clusters, Detail: strings.TrimSpace(fault.String()), Cut: fault.Cuts(), Lossy: fault.Loses()}
	e.Recorder.Record(history.Entry{Fault: &recorded})
	undo, err := e.inject(ctx, fault)
	if err == nil {
		wait(ctx, fault.Duration)
	}
	if undo != nil {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = errors.Join(err, undo(patient))
	}
	end := recorded
	end.End = true
	if err != nil {
		end.Error = err.Error()
	}
	e.Recorder.Record(history.Entry{Fault: &end})
	return err
}

// inject begins a fault, and returns how to undo it.
func (e *Executor) inject(ctx context.Context, fault Fault) (undo func(context.Context) error, err error) {
	cluster, err := e.Set.Cluster(fault.Clusters[0])
	if err != nil {
		return nil, err
	}
	ready := func(ctx context.Context) error { return awaitReplicas(ctx, cluster) }
	switch fault.Kind {
	case Cut, Delay, Loss:
		return e.impair(ctx, fault)
	case ExpiredToken:
		return e.expireToken(ctx, fault)
	case ExpiredCertificate:
		return expireCertificate(ctx, cluster, fault)
	case ClockJump:
		return jumpClock(cluster, fault)
	case ScaledDown:
		return func(ctx context.Context) error {
			return errors.Join(scale(ctx, cluster, 2), awaitReplicas(ctx, cluster))
		}, scale(ctx, cluster, 0)
	case FullDisk:
		return func(ctx context.Context) error { return freeDisk(ctx, cluster) }, cluster.FillDisk(etcd)
	case NewNamespace:
		return nil, e.NewNamespace(context.WithoutCancel(ctx), cluster.Name)
	case LeaderChange:
		return ready, changeLeader(ctx, cluster)
	case RollingUpdate:
		return ready, retry(ctx, func(ctx context.Context) error {
			return kubectl(ctx, cluster, "rollout", "restart", "deployment/mcs-apiserver", "-n", system)
		})
	}
	if ours(fault.Program) {
		return e.signalOurs(cluster, fault)
	}
	return failComponent(ctx, cluster, fault)
}

func (e *Executor) impair(ctx context.Context, fault Fault) (func(context.Context) error, error) {
	e.links.Lock()
	defer e.links.Unlock()
	link := [2]string{fault.Clusters[0], fault.Clusters[1]}
	repair := func(ctx context.Context) error {
		e.links.Lock()
		defer e.links.Unlock()
		return e.Set.Repair(ctx, link[0], link[1])
	}
	return repair, e.Set.Impair(ctx, fabric.Fault{Clusters: link, OneWay: fault.OneWay, Cut: fault.Kind == Cut, Delay: fault.By, Loss: fault.Percent})
}

// signalOurs sends a signal to a process of mcs-apiserver or mcs-controller. Its Pod starts it
// again.
func (e *Executor) signalOurs(cluster *localcluster.Cluster, fault Fault) (func(context.Context) error, error) {
	pids, err := cluster.Processes(fault.Program)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 { // it is being restarted
		return func(ctx context.Context) error { return awaitReplicas(ctx, cluster) }, nil
	}
	pid := pids[fault.Replica%len(pids)]
	signal := map[Kind]syscall.Signal{Kill: syscall.SIGKILL, Pause: syscall.SIGSTOP, Restart: syscall.SIGTERM}[fault.Kind]
	return func(ctx context.Context) error {
		if fault.Kind == Pause {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have been replaced meanwhile
		}
		return awaitReplicas(ctx, cluster)
	}, ignoreGone(syscall.Kill(pid, signal))
}

// jumpClock lets the wall clock of a process of mcs-apiserver or mcs-controller jump.
func jumpClock(cluster *localcluster.Cluster, fault Fault) (func(context.Context) error, error) {
	pids, err := cluster.Processes(fault.Program)
	if err != nil || len(pids) == 0 {
		return nil, err
	}
	pid := pids[fault.Replica%len(pids)]
	return func(ctx context.Context) error {
		return errors.Join(ignoreGone(wallclock.Jump(pid, 0)), awaitReplicas(ctx, cluster))
	}, ignoreGone(wallclock.Jump(pid, fault.By))
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// failComponent kills, pauses or restarts etcd or the kube-apiserver.
func failComponent(ctx context.Context, cluster *localcluster.Cluster, fault Fault) (func(context.Context) error, error) {
	start := func(ctx context.Context) error { return start(ctx, cluster) }
	switch fault.Kind {
	case Pause:
		return func(ctx context.Context) error {
			return errors.Join(cluster.Resume(fault.Program), start(ctx))
		}, cluster.Pause(fault.Program)
	case Restart:
		daemon, err := cluster.Component(fault.Program)
		if err != nil {
			return nil, err
		}
		return start, daemon.Stop(ctx, time.Minute)
	default:
		return start, cluster.Kill(fault.Program)
	}
}

// start starts what is not running of the control plane.
func start(ctx context.Context, cluster *localcluster.Cluster) error {
	return errors.Join(cluster.Start(ctx, etcd), cluster.Start(ctx, kubeAPIServer))
}

func freeDisk(ctx context.Context, cluster *localcluster.Cluster) error {
	return errors.Join(cluster.FreeDisk(etcd), start(ctx, cluster))
}
