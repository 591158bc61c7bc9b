// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checksum lists the checksums of files as sha256sum does.
//
// Files are those that users download: directories, and what is published in another way, are
// no part of it, because sha256sum fails if a file is missing.
package checksum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Name is the file with the checksums of all other files of a directory.
const Name = "SHA256SUMS"

// Write writes the checksums of all files in a directory but some, sorted by name. They are
// verified by `sha256sum --check SHA256SUMS`.
func Write(dir string, but ...string) error {
	lines, err := sums(dir, but)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, Name), []byte(lines), 0o644)
}

// Check fails unless the file has the checksums of all files in a directory but some, and of no
// others.
func Check(dir string, but ...string) error {
	want, err := sums(dir, but)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(dir, Name))
	if err == nil && string(got) != want {
		err = fmt.Errorf("%s does not have the checksums of the files: make it last", Name)
	}
	return err
}

// sums returns the checksums of all files in a directory but some.
func sums(dir string, but []string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == Name || slices.Contains(but, entry.Name()) {
			continue
		}
		sum, err := Of(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, entry.Name())
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
