// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin packs the kubectl plugin for downloads, and describes it for Krew.
package plugin

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string
	Data []byte
	// Executable is set for programs and scripts.
	Executable bool
}

func (f File) mode() os.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// Archive writes files to an archive, whose format is that of its name: .tar.gz or .zip. It
// depends on nothing but the files and their time.
func Archive(name string, files []File, modified time.Time) (err error) {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if strings.HasSuffix(name, ".zip") {
		return writeZip(out, files, modified.UTC())
	}
	return writeTar(out, files, modified.UTC())
}

func writeTar(out io.Writer, files []File, modified time.Time) error {
	compressor := gzip.NewWriter(out)
	writer := tar.NewWriter(compressor)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Name, Mode: int64(file.mode()), Size: int64(len(file.Data)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(file.Data); err != nil {
			return err
		}
	}
	return errors.Join(writer.Close(), compressor.Close())
}

func writeZip(out io.Writer, files []File, modified time.Time) error {
	writer := zip.NewWriter(out)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: modified}
		header.SetMode(file.mode())
		content, err := writer.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := content.Write(file.Data); err != nil {
			return err
		}
	}
	return writer.Close()
}
