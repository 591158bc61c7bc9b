// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Read returns the files of an archive by name.
func Read(name string) (map[string][]byte, error) {
	if strings.HasSuffix(name, ".zip") {
		return readZip(name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return ReadTar(content)
}

// ReadTar returns the regular files of a tar archive by name.
func ReadTar(content io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func readZip(name string) (map[string][]byte, error) {
	archive, err := zip.OpenReader(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }() // it was only read
	files := map[string][]byte{}
	for _, entry := range archive.File {
		content, err := entry.Open()
		if err != nil {
			return nil, err
		}
		files[entry.Name], err = io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name, err)
		}
	}
	return files, nil
}
