// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image makes container images of static programs without a container engine. The
// same programs give the same images, byte for byte.
package image

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// User is the user and the group of the programs. Images have no /etc/passwd, and
	// Kubernetes can only tell that a numeric user is not root.
	User = "65532:65532"
	// programs is the directory of programs in an image, the only one in its PATH.
	programs = "/usr/local/bin"
	// documents is the directory of SBOMs in an image.
	documents = "/usr/local/share/sbom"
)

// Program is a program to make an image of, for one platform.
type Program struct {
	Name     string
	Platform v1.Platform
	// File is the program, and SBOM the SPDX document that describes it.
	File string
	SBOM []byte
	// Licenses are the files with the licenses that apply to it, by name.
	Licenses map[string][]byte
}

// Labels are the labels of images, and the annotations of their manifests.
type Labels struct {
	Version, Revision, Source, Licenses string
	Created                             time.Time
}

// of returns the labels of one image, named as the OCI image specification does.
func (l Labels) of(title string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.version":  l.Version,
		"org.opencontainers.image.revision": l.Revision,
		"org.opencontainers.image.source":   l.Source,
		"org.opencontainers.image.licenses": l.Licenses,
		"org.opencontainers.image.created":  l.Created.UTC().Format(time.RFC3339),
	}
}

// New returns the image of a program for one platform.
func New(program Program, labels Labels) (v1.Image, error) {
	data, err := os.ReadFile(program.File)
	if err != nil {
		return nil, err
	}
	common := []file{{path: certificatesPath, data: certificates()}}
	for name, text := range program.Licenses {
		common = append(common, file{path: "/licenses/" + name, data: text})
	}
	base, err := layer(labels.Created, common)
	if err != nil {
		return nil, err
	}
	top, err := layer(labels.Created, []file{
		{path: programs + "/" + program.Name, data: data, executable: true},
		{path: documents + "/" + program.Name + ".spdx.json", data: program.SBOM},
	})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: labels.Created.UTC()}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: program.Platform.OS, Architecture: program.Platform.Architecture, Created: created, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: User, WorkingDir: "/", Entrypoint: []string{programs + "/" + program.Name}, Env: []string{"PATH=" + programs},
			Labels: labels.of(program.Name),
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "certificate authorities and licenses"}},
		mutate.Addendum{Layer: top, History: v1.History{Created: created, CreatedBy: program.Name}},
	)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, labels.of(program.Name)).(v1.Image), nil
}

// Index returns the images of one program for several platforms, as one image.
func Index(title string, images map[string]v1.Image, labels Labels) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range slices.Sorted(maps.Keys(images)) {
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			return nil, fmt.Errorf("platform %q: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[platform], Descriptor: v1.Descriptor{Platform: parsed}})
	}
	return mutate.Annotations(index, labels.of(title)).(v1.ImageIndex), nil
}
