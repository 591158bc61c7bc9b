// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest renders kustomizations with the images of a release.
package manifest

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Image replaces an image of manifests by one with another name or tag.
type Image struct {
	// Name is the name in the manifests, without a tag.
	Name string
	// Repository and Tag are the new name.
	Repository, Tag string
}

// Kustomizations returns the names of the directories that have a kustomization.
func Kustomizations(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no directory with a kustomization.yaml", dir)
	}
	return names, nil
}

// Render renders a kustomization as `kubectl apply -k` does, with other images.
func Render(dir string, images []Image) ([]byte, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	for _, image := range images {
		transformer := builtins.ImageTagTransformerPlugin{ImageTag: types.Image{Name: image.Name, NewName: image.Repository, NewTag: image.Tag}}
		if err := transformer.Transform(resources); err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Name, err)
		}
	}
	return resources.AsYaml()
}

// WriteAll renders all kustomizations in a directory to files that start with a prefix.
func WriteAll(dir, prefix string, images []Image) error {
	names, err := Kustomizations(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := Render(filepath.Join(dir, name), images)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(prefix+name+".yaml", text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
