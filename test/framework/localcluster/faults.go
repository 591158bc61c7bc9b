// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

// Kill kills a component with SIGKILL, as a power failure would. The component
// is not restarted until Start is called.
func (c *Cluster) Kill(component string) error {
	daemon, err := c.Component(component)
	if err != nil {
		return err
	}
	return daemon.Kill()
}

// Start starts a component that was killed, and waits until it is ready.
func (c *Cluster) Start(ctx context.Context, name string) error {
	component, err := c.components.find(name)
	if err != nil {
		return err
	}
	return component.start(ctx)
}

// Pause suspends a component; its connections stay open.
func (c *Cluster) Pause(component string) error { return c.signal(component, syscall.SIGSTOP) }

// Resume resumes a paused component.
func (c *Cluster) Resume(component string) error { return c.signal(component, syscall.SIGCONT) }

func (c *Cluster) signal(component string, signal syscall.Signal) error {
	daemon, err := c.Component(component)
	if err != nil {
		return err
	}
	return daemon.Signal(signal)
}

// SignalProgram sends a signal to the program of a container.
func (c *Cluster) SignalProgram(ctx context.Context, namespace, pod, container string, signal syscall.Signal) error {
	pid, err := c.Program(ctx, namespace, pod, container)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, signal)
}

// FillDisk fills the disk of a component: etcd's, or the node agent's, which
// holds the volumes and logs of all Pods.
func (c *Cluster) FillDisk(component string) error {
	disk, err := c.disk(component)
	if err != nil {
		return err
	}
	return disk.fill()
}

// FreeDisk undoes FillDisk.
func (c *Cluster) FreeDisk(component string) error {
	disk, err := c.disk(component)
	if err != nil {
		return err
	}
	return disk.free()
}

// CutNode drops all packets from and to a node. Pods of the node keep running and reach each
// other. The first node cannot be cut off: it runs the control plane.
func (c *Cluster) CutNode(name string) error {
	node, err := c.network.Node(name)
	if err != nil {
		return err
	}
	if node == c.network.ControlPlane() {
		return fmt.Errorf("%s of cluster %q runs the control plane: choose another node", name, c.Name)
	}
	return node.Cut()
}

// RepairNode undoes CutNode.
func (c *Cluster) RepairNode(name string) error {
	node, err := c.network.Node(name)
	if err != nil {
		return err
	}
	return node.Reconnect()
}

// Crash fails the whole cluster as a power failure would: all components and Pods are killed, and
// packets to the cluster are dropped, so that no other cluster is told of closed connections. Its
// disks keep their content.
func (c *Cluster) Crash() error {
	for _, node := range c.network.Nodes {
		if err := node.Cut(); err != nil {
			return err
		}
	}
	components, err := c.components.all()
	if err != nil {
		return err
	}
	var errs []error
	for _, component := range components {
		if _, running := component.daemon().Running(); running {
			errs = append(errs, component.daemon().Kill())
		}
	}
	return errors.Join(errs...)
}

// Recover starts a cluster that crashed, and waits until its components are ready. Its Pods may not be.
func (c *Cluster) Recover(ctx context.Context) error {
	for _, node := range c.network.Nodes {
		if err := node.Reconnect(); err != nil {
			return err
		}
	}
	components, err := c.components.all()
	if err != nil {
		return err
	}
	for _, component := range components {
		if err := component.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Impair applies a fault to the link between two clusters and replaces any
// earlier fault of that link. A zero fault repairs the link.
func (s *Set) Impair(ctx context.Context, fault fabric.Fault) error {
	if err := fault.Validate(); err != nil {
		return err
	}
	for _, name := range fault.Clusters {
		if _, err := s.Cluster(name); err != nil {
			return err
		}
	}
	state, err := s.load()
	if err != nil {
		return err
	}
	state.Faults = slices.DeleteFunc(state.Faults, func(old fabric.Fault) bool { return old.Concerns(fault.Clusters[0], fault.Clusters[1]) })
	if fault.Impairs() {
		state.Faults = append(state.Faults, fault)
	}
	if err := s.save(state); err != nil {
		return err
	}
	networks := networksOf(s.clustersOf(state))
	for _, network := range networks {
		if slices.Contains(fault.Clusters[:], network.Cluster) {
			if err := network.ApplyFaults(ctx, networks, state.Faults); err != nil {
				return err
			}
		}
	}
	return nil
}

// Repair removes the fault of a link.
func (s *Set) Repair(ctx context.Context, a, b string) error {
	return s.Impair(ctx, fabric.Fault{Clusters: [2]string{a, b}})
}
