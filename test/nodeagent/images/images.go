// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images looks up images in a directory.
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

// Image is what a container runs, and where.
type Image struct {
	// Root is the root file system of the image. It is empty if the image is a program,
	// which runs on the root file system of the host.
	Root string
	// Entrypoint is the program with its first arguments, and Args are arguments that
	// those of a container replace.
	Entrypoint, Args []string
	// Env has variables in the form NAME=value.
	Env []string
	// UID and GID are the user of the program.
	UID, GID uint32
	// Dir is the working directory; empty for the root directory.
	Dir string
}

// Directory is a directory with images: an OCI image layout, and a program for each image
// that the layout does not have. Several agents may use it.
type Directory string

// Find returns an image, or nil if the directory does not have it. An image of the layout
// is unpacked when it is used first.
func (d Directory) Find(image string) (*Image, error) {
	name := Name(image)
	if d == "" || name == "" || name == "." || name == ".." {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(string(d), "index.json")); err == nil {
		if found, err := d.unpacked(name); err != nil || found != nil {
			return found, err
		}
	}
	if info, err := os.Stat(filepath.Join(string(d), name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return &Image{Entrypoint: []string{name}}, nil
	}
	return nil, nil
}
