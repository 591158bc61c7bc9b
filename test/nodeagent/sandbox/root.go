// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Mount makes a file or directory of the host available in a container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// rootConfig describes the file system of a container.
type rootConfig struct {
	// Image is the root file system that the container sees, a directory of the host; empty
	// for that of the host.
	Image string
	// Stage is an empty directory of the host. In the mount namespace of the container, a tmpfs
	// with all writes of the container is mounted on it.
	Stage string
	// State is the state directory of the agent. Its mounts are hidden from containers.
	State string
	// Images is the image directory, or empty.
	Images string
	// Files are the contents of text files by path.
	Files map[string]string
	// Mounts are mounted in this order.
	Mounts []Mount
	// ReadOnly makes everything but the mounts and /dev/shm read-only.
	ReadOnly bool
}

// hostPath is the path at which a container sees the host during its setup.
const hostPath = "/.host"

// private are directories that are empty in each container.
var private = []struct{ path, mode string }{{"/tmp", "1777"}, {"/run", "755"}}

// enter creates the file system and makes it the root of this process. It is an overlay on the root
// file system of the image: any mount point can be created, and all writes go to a tmpfs that ends
// with the container. Without an image, it is an overlay on that of the host, so that all installed
// programs exist. The mount namespace must be new.
func (c *rootConfig) enter() error {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := c.pivot(); err != nil {
		return err
	}
	steps := []func() error{mountKernel, mountDevices}
	if c.Image == "" {
		steps = append(steps, mountPrivate, func() error { return mountHost(hostMounts(string(mountinfo), c.hidden())) }, c.mountImages)
	}
	for _, step := range append(steps, c.writeFiles, c.mountVolumes) {
		if err := step(); err != nil {
			return err
		}
	}
	if err := unix.Unmount(hostPath, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", hostPath, err)
	}
	return os.Remove(hostPath)
}

// seal makes the root file system read-only if the container requires it.
func (c *rootConfig) seal() error {
	if !c.ReadOnly {
		return nil
	}
	paths := []string{"/"}
	for _, directory := range private {
		if c.Image == "" && !slices.ContainsFunc(c.Mounts, func(m Mount) bool { return m.Target == directory.path }) {
			paths = append(paths, directory.path)
		}
	}
	for _, path := range paths {
		if err := mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return err
		}
	}
	return nil
}

// pivot mounts the overlay and moves the root of the host to hostPath. The options of the overlay
// are relative paths, since they cannot quote commas and colons.
func (c *rootConfig) pivot() error {
	if err := mount("tmpfs", c.Stage, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := os.Chdir(c.Stage); err != nil {
		return err
	}
	for _, directory := range []string{"image", "upper", "work", "root"} {
		if err := os.Mkdir(directory, 0o755); err != nil {
			return err
		}
	}
	lower := "/"
	if c.Image != "" {
		lower = "image"
		if err := mount(c.Image, lower, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := mount("overlay", "root", "overlay", 0, "lowerdir="+lower+",upperdir=upper,workdir=work"); err != nil {
		return err
	}
	if err := os.Mkdir("root"+hostPath, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot("root", "root"+hostPath); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	return os.Chdir("/")
}

// hidden returns the paths of the host whose mounts are hidden from a container.
func (c *rootConfig) hidden() []string {
	hidden := []string{"/proc", "/sys", "/dev", c.State}
	for _, directory := range private {
		hidden = append(hidden, directory.path)
	}
	return append(hidden, slices.Sorted(maps.Keys(c.Files))...)
}

func mountKernel() error {
	for _, directory := range []string{"/proc", "/sys", "/dev"} { // images may not have them
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	return mount(hostPath+"/sys", "/sys", "", unix.MS_BIND|unix.MS_REC, "")
}

func mountPrivate() error {
	for _, directory := range private {
		if err := os.MkdirAll(directory.path, 0o755); err != nil {
			return err
		}
		if err := mount("tmpfs", directory.path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode="+directory.mode); err != nil {
			return err
		}
	}
	return nil
}

// mountDevices creates a /dev with the standard devices of containers.
func mountDevices() error {
	if err := mount("tmpfs", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"} {
		if err := bind(Mount{Source: "/dev/" + device, Target: "/dev/" + device}); err != nil {
			return err
		}
	}
	for _, link := range [][2]string{{"/proc/self/fd", "fd"}, {"fd/0", "stdin"}, {"fd/1", "stdout"}, {"fd/2", "stderr"}} {
		if err := os.Symlink(link[0], "/dev/"+link[1]); err != nil {
			return err
		}
	}
	if err := os.Mkdir("/dev/shm", 0o755); err != nil {
		return err
	}
	return mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// mountHost mounts other file systems of the host, which may hold programs, read-only.
func mountHost(points []string) error {
	for _, point := range points {
		err := bind(Mount{Source: point, Target: point, ReadOnly: true})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // hidden by another mount
			return err
		}
	}
	return nil
}

// mountImages mounts the image directory at a fixed path that any user may enter, and at its own
// path, for links between images.
func (c *rootConfig) mountImages() error {
	if c.Images == "" {
		return nil
	}
	for _, target := range []string{ImagesPath, c.Images} {
		if err := bind(Mount{Source: c.Images, Target: target, ReadOnly: true}); err != nil {
			return err
		}
	}
	return nil
}

func (c *rootConfig) writeFiles() error {
	for file, text := range c.Files {
		if err := os.MkdirAll(path.Dir(file), 0o755); err != nil {
			return err
		}
		// The program may be a link to another directory.
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *rootConfig) mountVolumes() error {
	for _, volume := range c.Mounts {
		if err := bind(volume); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts a file or directory of the host and creates the mount point.
func bind(m Mount) error {
	source := hostPath + m.Source
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if err := makePoint(m.Target, info.IsDir()); err != nil {
		return fmt.Errorf("create mount point %s: %w", m.Target, err)
	}
	if err := mount(source, m.Target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if !m.ReadOnly {
		return nil
	}
	return mount("", m.Target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

func makePoint(target string, directory bool) error {
	if directory {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	return os.WriteFile(target, nil, 0o644)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}
