// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Named is an image for several platforms with the name that it is pulled by.
type Named struct {
	Tag   name.Tag
	Index v1.ImageIndex
	// Images are the images of the index by platform.
	Images map[string]v1.Image
}

// Tag returns the name of an image: below a prefix such as registry.example.com/team, or
// without a registry if the prefix is empty.
func Tag(prefix, title, version string) (name.Tag, error) {
	if strings.Contains(prefix, "://") {
		return name.Tag{}, fmt.Errorf("%q is a URL: name the registry and a path, such as registry.example.com/team", prefix)
	}
	if prefix != "" {
		title = strings.TrimSuffix(prefix, "/") + "/" + title
	}
	return name.NewTag(title + ":" + version)
}

// RefName is the annotation of the OCI image specification for the name of an image.
const RefName = "org.opencontainers.image.ref.name"

// annotations name an image in a layout: the first one is that of containerd, which needs
// the complete name.
func annotations(tag name.Tag) map[string]string {
	complete := tag.Name()
	if tag.RegistryStr() == name.DefaultRegistry {
		complete = strings.Replace(complete, name.DefaultRegistry, "docker.io", 1)
	}
	return map[string]string{"io.containerd.image.name": complete, RefName: tag.String()}
}

// WriteLayout writes an OCI image layout with all platforms of the images. It replaces the
// directory.
func WriteLayout(dir string, images []Named) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, image := range images {
		if err := path.AppendIndex(image.Index, layout.WithAnnotations(annotations(image.Tag))); err != nil {
			return err
		}
	}
	return nil
}
