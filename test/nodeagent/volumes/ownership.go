// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"io/fs"
	"os"
	"path/filepath"
)

// ownership is the group that a Pod wants its volumes to belong to, if any.
type ownership struct{ group *int64 }

// What the group may do with a volume.
const (
	readable = 0o440
	writable = 0o660
)

// mode adds the rights of the group to those of a file.
func (o ownership) mode(mode fs.FileMode, rights fs.FileMode) fs.FileMode {
	if o.group == nil {
		return mode
	}
	return mode | rights
}

// apply gives everything in a directory to the group.
func (o ownership) apply(dir string, rights fs.FileMode) error {
	if o.group == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, int(*o.group)); err != nil {
			return err
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | rights
		if entry.IsDir() {
			// What is made inside belongs to the group too.
			mode |= 0o110 | fs.ModeSetgid
		}
		return os.Chmod(path, mode)
	})
}
