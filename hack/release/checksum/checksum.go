// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checksum lists the checksums of files as sha256sum does.
package checksum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Name is the file with the checksums of all other files of a directory.
const Name = "SHA256SUMS"

// Write writes the checksums of all files in a directory, sorted by name. They are
// verified by `sha256sum --check SHA256SUMS`.
func Write(dir string) error {
	lines, err := sums(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, Name), []byte(lines), 0o644)
}

// Check fails unless the file has the checksums of all files in a directory, and of no others.
func Check(dir string) error {
	want, err := sums(dir)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(dir, Name))
	if err == nil && string(got) != want {
		err = fmt.Errorf("%s does not have the checksums of the files: make it last", Name)
	}
	return err
}

// sums returns the checksums of all files in a directory.
func sums(dir string) (string, error) {
	var lines strings.Builder
	root := os.DirFS(dir)
	if err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == Name {
			return err
		}
		sum, err := Of(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, name)
		return nil
	}); err != nil {
		return "", err
	}
	return lines.String(), nil
}

// Of returns the checksum of a file in hexadecimal digits.
func Of(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
