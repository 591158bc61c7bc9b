// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is a file of an image, which belongs to root, and which anybody can read.
type file struct {
	path       string
	data       []byte
	executable bool
}

// layer returns a layer with these files and their directories. The order of files and the
// time of the build do not matter.
func layer(modified time.Time, files []file) (v1.Layer, error) {
	var archive bytes.Buffer
	compressor := gzip.NewWriter(&archive)
	writer := tar.NewWriter(compressor)
	byPath, directories := map[string]file{}, map[string]bool{}
	for _, f := range files {
		byPath[f.path] = f
		for dir := path.Dir(f.path); dir != "/"; dir = path.Dir(dir) {
			directories[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(directories)) {
		header := header(dir+"/", 0o755, modified)
		header.Typeflag = tar.TypeDir
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byPath)) {
		header := header(name, 0o644, modified)
		if byPath[name].executable {
			header.Mode = 0o755
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(byPath[name].data))
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(byPath[name].data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(writer.Close(), compressor.Close()); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

func header(name string, mode int64, modified time.Time) *tar.Header {
	return &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: mode, ModTime: modified.UTC().Truncate(time.Second), Format: tar.FormatUSTAR}
}

// certificatesPath is where Go looks for the certificate authorities of the system.
const certificatesPath = "/etc/ssl/certs/ca-certificates.crt"

// certificates returns the certificate authorities that Mozilla trusts. A member whose
// kubeconfig has no certificate authority is verified with those of the system, as
// clients of Kubernetes do. Authorities that are trusted conditionally are left out: the
// file cannot express conditions.
func certificates() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer
		}
	}
	return text.Bytes()
}
