// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageOf returns an image with these files.
func imageOf(t *testing.T, config v1.Config, files ...tar.Header) v1.Image {
	t.Helper()
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, header := range files {
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(header.Name))
		}
		if err := writer.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := writer.Write([]byte(header.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.Config(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// layoutOf returns a directory with an image for this platform and another one.
func layoutOf(t *testing.T, name string, image, other v1.Image) Directory {
	t.Helper()
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "other"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}},
	)
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: name})); err != nil {
		t.Fatal(err)
	}
	return Directory(dir)
}

// R348: an image of a layout is unpacked with the owners and modes of its files, and has
// the configuration of the image.
func TestImageOfALayoutIsUnpacked(t *testing.T) {
	image := imageOf(t, v1.Config{User: "65532:65533", Entrypoint: []string{"/bin/foo"}, Cmd: []string{"--help"}, Env: []string{"A=b"}, WorkingDir: "/work"},
		tar.Header{Typeflag: tar.TypeDir, Name: "work/", Mode: 0o750, Uid: 65532, Gid: 65533},
		tar.Header{Typeflag: tar.TypeReg, Name: "bin/foo", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/bar", Linkname: "foo"},
	)
	directory := layoutOf(t, "registry.example.com/team/foo:v1", image, empty.Image)
	found, err := directory.Find("foo:v2")
	if err != nil || found == nil {
		t.Fatalf("got %v (%v)", found, err)
	}
	if found.UID != 65532 || found.GID != 65533 || !slices.Equal(found.Entrypoint, []string{"/bin/foo"}) ||
		!slices.Equal(found.Args, []string{"--help"}) || !slices.Equal(found.Env, []string{"A=b"}) || found.Dir != "/work" {
		t.Errorf("got %+v", found)
	}
	for _, name := range []string{"bin/foo", "bin/bar"} {
		if text, err := os.ReadFile(filepath.Join(found.Root, name)); err != nil || string(text) != "bin/foo" {
			t.Errorf("%s: got %q (%v)", name, text, err)
		}
	}
	for name, want := range map[string]os.FileMode{"work": 0o750, "bin/foo": 0o755, ".": 0o755} {
		if info, err := os.Stat(filepath.Join(found.Root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v (%v)", name, info.Mode(), err)
		}
	}
	info, err := os.Stat(filepath.Join(found.Root, "work"))
	if owner := info.Sys().(*syscall.Stat_t); err != nil || owner.Uid != 65532 || owner.Gid != 65533 {
		t.Errorf("work belongs to %d:%d (%v)", owner.Uid, owner.Gid, err)
	}
	if other, err := directory.Find("bar"); other != nil || err != nil {
		t.Errorf("got %v (%v)", other, err)
	}
}

func TestImageIsUnpackedOnce(t *testing.T) {
	directory := layoutOf(t, "foo:v1", imageOf(t, v1.Config{}, tar.Header{Typeflag: tar.TypeReg, Name: "foo", Mode: 0o755}), empty.Image)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			if found, err := directory.Find("foo"); err != nil || found == nil {
				t.Errorf("got %v (%v)", found, err)
			}
		})
	}
	group.Wait()
	entries, err := os.ReadDir(filepath.Join(string(directory), unpackedDir))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v (%v)", entries, err)
	}
}

func TestBrokenImagesAreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		image v1.Image
		want  string
	}{
		"name of a user":     {imageOf(t, v1.Config{User: "nobody"}), "not numeric"},
		"unsupported device": {imageOf(t, v1.Config{}, tar.Header{Typeflag: tar.TypeChar, Name: "null"}), "not supported"},
	} {
		directory := layoutOf(t, "foo:v1", test.image, empty.Image)
		if found, err := directory.Find("foo"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v (%v)", name, found, err)
		}
		if entries, err := filepath.Glob(filepath.Join(string(directory), unpackedDir, "*")); err != nil || len(entries) > 0 {
			t.Errorf("%s: %v is left (%v)", name, entries, err)
		}
	}
}
