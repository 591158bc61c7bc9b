// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest renders kustomizations with the images of a release.
package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Image replaces an image of manifests by one with another name and tag.
type Image struct {
	// Name is the name in the manifests, without a tag.
	Name string `json:"name"`
	// NewName and NewTag are those of the release.
	NewName string `json:"newName"`
	NewTag  string `json:"newTag"`
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
func Render(dir string, images []Image) (text []byte, err error) {
	overlay, err := os.MkdirTemp("", "overlay")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(overlay)) }()
	base, err := relative(overlay, dir)
	if err != nil {
		return nil, err
	}
	kustomization, err := yaml.Marshal(map[string]any{"resources": []string{base}, "images": images})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), kustomization, 0o644); err != nil {
		return nil, err
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
}

// relative returns the path from one directory to another, as kustomizations have to name
// others.
func relative(from, to string) (string, error) {
	for _, dir := range []*string{&from, &to} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return "", err
		}
		if *dir, err = filepath.EvalSymlinks(absolute); err != nil {
			return "", err
		}
	}
	return filepath.Rel(from, to)
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
