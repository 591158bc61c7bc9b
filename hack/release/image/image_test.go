// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var (
	created   = time.Unix(1700000000, 0)
	labels    = Labels{Version: "v1.2.3", Revision: "0123456789abcdef", Source: "https://example.com/hello", Licenses: "Apache-2.0", Created: created}
	platforms = []string{"linux/amd64", "linux/arm64"}
)

// build makes the images of two programs for two platforms.
func build(t *testing.T, prefix string) []Named {
	t.Helper()
	var built []Named
	for _, title := range []string{"hello", "goodbye"} {
		images := map[string]v1.Image{}
		for _, platform := range platforms {
			file := filepath.Join(t.TempDir(), title)
			if err := os.WriteFile(file, []byte(title+" for "+platform), 0o700); err != nil {
				t.Fatal(err)
			}
			parsed, err := v1.ParsePlatform(platform)
			if err != nil {
				t.Fatal(err)
			}
			images[platform], err = New(Program{Name: title, Platform: *parsed, File: file, SBOM: []byte("{}"), Licenses: map[string][]byte{"LICENSE": []byte("license"), "OTHERS": []byte("others")}}, labels)
			if err != nil {
				t.Fatal(err)
			}
		}
		index, err := Index(title, images, labels)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := Tag(prefix, title, labels.Version)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, Named{tag, index, images})
	}
	return built
}

// files returns the contents of all files in a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		contents[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// write writes a layout and archives.
func write(t *testing.T, images []Named) string {
	t.Helper()
	dir := t.TempDir()
	if err := WriteLayout(filepath.Join(dir, "layout"), images); err != nil {
		t.Fatal(err)
	}
	for _, platform := range platforms {
		if err := WriteArchive(filepath.Join(dir, strings.ReplaceAll(platform, "/", "-")+".tar"), platform, images, created); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// R340: two builds of the same programs give the same files.
func TestImagesAreReproducible(t *testing.T) {
	first := files(t, write(t, build(t, "")))
	second := files(t, write(t, build(t, "")))
	if !maps.Equal(first, second) || len(first) < 10 {
		t.Errorf("files differ: %q and %q", slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)))
	}
}

// R341: programs do not run as root, are found by their name, and labels say what they are.
func TestImageRunsItsProgramAsAnotherUserThanRoot(t *testing.T) {
	for _, image := range build(t, "")[:1] {
		for _, platform := range platforms {
			of := image.Images[platform]
			config, err := of.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != "65532:65532" || config.Platform().String() != platform || !config.Created.Equal(created) {
				t.Errorf("%s: user %q, platform %s, created %s", platform, config.Config.User, config.Platform(), config.Created)
			}
			if !slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/hello"}) || !slices.Equal(config.Config.Env, []string{"PATH=/usr/local/bin"}) {
				t.Errorf("entry point %q, environment %q", config.Config.Entrypoint, config.Config.Env)
			}
			for label, want := range map[string]string{"title": "hello", "version": "v1.2.3", "revision": "0123456789abcdef", "source": "https://example.com/hello", "licenses": "Apache-2.0"} {
				if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
					t.Errorf("label %s is %q, want %q", label, got, want)
				}
			}
		}
	}
}

// R341, R342: an image has the program, its SBOM and licenses, and certificate authorities,
// which nobody but root can change, and nothing else.
func TestImageHasNothingButItsProgram(t *testing.T) {
	content := mutate.Extract(build(t, "")[0].Images["linux/arm64"])
	defer content.Close()
	found := map[string]string{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 || !header.ModTime.Equal(created) {
			t.Errorf("%s belongs to %d:%d, has mode %o, and is of %s", header.Name, header.Uid, header.Gid, header.Mode, header.ModTime)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Mode&0o111 != 0 != (header.Name == "usr/local/bin/hello") {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(data)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM([]byte(found["etc/ssl/certs/ca-certificates.crt"])) || strings.Count(found["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE") < 50 {
		t.Error("certificate authorities are missing")
	}
	delete(found, "etc/ssl/certs/ca-certificates.crt")
	want := map[string]string{
		"usr/local/bin/hello": "hello for linux/arm64", "usr/local/share/sbom/hello.spdx.json": "{}", "licenses/LICENSE": "license", "licenses/OTHERS": "others",
	}
	if !maps.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

// R343: a layout has all images for all platforms, with their names.
func TestLayoutIsReadBack(t *testing.T) {
	images := build(t, "registry.example.com/team/")
	index, err := layout.ImageIndexFromPath(filepath.Join(write(t, images), "layout"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range manifest.Manifests {
		names = append(names, entry.Annotations["io.containerd.image.name"])
		of, err := index.ImageIndex(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		list, err := of.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, platform := range list.Manifests {
			found = append(found, platform.Platform.String())
		}
		if !slices.Equal(found, platforms) {
			t.Errorf("%s has platforms %q", names, found)
		}
	}
	if want := []string{"registry.example.com/team/hello:v1.2.3", "registry.example.com/team/goodbye:v1.2.3"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// R340, R343: an archive is read by programs that know manifest.json, as Docker, and by those that
// know the layout of the OCI, as containerd.
func TestArchiveIsReadBackInBothFormats(t *testing.T) {
	images := build(t, "")
	dir := write(t, images)
	for _, platform := range platforms {
		file := filepath.Join(dir, strings.ReplaceAll(platform, "/", "-")+".tar")
		layoutDir := unpack(t, file)
		index, err := layout.ImageIndexFromPath(layoutDir)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != len(images) {
			t.Fatalf("index.json: %v (%v)", manifest, err)
		}
		for i, image := range images {
			want, err := image.Images[platform].Digest()
			if err != nil {
				t.Fatal(err)
			}
			entry := manifest.Manifests[i]
			if entry.Digest != want || entry.Platform.String() != platform || entry.Annotations["io.containerd.image.name"] != "docker.io/library/"+image.Tag.String() {
				t.Errorf("%s for %s: entry of index.json is %+v", image.Tag, platform, entry)
			}
			loaded, err := tarball.ImageFromPath(file, &image.Tag)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Image(loaded); err != nil {
				t.Error(err)
			}
			got, _ := loaded.ConfigName()
			if want, _ := image.Images[platform].ConfigName(); got != want {
				t.Errorf("%s for %s: loaded %s, want %s", image.Tag, platform, got, want)
			}
		}
	}
}

// unpack unpacks the archive to a directory.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for reader := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return dir
		} else if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(created) {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else if data, err = io.ReadAll(reader); err == nil {
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveNeedsAllImages(t *testing.T) {
	err := WriteArchive(filepath.Join(t.TempDir(), "archive.tar"), "linux/s390x", build(t, ""), created)
	if err == nil || !strings.Contains(err.Error(), "was not built for linux/s390x") {
		t.Errorf("got %v", err)
	}
}

// R344: images are pushed with all their platforms.
func TestImagesArePushedToARegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	for _, image := range build(t, strings.TrimPrefix(server.URL, "http://")+"/team") {
		if err := CheckPush(image.Tag); err != nil {
			t.Fatal(err)
		}
		if err := Push(t.Context(), image); err != nil {
			t.Fatal(err)
		}
		pushed, err := remote.Index(image.Tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(pushed); err != nil {
			t.Error(err)
		}
		got, _ := pushed.Digest()
		if want, _ := image.Index.Digest(); got != want {
			t.Errorf("pushed %s, want %s", got, want)
		}
	}
}

// Nothing is built for a registry that refuses it.
func TestRegistryIsCheckedBefore(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, "denied", http.StatusForbidden)
		}
	}))
	defer server.Close()
	tag, err := Tag(strings.TrimPrefix(server.URL, "http://")+"/team", "hello", "v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckPush(tag); err == nil || !strings.Contains(err.Error(), "cannot be pushed to "+tag.Repository.String()) || !strings.Contains(err.Error(), "log in") {
		t.Errorf("got %v", err)
	}
}

func TestTagIsRefusedIfItIsNotAName(t *testing.T) {
	for _, prefix := range []string{"Registry.example.com/UPPER", "https://registry.example.com"} {
		if tag, err := Tag(prefix, "hello", "v1"); err == nil {
			t.Errorf("prefix %q: got %s", prefix, tag)
		}
	}
	var bad *name.ErrBadName
	if _, err := Tag("", "hello", "v1+build"); !errors.As(err, &bad) {
		t.Errorf("got %v", err)
	}
}
