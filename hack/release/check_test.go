// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/image"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/plugin"
)

// programFor returns the headers of a program.
func programFor(t *testing.T, platform string) []byte {
	t.Helper()
	arm := strings.HasSuffix(platform, "/arm64")
	var file bytes.Buffer
	write := func(parts ...any) {
		for _, part := range parts {
			if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	switch system, _, _ := strings.Cut(platform, "/"); system {
	case "linux":
		header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64}
		copy(header.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
		if arm {
			header.Machine = uint16(elf.EM_AARCH64)
		}
		write(header)
	case "darwin":
		header := macho.FileHeader{Magic: macho.Magic64, Cpu: macho.CpuAmd64, Type: macho.TypeExec}
		if arm {
			header.Cpu = macho.CpuArm64
		}
		write(header, uint32(0))
	case "windows":
		dos := make([]byte, 96)
		copy(dos, "MZ")
		dos[0x3c] = 96
		header := pe.FileHeader{Machine: pe.IMAGE_FILE_MACHINE_AMD64}
		if arm {
			header.Machine = pe.IMAGE_FILE_MACHINE_ARM64
		}
		write(dos, []byte("PE\x00\x00"), header)
	}
	return file.Bytes()
}

// completeRelease makes a release with programs that consist of headers.
func completeRelease(t *testing.T) *release {
	t.Helper()
	r := newRelease(t)
	fill(t, r)
	return r
}

// fill makes all files of a release.
func fill(t *testing.T, r *release) {
	t.Helper()
	r.platforms = []string{"linux/amd64", "linux/arm64"}
	for _, platform := range clients {
		packPlugin(t, r, platform, platform)
	}
	writeImages(t, r, "linux/arm64")
	for _, part := range []string{"manifests", "chart"} {
		if err := parts[part](r, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append([]string{"RELEASE_NOTES.md", krewManifest}, sboms(r)...) {
		if err := os.WriteFile(filepath.Join(r.dist, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sboms(r *release) (names []string) {
	for _, name := range servers {
		for _, platform := range r.platforms {
			names = append(names, r.title(name, platform)+".spdx.json")
		}
	}
	return names
}

// packPlugin writes the archive for a platform with a program for another one.
func packPlugin(t *testing.T, r *release, platform, content string) {
	t.Helper()
	parsed, err := v1.ParsePlatform(platform)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.pack(*parsed, programFor(t, content)); err != nil {
		t.Fatal(err)
	}
}

// writeImages writes the images, with a program for a platform in those for linux/arm64.
func writeImages(t *testing.T, r *release, arm string) {
	t.Helper()
	var built []image.Named
	for _, name := range servers {
		tag, err := image.Tag(r.prefix, name, r.version)
		if err != nil {
			t.Fatal(err)
		}
		named := image.Named{Tag: tag, Images: map[string]v1.Image{}}
		for platform, content := range map[string]string{"linux/amd64": "linux/amd64", "linux/arm64": arm} {
			parsed, err := v1.ParsePlatform(platform)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, programFor(t, content), 0o755); err != nil {
				t.Fatal(err)
			}
			if named.Images[platform], err = image.New(image.Program{Name: name, Platform: *parsed, File: file, SBOM: []byte("{}")}, image.Labels{Version: r.version}); err != nil {
				t.Fatal(err)
			}
		}
		if named.Index, err = image.Index(name, named.Images, image.Labels{Version: r.version}); err != nil {
			t.Fatal(err)
		}
		built = append(built, named)
	}
	if err := r.write(built); err != nil {
		t.Fatal(err)
	}
}

// R349: a release is checked when it is made: all files and no others, with their checksums,
// and programs for the platforms that the names say.
func TestReleaseIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(t *testing.T, r *release)
		want   string
	}{
		"complete": {func(*testing.T, *release) {}, ""},
		"file of another release": {func(t *testing.T, r *release) {
			if err := os.WriteFile(filepath.Join(r.dist, "kubectl-mcs-v1.2.2-linux-amd64.tar.gz"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "kubectl-mcs-v1.2.2-linux-amd64.tar.gz is not part of a release"},
		"missing part": {func(t *testing.T, r *release) {
			if err := os.Remove(filepath.Join(r.dist, "mcs-apiserver-1.2.3.tgz")); err != nil {
				t.Fatal(err)
			}
		}, "mcs-apiserver-1.2.3.tgz is missing"},
		"other architecture": {func(t *testing.T, r *release) { packPlugin(t, r, "darwin/arm64", "darwin/amd64") },
			"kubectl-mcs-v1.2.3-darwin-arm64.tar.gz: program is for darwin/amd64"},
		"other system": {func(t *testing.T, r *release) { packPlugin(t, r, "windows/amd64", "linux/amd64") },
			"kubectl-mcs-v1.2.3-windows-amd64.zip: program is for linux/amd64"},
		"image for another architecture": {func(t *testing.T, r *release) { writeImages(t, r, "linux/amd64") },
			"image mcs-controller:v1.2.3 for linux/arm64: program is for linux/amd64"},
		"no license": {func(t *testing.T, r *release) {
			files := []plugin.File{{Name: "kubectl-mcs", Data: programFor(t, "linux/amd64")}, {Name: "LICENSE", Data: []byte("text")}}
			if err := plugin.Archive(filepath.Join(r.dist, "kubectl-mcs-v1.2.3-linux-amd64.tar.gz"), files, r.time); err != nil {
				t.Fatal(err)
			}
		}, "kubectl-mcs-v1.2.3-linux-amd64.tar.gz has no THIRD_PARTY_LICENSES"},
	} {
		t.Run(name, func(t *testing.T) {
			r := completeRelease(t)
			test.damage(t, r)
			if err := r.checksums(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.check(t.Context()); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// R349.
func TestChangedFileOfAReleaseIsNoticed(t *testing.T) {
	r := completeRelease(t)
	if err := r.checksums(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dist, krewManifest), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.check(t.Context()); err == nil || !strings.Contains(err.Error(), "SHA256SUMS does not have the checksums") {
		t.Errorf("got %v", err)
	}
}
