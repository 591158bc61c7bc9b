// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var (
	created = time.Unix(1700000000, 0)
	packed  = []File{{"kubectl-mcs", []byte("program"), true}, {"LICENSE", []byte("license"), false}}
)

func archive(t *testing.T, name string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := Archive(file, packed, created); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// R340, R347.
func TestArchivesAreReproducible(t *testing.T) {
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		if first, second := archive(t, name), archive(t, name); !bytes.Equal(first, second) {
			t.Errorf("two archives %s differ", name)
		}
	}
}

// R347.
func TestArchivesHaveAllFilesWithTheirModes(t *testing.T) {
	const want = "kubectl-mcs 755 program\nLICENSE 644 license\n"
	compressed, err := gzip.NewReader(bytes.NewReader(archive(t, "a.tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s %o %s\n", header.Name, header.Mode, data)
	}
	if got != want {
		t.Errorf("tar: got %q, want %q", got, want)
	}
	data := archive(t, "a.zip")
	reader, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	got = ""
	for _, file := range reader.File {
		content, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s %o %s\n", file.Name, file.Mode().Perm(), data)
	}
	if got != want {
		t.Errorf("zip: got %q, want %q", got, want)
	}
}
