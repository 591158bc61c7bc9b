// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

const (
	// refName is the annotation with the name of an image in a layout.
	refName = "org.opencontainers.image.ref.name"
	// unpackedDir has the root file systems of images, by digest.
	unpackedDir = "unpacked"
)

// unpacked returns an image of the layout, and unpacks it if no agent has done so yet. It
// returns nil if the layout does not have the image.
func (d Directory) unpacked(name string) (*Image, error) {
	image, err := d.image(name)
	if err != nil || image == nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config := file.Config
	found := &Image{
		Root: filepath.Join(string(d), unpackedDir, digest.Hex), Entrypoint: config.Entrypoint, Args: config.Cmd, Env: config.Env, Dir: config.WorkingDir,
	}
	if found.UID, found.GID, err = user(config.User); err != nil {
		return nil, fmt.Errorf("image %s: %w", name, err)
	}
	if _, err := os.Stat(found.Root); err == nil {
		return found, nil
	}
	if err := unpackTo(found.Root, image); err != nil {
		return nil, fmt.Errorf("unpack image %s: %w", name, err)
	}
	return found, nil
}

// image returns an image of the layout for this machine, or nil.
func (d Directory) image(name string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(string(d))
	if err != nil {
		return nil, err
	}
	named, err := partial.FindManifests(index, func(entry v1.Descriptor) bool { return Name(entry.Annotations[refName]) == name })
	if err != nil || len(named) == 0 {
		return nil, err
	}
	entry := named[len(named)-1]
	if entry.MediaType.IsImage() {
		return index.Image(entry.Digest)
	}
	platforms, err := index.ImageIndex(entry.Digest)
	if err != nil {
		return nil, err
	}
	machine := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	images, err := partial.FindImages(platforms, func(entry v1.Descriptor) bool { return entry.Platform != nil && entry.Platform.Satisfies(machine) })
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("image %s is not for %s", name, machine)
	}
	return images[0], nil
}

// user returns the numeric user and group of an image. Names would have to be looked up in
// its file system.
func user(text string) (uid, gid uint32, err error) {
	if text == "" {
		return 0, 0, nil
	}
	ids := [2]uint32{}
	for i, part := range strings.SplitN(text, ":", 2) {
		id, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return 0, 0, fmt.Errorf("user %q is not numeric", text)
		}
		ids[i] = uint32(id)
	}
	return ids[0], ids[1], nil
}

// unpackTo creates a directory with the root file system of an image. If several agents do
// so, one of them succeeds, and the others use its directory.
func unpackTo(dir string, image v1.Image) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	incomplete, err := os.MkdirTemp(filepath.Dir(dir), "incomplete-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(incomplete)) }()
	if err := os.Chmod(incomplete, 0o755); err != nil {
		return err
	}
	if err := extract(incomplete, image); err != nil {
		return err
	}
	if err := os.Rename(incomplete, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
