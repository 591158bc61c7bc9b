// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images maps the names of images to programs of a directory.
package images

import (
	"os"
	"path/filepath"
	"strings"
)

// Name is the last part of the name of an image, without tag and digest:
// "foo" for registry:5000/team/foo:v1@sha256:abc.
func Name(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// Directory holds one program for each known image.
type Directory string

// Program is the name of the program that an image stands for, if it is known.
func (d Directory) Program(image string) (string, bool) {
	name := Name(image)
	if d == "" || name == "" || name == "." || name == ".." {
		return "", false
	}
	info, err := os.Stat(filepath.Join(string(d), name))
	return name, err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
