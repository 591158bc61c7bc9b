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

// Mount shows a file or directory of the host in a container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// rootConfig describes the file system of a container.
type rootConfig struct {
	// Stage is an empty directory of the host. In the container's mount
	// namespace it takes a tmpfs with everything that the container writes.
	Stage string
	// State is the state of the agent. What it mounts there is not for containers.
	State string
	// Images is the directory with the programs of images, or empty.
	Images string
	// Files are text files, by path.
	Files map[string]string
	// Mounts are in the order in which to mount them.
	Mounts []Mount
	// ReadOnly forbids to write to anything but the mounts and /dev/shm.
	ReadOnly bool
}

// hostPath is where a container sees the host while it is being set up.
const hostPath = "/.host"

// private are directories that are empty in each container.
var private = []struct{ path, mode string }{{"/tmp", "1777"}, {"/run", "755"}}

// enter makes the file system and makes it the root of this process. It is the
// host's root file system below an overlay: everything that is installed is
// there, any mount point can be made, and all that is written goes to a tmpfs
// that ends with the container. The mount namespace must be new.
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
	for _, step := range []func() error{
		mountKernel,
		mountPrivate,
		mountDevices,
		func() error { return mountHost(hostMounts(string(mountinfo), c.hidden())) },
		c.mountImages,
		c.writeFiles,
		c.mountVolumes,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := unix.Unmount(hostPath, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", hostPath, err)
	}
	return os.Remove(hostPath)
}

// seal forbids writing, if the container wants it so.
func (c *rootConfig) seal() error {
	if !c.ReadOnly {
		return nil
	}
	paths := []string{"/"}
	for _, directory := range private {
		if !slices.ContainsFunc(c.Mounts, func(m Mount) bool { return m.Target == directory.path }) {
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

// pivot makes the overlay and moves the host's root to hostPath. The options
// of the overlay are relative paths, since they cannot quote commas and colons.
func (c *rootConfig) pivot() error {
	if err := mount("tmpfs", c.Stage, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if err := os.Chdir(c.Stage); err != nil {
		return err
	}
	for _, directory := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(directory, 0o755); err != nil {
			return err
		}
	}
	if err := mount("overlay", "root", "overlay", 0, "lowerdir=/,upperdir=upper,workdir=work"); err != nil {
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

// hidden are the places of the host whose mounts a container does not get.
func (c *rootConfig) hidden() []string {
	hidden := []string{"/proc", "/sys", "/dev", c.State}
	for _, directory := range private {
		hidden = append(hidden, directory.path)
	}
	return append(hidden, slices.Sorted(maps.Keys(c.Files))...)
}

func mountKernel() error {
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

// mountDevices makes a /dev with what every container has.
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

// mountHost shows other file systems of the host, which may hold programs,
// read-only.
func mountHost(points []string) error {
	for _, point := range points {
		err := bind(Mount{Source: point, Target: point, ReadOnly: true})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // below another mount
			return err
		}
	}
	return nil
}

// mountImages shows the programs of images at a fixed path, which any user may
// enter, and at their own, for links between them.
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
		// It may be a link to somewhere else.
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

// bind mounts a file or directory of the host, and makes the mount point.
func bind(m Mount) error {
	source := hostPath + m.Source
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	if err := makePoint(m.Target, info.IsDir()); err != nil {
		return fmt.Errorf("make the mount point %s: %w", m.Target, err)
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
