// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart packs a Helm chart with the version and the images of a release. `helm package`
// would not give the same file every time.
package chart

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/hack/release/plugin"
)

// Name is the name of the chart.
const Name = "mcs-apiserver"

// File returns how Helm names the file of a chart. Versions of charts have no leading v.
func File(version string) string { return Name + "-" + strings.TrimPrefix(version, "v") + ".tgz" }

// Pack writes the chart in a directory to a file, with a version, and with images of a
// registry and path, which may be empty.
func Pack(dir, file, version, registry string, modified time.Time) error {
	files, err := read(dir, Name)
	if err != nil {
		return err
	}
	for _, line := range []struct{ file, expression, replacement string }{
		{"Chart.yaml", `(?m)^version: .*$`, "version: " + strings.TrimPrefix(version, "v")},
		{"Chart.yaml", `(?m)^appVersion: .*$`, "appVersion: " + version},
		{"values.yaml", `(?m)^  registry: ""$`, fmt.Sprintf("  registry: %q", registry)},
	} {
		if err := replace(files, path.Join(Name, line.file), regexp.MustCompile(line.expression), line.replacement); err != nil {
			return err
		}
	}
	return plugin.Archive(file, files, modified)
}

// read returns the files of a directory, in the order of their names, below another name.
// It follows links: the chart contains manifests of another directory.
func read(dir, name string) ([]plugin.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []plugin.File
	for _, entry := range entries {
		source, target := filepath.Join(dir, entry.Name()), path.Join(name, entry.Name())
		info, err := os.Stat(source)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			below, err := read(source, target)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
			continue
		}
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		files = append(files, plugin.File{Name: target, Data: data})
	}
	return files, nil
}

// replace replaces the only match in a file.
func replace(files []plugin.File, name string, expression *regexp.Regexp, replacement string) error {
	for i := range files {
		if files[i].Name != name {
			continue
		}
		if matches := len(expression.FindAll(files[i].Data, -1)); matches != 1 {
			return fmt.Errorf("%s has %d lines that match %s, want 1", name, matches, expression)
		}
		files[i].Data = expression.ReplaceAllLiteral(files[i].Data, []byte(replacement))
		return nil
	}
	return fmt.Errorf("chart has no file %s", name)
}
