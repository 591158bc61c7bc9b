// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// images returns the directory in which the node agents look up images.
func (s *Set) images() string { return filepath.Join(s.Dir, "images") }

// linkImages maps image names to programs that were built here or are installed
// on this machine. It uses no symbolic links, since containers see this
// directory but not every target of a link.
func (s *Set) linkImages() error {
	if err := os.MkdirAll(s.images(), 0o755); err != nil {
		return err
	}
	programs := map[string]string{
		"mcs-apiserver":  filepath.Join(s.Root, "bin", "mcs-apiserver"),
		"mcs-controller": filepath.Join(s.Root, "bin", "mcs-controller"),
		"coredns":        filepath.Join(s.Root, "bin", "kubernetes", "coredns"),
		"traffic":        filepath.Join(s.Root, "bin", "test", "traffic"),
	}
	// The entry point of an image of upstream's conformance tests.
	if socat, err := exec.LookPath("socat"); err == nil {
		programs["socat"] = socat
	}
	for image, program := range programs {
		if err := linkOrCopy(program, filepath.Join(s.images(), image)); err != nil {
			return err
		}
	}
	return nil
}

// linkOrCopy hard-links a file, or copies it if it is on another file system.
func linkOrCopy(from, to string) error {
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
