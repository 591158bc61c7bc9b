// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// extract writes the files of an image to a directory. Nothing is written outside of it.
func extract(dir string, image v1.Image) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written to it
	content := mutate.Extract(image)
	defer content.Close()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := write(root, header, reader); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func write(root *os.Root, header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	case tar.TypeReg:
		if err := writeFile(root, name, content); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	default:
		return fmt.Errorf("files of type %q are not supported", header.Typeflag)
	}
	// The owner first: changing it clears the set-user-ID bit.
	if err := root.Lchown(name, header.Uid, header.Gid); err != nil {
		return err
	}
	return root.Chmod(name, header.FileInfo().Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

func writeFile(root *os.Root, name string, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
