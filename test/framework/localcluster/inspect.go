// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Memory returns the memory of all components of the cluster, its Pods
// included, in bytes. Shared memory is counted once.
func (c *Cluster) Memory() (int, error) {
	pids, err := c.processes()
	if err != nil {
		return 0, err
	}
	total := 0
	for _, pid := range pids {
		total += proportionalSize(pid)
	}
	return total, nil
}

// LargestProcess returns the memory of the largest process of a program of the cluster, in bytes,
// or 0 if there is none.
func (c *Cluster) LargestProcess(program string) (int, error) {
	pids, err := c.Processes(program)
	if err != nil {
		return 0, err
	}
	largest := 0
	for _, pid := range pids {
		largest = max(largest, proportionalSize(pid))
	}
	return largest, nil
}

// Processes returns the IDs of all processes of a program of the cluster, in ascending order.
func (c *Cluster) Processes(program string) ([]int, error) {
	pids, err := c.processes()
	if err != nil {
		return nil, err
	}
	slices.Sort(pids)
	return slices.DeleteFunc(pids, func(pid int) bool {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err != nil || strings.TrimSpace(string(name)) != program
	}), nil
}

// processes returns the processes of all components of the cluster, its Pods included.
func (c *Cluster) processes() ([]int, error) {
	components, err := c.components.all()
	if err != nil {
		return nil, err
	}
	member := map[int]bool{}
	for _, component := range components {
		if pid, running := component.daemon().Running(); running {
			member[pid] = true
		}
	}
	parents, err := parents()
	if err != nil {
		return nil, err
	}
	var found []int
	for pid := range parents {
		for ancestor := pid; ancestor > 1; ancestor = parents[ancestor] {
			if member[ancestor] {
				found = append(found, pid)
				break
			}
		}
	}
	return found, nil
}

// Program returns the process of the program of a container. Images need not contain the
// tools to look at it from inside.
func (c *Cluster) Program(ctx context.Context, namespace, pod, container string) (int, error) {
	uid, err := c.Kubectl(ctx, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, uid)
	}
	parents, err := parents()
	if err != nil {
		return 0, err
	}
	// The last argument of the init process of a container is its directory.
	directory := fmt.Sprintf("/pods/%s/containers/%s\x00", uid, container)
	for pid, parent := range parents {
		if init, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", parent)); err == nil && bytes.HasSuffix(init, []byte(directory)) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("container %s of Pod %s/%s is not running", container, namespace, pod)
}

// parents returns the parent of every process of this machine.
func parents() (map[int]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // the process has ended
		}
		if fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])); len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return parents, nil
}

// proportionalSize returns the proportional set size of a process in bytes.
func proportionalSize(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(data), "\n") {
		var kilobytes int
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}

// Leftovers returns the processes, namespaces, mounts and interfaces of the
// set. After Down, the result is empty.
func (s *Set) Leftovers() ([]string, error) {
	var found []string
	parents, err := parents()
	if err != nil {
		return nil, err
	}
	for pid := range parents {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(command, []byte(s.Dir)) && pid != os.Getpid() {
			found = append(found, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, s.Dir+"/") {
			found = append(found, "mount "+line)
		}
	}
	connections, err := s.fabric(0).Leftovers()
	return append(found, connections...), err
}
