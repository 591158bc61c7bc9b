// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"sigs.k8s.io/yaml"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The types of a manifest of Krew (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
type (
	// Manifest describes a plugin.
	Manifest struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   Metadata `json:"metadata"`
		Spec       Spec     `json:"spec"`
	}
	// Metadata is the name of a plugin, by which users install it.
	Metadata struct {
		Name string `json:"name"`
	}
	// Spec is what users read about a plugin, and where its archives are.
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats,omitempty"`
		Platforms        []Download `json:"platforms"`
	}
	// Download is the archive for one platform.
	Download struct {
		Selector Selector `json:"selector"`
		URI      string   `json:"uri"`
		SHA256   string   `json:"sha256"`
		Bin      string   `json:"bin"`
	}
	// Selector selects a platform.
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
)

// NewDownload returns the entry of an archive.
func NewDownload(platform v1.Platform, uri, sha256, bin string) Download {
	return Download{Selector{map[string]string{"os": platform.OS, "arch": platform.Architecture}}, uri, sha256, bin}
}

const description = `Join clusters to a ClusterSet, export Services to it, and inspect both.

The clusters must run mcs-apiserver, an implementation of the Kubernetes
Multi-Cluster Services API.
`

// Krew returns the manifest of the plugin, in YAML.
func Krew(version, homepage string, downloads []Download) ([]byte, error) {
	return yaml.Marshal(Manifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: Metadata{"mcs"},
		Spec: Spec{
			Version: version, Homepage: homepage, ShortDescription: "Export Services to a ClusterSet", Description: description,
			Caveats: "The clusters must run mcs-apiserver: see " + homepage + "\n", Platforms: downloads,
		},
	})
}
