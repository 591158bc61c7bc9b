// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// WriteArchive writes the images of one platform to a file. It is an OCI image layout, which
// `ctr images import` takes, with the file manifest.json, which `docker load` takes. An
// archive has one platform only, because manifest.json cannot tell platforms apart.
func WriteArchive(file, platform string, images []Named, modified time.Time) (err error) {
	dir, err := os.MkdirTemp("", "archive")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	parsed, err := v1.ParsePlatform(platform)
	if err != nil {
		return err
	}
	var manifest tarball.Manifest
	for _, image := range images {
		of, ok := image.Images[platform]
		if !ok {
			return fmt.Errorf("image %s was not built for %s", image.Tag, platform)
		}
		if err := path.AppendImage(of, layout.WithAnnotations(annotations(image.Tag)), layout.WithPlatform(*parsed)); err != nil {
			return err
		}
		entry, err := describe(of)
		if err != nil {
			return err
		}
		entry.RepoTags = []string{image.Tag.String()}
		manifest = append(manifest, entry)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := path.WriteFile("manifest.json", text, 0o644); err != nil {
		return err
	}
	return pack(file, os.DirFS(dir), modified)
}

// describe returns the entry of an image in manifest.json.
func describe(image v1.Image) (tarball.Descriptor, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return tarball.Descriptor{}, err
	}
	entry := tarball.Descriptor{Config: blob(manifest.Config.Digest)}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	return entry, nil
}

func blob(digest v1.Hash) string {
	return filepath.ToSlash(filepath.Join("blobs", digest.Algorithm, digest.Hex))
}

// pack writes all files of a directory to an archive.
func pack(file string, root fs.FS, modified time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	writer := tar.NewWriter(out)
	// The order is that of the names.
	if err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			h := header(name+"/", 0o755, modified)
			h.Typeflag = tar.TypeDir
			return writer.WriteHeader(h)
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		h := header(name, 0o644, modified)
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
		if err := writer.WriteHeader(h); err != nil {
			return err
		}
		_, err = writer.Write(data)
		return err
	}); err != nil {
		return err
	}
	return writer.Close()
}
