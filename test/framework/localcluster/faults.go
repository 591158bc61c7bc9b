// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
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
	component, err := c.component(name)
	if err != nil {
		return err
	}
	return c.start(ctx, component)
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

// FillDisk fills the disk of a component: etcd's, or the node agent's, which
// holds the volumes and logs of all Pods.
func (c *Cluster) FillDisk(component string) error {
	disk, err := c.disk(component)
	if err != nil {
		return err
	}
	filler, err := os.Create(filepath.Join(disk, fillerFile))
	if err != nil {
		return err
	}
	defer filler.Close()
	for chunk := make([]byte, 1<<20); ; {
		if _, err := filler.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// FreeDisk undoes FillDisk.
func (c *Cluster) FreeDisk(component string) error {
	disk, err := c.disk(component)
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(disk, fillerFile))
}

const fillerFile = "filler"

// Fault impairs the link between two clusters in both directions.
type Fault struct {
	Clusters [2]string
	// Cut drops all packets silently.
	Cut bool `json:",omitempty"`
	// Delay is added to every packet.
	Delay time.Duration `json:",omitempty"`
	// Loss is the share of packets that are dropped, in percent.
	Loss int `json:",omitempty"`
}

func (f Fault) validate() error {
	switch {
	case f.Clusters[0] == f.Clusters[1]:
		return errors.New("a link connects two different clusters")
	case f.Loss < 0 || f.Loss > 100:
		return fmt.Errorf("invalid packet loss %d: must be between 0 and 100 percent", f.Loss)
	case f.Delay < 0:
		return fmt.Errorf("invalid delay %s: must not be negative", f.Delay)
	}
	return nil
}

func (f Fault) concerns(a, b string) bool {
	return f.Clusters == [2]string{a, b} || f.Clusters == [2]string{b, a}
}

// Impair applies a fault to the link between two clusters and replaces any
// earlier fault of that link. A zero fault repairs the link.
func (s *Set) Impair(ctx context.Context, fault Fault) error {
	if err := fault.validate(); err != nil {
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
	state.Faults = slices.DeleteFunc(state.Faults, func(old Fault) bool { return old.concerns(fault.Clusters[0], fault.Clusters[1]) })
	if fault.Cut || fault.Delay > 0 || fault.Loss > 0 {
		state.Faults = append(state.Faults, fault)
	}
	if err := s.save(state); err != nil {
		return err
	}
	clusters, err := s.Clusters()
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if slices.Contains(fault.Clusters[:], cluster.Name) {
			if err := cluster.applyFaults(ctx, clusters, state.Faults); err != nil {
				return err
			}
		}
	}
	return nil
}

// Repair removes the fault of a link.
func (s *Set) Repair(ctx context.Context, a, b string) error {
	return s.Impair(ctx, Fault{Clusters: [2]string{a, b}})
}

// applyFaults configures the cluster's end of every link.
func (c *Cluster) applyFaults(ctx context.Context, clusters []*Cluster, faults []Fault) error {
	var drops []string
	for _, peer := range clusters {
		if peer.Name == c.Name {
			continue
		}
		var fault Fault
		for _, candidate := range faults {
			if candidate.concerns(c.Name, peer.Name) {
				fault = candidate
			}
		}
		drops = append(drops, dropRules(fault, peer)...)
		if err := c.delayPacketsTo(ctx, peer, fault.Delay); err != nil {
			return err
		}
	}
	rules := []string{"table inet mcs_faults", "delete table inet mcs_faults", "table inet mcs_faults {"}
	// After kube-proxy's rules, so that the destination is the one that kube-proxy chose.
	for _, hook := range []string{"input", "forward", "output"} {
		rules = append(rules, "chain "+hook+" { type filter hook "+hook+" priority 10; policy accept;")
		rules = append(rules, drops...)
		rules = append(rules, "}")
	}
	return inWithInput(c.namespace(), strings.Join(append(rules, "}"), "\n"), "nft", "-f", "-")
}

// dropRules returns rules that drop packets to and from a peer if the link is
// cut, and a share of the packets from the peer if the link loses packets: the
// other end does the same for the other direction.
func dropRules(fault Fault, peer *Cluster) []string {
	var rules []string
	for family, keyword := range []string{"ip", "ip6"} {
		networks := "{ " + peer.NodeIPs()[family] + ", " + peer.PodCIDRs()[family] + " }"
		switch {
		case fault.Cut:
			rules = append(rules, keyword+" saddr "+networks+" drop", keyword+" daddr "+networks+" drop")
		case fault.Loss > 0:
			rules = append(rules, fmt.Sprintf("%s saddr %s numgen random mod 100 <= %d drop", keyword, networks, fault.Loss-1))
		}
	}
	return rules
}

func inWithInput(namespace, input string, command ...string) error {
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + namespace, "--"}, command...)...)
	cmd.Stdin = strings.NewReader(input)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s (in %s): %w: %s\n%s", strings.Join(command, " "), namespace, err, output, input)
	}
	return nil
}
