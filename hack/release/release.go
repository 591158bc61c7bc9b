// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/chart"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/checksum"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/image"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/manifest"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/notes"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/plugin"
)

// clients are the platforms of kubectl-mcs.
var clients = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64", "windows/arm64"}

// manifests renders the kustomizations of artifacts with the images of the release.
func (r *release) manifests(context.Context) error {
	var images []manifest.Image
	for _, name := range servers {
		tag, err := image.Tag(r.prefix, name, r.version)
		if err != nil {
			return err
		}
		repository := name
		if r.prefix != "" {
			repository = tag.Repository.Name()
		}
		images = append(images, manifest.Image{Name: name, NewName: repository, NewTag: r.version})
	}
	return manifest.WriteAll(filepath.Join(r.root, "artifacts"), filepath.Join(r.dist, r.manifestPrefix()), images)
}

// manifestPrefix is how the names of manifests start.
func (r *release) manifestPrefix() string { return "mcs-apiserver-" + r.version + "-" }

// chart packs the Helm chart with the images of the release.
func (r *release) chart(context.Context) error {
	return chart.Pack(filepath.Join(r.root, "artifacts", "chart"), filepath.Join(r.dist, chart.File(r.version)), r.version, r.prefix, r.time)
}

// krewManifest is the file with the manifest for Krew.
const krewManifest = "krew-mcs.yaml"

// plugins builds kubectl-mcs for all platforms, and the manifest for Krew.
func (r *release) plugins(ctx context.Context) error {
	var downloads []plugin.Download
	for _, platform := range clients {
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			return err
		}
		if err := r.build(ctx, "kubectl-mcs", *parsed, func(file string) error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			download, err := r.pack(*parsed, data)
			downloads = append(downloads, download)
			return err
		}); err != nil {
			return err
		}
	}
	text, err := plugin.Krew(r.version, source, downloads)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist, krewManifest), text, 0o644)
}

// pack packs kubectl-mcs for one platform, with what belongs to it.
func (r *release) pack(platform v1.Platform, data []byte) (plugin.Download, error) {
	name := pluginProgram(platform.String())
	files := []plugin.File{{Name: name, Data: data, Executable: true}}
	licenses, err := r.licenses()
	if err != nil {
		return plugin.Download{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(licenses)) {
		files = append(files, plugin.File{Name: name, Data: licenses[name]})
	}
	if platform.OS != "windows" { // which runs no shell scripts
		script, err := os.ReadFile(filepath.Join(r.root, "cmd", "kubectl-mcs", "kubectl_complete-mcs"))
		if err != nil {
			return plugin.Download{}, err
		}
		files = append(files, plugin.File{Name: "kubectl_complete-mcs", Data: script, Executable: true})
	}
	archive := r.archive(platform.String())
	if err := plugin.Archive(filepath.Join(r.dist, archive), files, r.time); err != nil {
		return plugin.Download{}, err
	}
	sum, err := checksum.Of(filepath.Join(r.dist, archive))
	return plugin.NewDownload(platform, fmt.Sprintf("%s/releases/download/%s/%s", source, r.version, archive), sum, name), err
}

// archive is the file with kubectl-mcs for a platform.
func (r *release) archive(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return r.title("kubectl-mcs", platform) + ".zip"
	}
	return r.title("kubectl-mcs", platform) + ".tar.gz"
}

// pluginProgram is the name of the program in an archive.
func pluginProgram(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return "kubectl-mcs.exe"
	}
	return "kubectl-mcs"
}

// notes writes the release notes.
func (r *release) notes(context.Context) error {
	built, err := layout.ImageIndexFromPath(filepath.Join(r.dist, "images"))
	if err != nil {
		return fmt.Errorf("make the part images first: %w", err)
	}
	index, err := built.IndexManifest()
	if err != nil {
		return err
	}
	var images []string
	for _, entry := range index.Manifests {
		images = append(images, entry.Annotations[image.RefName]+"@"+entry.Digest.String())
	}
	changes, err := notes.FromGit(r.root, r.revision)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist, releaseNotes), []byte(notes.Markdown(r.version, images, changes)), 0o644)
}

// releaseNotes is the file with the text of a release, which is not one of its files.
const releaseNotes = "RELEASE_NOTES.md"

// checksums writes the checksums of all files that are published.
func (r *release) checksums(context.Context) error { return checksum.Write(r.dist, releaseNotes) }
