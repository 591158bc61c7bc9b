// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// disk is the directory of a disk in memory, which is small enough to be filled by a test.
type disk string

const diskSize = "1g"

// disks maps each component that writes to a disk of its own to that disk.
func (c *Cluster) disks() map[string]disk {
	disks := map[string]disk{Etcd: disk(filepath.Join(c.dir, "etcd"))}
	for _, node := range c.network.Nodes {
		disks[onNode(NodeAgent, node)] = disk(filepath.Join(c.dir, onNode("node", node)))
	}
	return disks
}

// disk returns the disk of a component.
func (c *Cluster) disk(component string) (disk, error) {
	disks := c.disks()
	d, ok := disks[component]
	if !ok {
		return "", fmt.Errorf("component %q has no disk: use one of %s", component, strings.Join(slices.Sorted(maps.Keys(disks)), ", "))
	}
	return d, nil
}

// mount creates the disk if it does not exist.
func (d disk) mount() error {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return err
	}
	if mounted, err := d.mounted(); err != nil || mounted {
		return err
	}
	if err := syscall.Mount("mcs-test", string(d), "tmpfs", 0, "mode=0755,size="+diskSize); err != nil {
		return fmt.Errorf("mount disk %s: %w", d, err)
	}
	return nil
}

// unmount removes the disk if it exists.
func (d disk) unmount() error {
	if mounted, err := d.mounted(); err == nil && mounted {
		return syscall.Unmount(string(d), syscall.MNT_DETACH)
	}
	return nil
}

func (d disk) mounted() (bool, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	return strings.Contains(string(mounts), " "+string(d)+" "), err
}

// filler returns the file that fills the disk.
func (d disk) filler() string { return filepath.Join(string(d), "filler") }

// fill fills the disk.
func (d disk) fill() error {
	filler, err := os.Create(d.filler())
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

// free undoes fill.
func (d disk) free() error { return os.Remove(d.filler()) }
