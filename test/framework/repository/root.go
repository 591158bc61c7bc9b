// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repository finds the root of this repository, where tests find the
// programs in bin/ and the manifests in artifacts/.
package repository

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const module = "module github.com/mcs-apiserver/mcs-apiserver\n"

// Root returns the root of the repository above the working directory, which
// for a test is the directory of its package. The test modules below the root
// have a go.mod of their own and are passed over.
func Root() (string, error) {
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := working; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if strings.HasPrefix(string(data), module) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the mcs-apiserver repository: " + working)
		}
	}
}
