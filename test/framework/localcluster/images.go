// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// images returns the directory in which the node agents look up images.
func (s *Set) images() string { return filepath.Join(s.Dir, "images") }

// linkImages provides the images of mcs-apiserver, and maps other image names to programs that were built here or are installed on this machine.
// It uses no symbolic links, since containers see this directory but not every target of
// a link.
func (s *Set) linkImages() error {
	layout := cmp.Or(s.Images, filepath.Join(s.Root, "bin", "release", "images"))
	if err := linkLayout(layout, s.images()); err != nil {
		return fmt.Errorf("images of mcs-apiserver, which `make test-images` and `make images` build: %w", err)
	}
	programs := map[string]string{
		"coredns": filepath.Join(s.Root, "bin", "kubernetes", "coredns"),
		"traffic": filepath.Join(s.Root, "bin", "test", "traffic"),
		"etcd":    filepath.Join(s.Root, "bin", "kubernetes", "etcd"),
		"etcdctl": filepath.Join(s.Root, "bin", "test", "etcdctl"), // in the image of etcd
	}
	// The entry point of an image of upstream's conformance tests.
	if socat, err := exec.LookPath("socat"); err == nil {
		programs["socat"] = socat
	}
	for image, program := range programs {
		if err := LinkOrCopy(program, filepath.Join(s.images(), image)); err != nil {
			return err
		}
	}
	return nil
}

// linkLayout provides an OCI image layout in another directory, in which it replaces an
// earlier one.
func linkLayout(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return LinkOrCopy(path, target)
	})
}

// LinkOrCopy hard-links a file, or copies it if it is on another file system.
func LinkOrCopy(from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}
