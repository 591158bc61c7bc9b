// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/chart"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/checksum"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/manifest"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/plugin"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/program"
)

// check fails unless the directory of the results has exactly what a complete release
// consists of, with programs for the platforms that the names say.
func (r *release) check(context.Context) error {
	want, err := r.files()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return err
	}
	var problems []error
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
		if !slices.Contains(want, entry.Name()) {
			problems = append(problems, fmt.Errorf("%s is not part of a release: remove it", entry.Name()))
		}
	}
	for _, name := range want {
		if !slices.Contains(found, name) {
			problems = append(problems, fmt.Errorf("%s is missing: make all parts of the release", name))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	problems = append(problems, checksum.Check(r.dist, releaseNotes), r.checkImages())
	for _, platform := range clients {
		problems = append(problems, r.checkPlugin(platform))
	}
	return errors.Join(problems...)
}

// files returns the names of the files and directories of a complete release.
func (r *release) files() ([]string, error) {
	files := []string{checksum.Name, releaseNotes, thirdParty, "images", krewManifest, chart.File(r.version)}
	for _, platform := range r.platforms {
		files = append(files, r.title("images", platform)+".tar")
		for _, name := range servers {
			files = append(files, r.title(name, platform)+".spdx.json")
		}
	}
	for _, platform := range clients {
		files = append(files, r.archive(platform))
	}
	kustomizations, err := manifest.Kustomizations(filepath.Join(r.root, "artifacts"))
	for _, name := range kustomizations {
		files = append(files, r.manifestPrefix()+name+".yaml")
	}
	return files, err
}

// checkPlugin checks the archive of kubectl-mcs for a platform.
func (r *release) checkPlugin(platform string) error {
	name := r.archive(platform)
	files, err := plugin.Read(filepath.Join(r.dist, name))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var problems []error
	for _, license := range []string{"LICENSE", thirdParty} {
		if len(files[license]) == 0 {
			problems = append(problems, fmt.Errorf("%s has no %s", name, license))
		}
	}
	return errors.Join(append(problems, checkProgram(name, files[pluginProgram(platform)], platform))...)
}

// checkImages checks the programs in all images.
func (r *release) checkImages() error {
	index, err := layout.ImageIndexFromPath(filepath.Join(r.dist, "images"))
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range servers {
		for _, platform := range r.platforms {
			problems = append(problems, r.checkImage(index, name, platform))
		}
	}
	return errors.Join(problems...)
}

func (r *release) checkImage(index v1.ImageIndex, name, platform string) error {
	named, err := r.find(index, name)
	if err != nil {
		return err
	}
	images, err := partial.FindImages(named.Index, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.String() == platform })
	if err != nil {
		return err
	}
	if len(images) != 1 {
		return fmt.Errorf("layout has %d images %s for %s, want 1", len(images), named.Tag, platform)
	}
	content := mutate.Extract(images[0])
	defer content.Close()
	files, err := plugin.ReadTar(content)
	if err != nil {
		return err
	}
	return checkProgram(fmt.Sprintf("image %s for %s", named.Tag, platform), files["usr/local/bin/"+name], platform)
}

func checkProgram(where string, data []byte, want string) error {
	got, err := program.Platform(data)
	if err == nil && got != want {
		err = fmt.Errorf("program is for %s", got)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}
