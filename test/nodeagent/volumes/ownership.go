// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"io/fs"
	"os"
	"path/filepath"
)

// ownership is the group (fsGroup) of the volumes of a Pod, if any.
type ownership struct{ group *int64 }

// Permissions of the group.
const (
	readable = 0o440
	writable = 0o660
)

// mode adds the permissions of the group to a file mode.
func (o ownership) mode(mode fs.FileMode, rights fs.FileMode) fs.FileMode {
	if o.group == nil {
		return mode
	}
	return mode | rights
}

// apply changes the group of all files in a directory.
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
			// New files inside inherit the group.
			mode |= 0o110 | fs.ModeSetgid
		}
		return os.Chmod(path, mode)
	})
}
