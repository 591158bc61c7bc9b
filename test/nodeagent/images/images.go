// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images maps image names to programs in a directory.
package images

import (
	"os"
	"path/filepath"
	"strings"
)

// Name returns the last part of an image name without tag and digest: "foo" for
// registry:5000/team/foo:v1@sha256:abc.
func Name(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// Directory is a directory with one program per known image.
type Directory string

// Program returns the name of an image's program, and whether the program exists.
func (d Directory) Program(image string) (string, bool) {
	name := Name(image)
	if d == "" || name == "" || name == "." || name == ".." {
		return "", false
	}
	info, err := os.Stat(filepath.Join(string(d), name))
	return name, err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
