// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/checksum"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/image"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/program"
	"github.com/mcs-apiserver/mcs-apiserver/hack/release/sbom"
)

// servers are the programs that run in containers.
var servers = []string{"mcs-apiserver", "mcs-controller"}

// images builds the images of the servers: as an OCI image layout, and as an archive per
// platform.
func (r *release) images(ctx context.Context) error {
	licenses, err := r.licenses()
	if err != nil {
		return err
	}
	labels := image.Labels{Version: r.version, Revision: r.revision, Source: source, Licenses: license, Created: r.time}
	var built []image.Named
	for _, name := range servers {
		named := image.Named{Images: map[string]v1.Image{}}
		if named.Tag, err = image.Tag(r.prefix, name, r.version); err != nil {
			return err
		}
		for _, platform := range r.platforms {
			if named.Images[platform], err = r.image(ctx, name, platform, licenses, labels); err != nil {
				return fmt.Errorf("%s for %s: %w", name, platform, err)
			}
		}
		if named.Index, err = image.Index(name, named.Images, labels); err != nil {
			return err
		}
		built = append(built, named)
	}
	if err := r.write(built); err != nil {
		return err
	}
	return printNames(built)
}

// checkPush checks that images can be pushed.
func (r *release) checkPush() error {
	for _, name := range servers {
		tag, err := image.Tag(r.prefix, name, r.version)
		if err != nil {
			return err
		}
		r.say("Checking that %s can be pushed", tag)
		if err := image.CheckPush(tag); err != nil {
			return err
		}
	}
	return nil
}

// image builds the image of a program for one platform.
func (r *release) image(ctx context.Context, name, platform string, licenses map[string][]byte, labels image.Labels) (v1.Image, error) {
	parsed, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, err
	}
	var built v1.Image
	err = r.build(ctx, name, *parsed, func(file string) error {
		if err := program.CheckStatic(file); err != nil {
			return err
		}
		document, err := r.sbom(name, platform, file)
		if err != nil {
			return err
		}
		built, err = image.New(image.Program{Name: name, Platform: *parsed, File: file, SBOM: document, Licenses: licenses}, labels)
		return err
	})
	return built, err
}

// build builds a program for one platform, and removes it after it was used.
func (r *release) build(ctx context.Context, name string, platform v1.Platform, use func(file string) error) (err error) {
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, name)
	r.say("Building %s for %s, which takes minutes if Go has not compiled it for this platform before", name, platform)
	if err := (program.Builder{Dir: r.root, LDFlags: r.ldflags}).Build(ctx, "./cmd/"+name, platform, file); err != nil {
		return err
	}
	return use(file)
}

// sbom returns the SBOM of a program, and writes it to a file of the release.
func (r *release) sbom(name, platform, file string) ([]byte, error) {
	title := r.title(name, platform)
	document, err := sbom.SPDX(sbom.Subject{Name: title, File: file, Version: r.version, Source: source, License: license, Created: r.time})
	if err != nil {
		return nil, err
	}
	return document, os.WriteFile(filepath.Join(r.dist, title+".spdx.json"), document, 0o644)
}

// thirdParty is the file of the release with the licenses of all modules that the programs
// are linked with.
const thirdParty = "THIRD_PARTY_LICENSES"

// licenses returns the licenses that are distributed with programs, by the name of the file.
func (r *release) licenses() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, path := range []string{filepath.Join(r.root, "LICENSE"), filepath.Join(r.dist, thirdParty)} {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("license: %w", err)
		}
		files[filepath.Base(path)] = text
	}
	return files, nil
}

// title is how files of the release are named, without an extension.
func (r *release) title(name, platform string) string {
	return name + "-" + r.version + "-" + strings.ReplaceAll(platform, "/", "-")
}

func (r *release) write(built []image.Named) error {
	r.say("Packing images")
	if err := image.WriteLayout(filepath.Join(r.dist, "images"), built); err != nil {
		return err
	}
	for _, platform := range r.platforms {
		if err := image.WriteArchive(filepath.Join(r.dist, r.title("images", platform)+".tar"), platform, built, r.time); err != nil {
			return err
		}
	}
	return checksum.Write(r.dist, releaseNotes)
}

// printNames prints what images are called.
func printNames(built []image.Named) error {
	for _, named := range built {
		digest, err := named.Index.Digest()
		if err != nil {
			return err
		}
		fmt.Printf("%s@%s\n", named.Tag, digest)
	}
	return nil
}

// pushImages pushes the images that were built. It is the last part: what is in a registry may
// be in use, and was built and checked completely.
func (r *release) pushImages(ctx context.Context) error {
	index, err := layout.ImageIndexFromPath(filepath.Join(r.dist, "images"))
	if err != nil {
		return fmt.Errorf("make the part images first: %w", err)
	}
	var built []image.Named
	for _, name := range servers {
		named, err := r.find(index, name)
		if err != nil {
			return err
		}
		// A version with local changes names no particular content.
		if !strings.HasSuffix(r.version, "-dirty") {
			if err := image.CheckReplace(ctx, named); err != nil {
				return err
			}
		}
		built = append(built, named)
	}
	for _, named := range built {
		r.say("Pushing %s", named.Tag)
		if err := image.Push(ctx, named); err != nil {
			return err
		}
	}
	return nil
}

// find returns the image of a program in the layout of all images.
func (r *release) find(index v1.ImageIndex, name string) (image.Named, error) {
	tag, err := image.Tag(r.prefix, name, r.version)
	if err != nil {
		return image.Named{}, err
	}
	found, err := partial.FindIndexes(index, func(d v1.Descriptor) bool { return d.Annotations[image.RefName] == tag.String() })
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("layout has %d images %s, want 1", len(found), tag)
	}
	if err != nil {
		return image.Named{}, err
	}
	return image.Named{Tag: tag, Index: found[0]}, nil
}
