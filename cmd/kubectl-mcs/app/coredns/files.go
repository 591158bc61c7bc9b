// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/corefile"
)

// files are the files of a container that come from ConfigMaps.
type files struct {
	workload   *Workload
	container  *corev1.Container
	configMaps map[string]*corev1.ConfigMap
}

// source is a key of a ConfigMap that is a file in a container.
type source struct {
	configMap, key string
	// updated is false for files that stay as they are until the container restarts.
	updated bool
}

// list returns the files of all mounted ConfigMaps by path.
func (f *files) list() map[string]source {
	found := map[string]source{}
	for i := range f.container.VolumeMounts {
		mount := &f.container.VolumeMounts[i]
		volume, _ := f.workload.configMaps(mount.Name)
		for _, c := range volume {
			for key, file := range f.paths(c) {
				if mount.SubPath != "" {
					within, ok := strings.CutPrefix(file+"/", path.Clean(mount.SubPath)+"/")
					if !ok {
						continue
					}
					file = within
				}
				file = path.Join(mount.MountPath, file)
				if visible, _ := mountOf(f.container, file); visible == mount {
					found[file] = source{c.name, key, mount.SubPath == ""}
				}
			}
		}
	}
	return found
}

// paths returns the paths of the keys of a ConfigMap in its volume.
func (f *files) paths(c projectedConfigMap) map[string]string {
	paths := map[string]string{}
	for _, item := range c.items {
		paths[item.Key] = path.Clean(item.Path)
	}
	if configMap := f.configMaps[c.name]; len(c.items) == 0 && configMap != nil {
		for key := range configMap.Data {
			paths[key] = key
		}
		for key := range configMap.BinaryData {
			paths[key] = key
		}
	}
	return paths
}

// read returns the files that a file imports, and false if they, or some of them, do
// not come from ConfigMaps.
func (f *files) read(from, pattern string) ([]corefile.File, bool) {
	pattern = absolute(from, pattern)
	if strings.ContainsAny(path.Dir(pattern), "*?[") || !f.isComplete(pattern) {
		return nil, false
	}
	list := f.list()
	var read []corefile.File
	for _, file := range slices.Sorted(maps.Keys(list)) {
		if matched, err := path.Match(pattern, file); err != nil {
			return nil, false
		} else if !matched {
			continue
		}
		text, ok := f.text(list[file])
		if !ok {
			return nil, false
		}
		read = append(read, corefile.File{Path: file, Text: text})
	}
	// CoreDNS does not start without a file that is imported by name.
	return read, len(read) > 0 || strings.ContainsAny(path.Base(pattern), "*?[")
}

func (f *files) text(s source) (string, bool) {
	configMap := f.configMaps[s.configMap]
	if configMap == nil {
		return "", false
	}
	text, ok := configMap.Data[s.key]
	return text, ok
}

// isComplete reports whether all files that match a pattern come from ConfigMaps.
func (f *files) isComplete(pattern string) bool {
	for i := range f.container.VolumeMounts {
		mount := &f.container.VolumeMounts[i]
		if matched, err := path.Match(pattern, path.Clean(mount.MountPath)); err == nil && !matched {
			continue
		}
		if _, only := f.workload.configMaps(mount.Name); !only {
			return false
		}
		if !strings.ContainsAny(pattern, "*?[") {
			return true
		}
	}
	mount, _ := mountOf(f.container, path.Dir(pattern))
	if mount == nil {
		return false
	}
	_, only := f.workload.configMaps(mount.Name)
	return only
}

// newKey returns a key with which a ConfigMap becomes a file that matches a pattern of
// an import, and false if there is none.
func (f *files) newKey(from, pattern, prefix string) (source, bool) {
	directory, base := path.Split(absolute(from, pattern))
	before, suffix, ok := strings.Cut(base, "*")
	mount, rest := mountOf(f.container, path.Clean(directory))
	if !ok || mount == nil || rest != "" || mount.SubPath != "" {
		return source{}, false
	}
	volume, _ := f.workload.configMaps(mount.Name)
	for _, c := range volume {
		if len(c.items) == 0 {
			return source{c.name, before + prefix + suffix, true}, true
		}
	}
	return source{}, false
}

// absolute returns the path of a file that another one imports.
func absolute(from, pattern string) string {
	if !path.IsAbs(pattern) {
		pattern = path.Join(path.Dir(from), pattern)
	}
	return path.Clean(pattern)
}

// mountOf returns the volume mount of a container that has a file, and the path of the
// file in it.
func mountOf(container *corev1.Container, file string) (*corev1.VolumeMount, string) {
	var found *corev1.VolumeMount
	var rest string
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		directory := strings.TrimSuffix(path.Clean(mount.MountPath), "/")
		within, ok := strings.CutPrefix(file+"/", directory+"/")
		if ok && (found == nil || len(directory) > len(path.Clean(found.MountPath))) {
			found, rest = mount, strings.TrimSuffix(within, "/")
		}
	}
	return found, rest
}

type projectedConfigMap struct {
	name  string
	items []corev1.KeyToPath
}

// configMaps returns the ConfigMaps of a volume, and whether all of its files are from
// them.
func (w *Workload) configMaps(volume string) (found []projectedConfigMap, only bool) {
	for _, v := range w.Template.Spec.Volumes {
		if v.Name != volume {
			continue
		}
		if v.ConfigMap != nil {
			return []projectedConfigMap{{v.ConfigMap.Name, v.ConfigMap.Items}}, true
		}
		if v.Projected == nil {
			return nil, false
		}
		only = true
		for _, s := range v.Projected.Sources {
			if s.ConfigMap == nil {
				only = false
				continue
			}
			found = append(found, projectedConfigMap{s.ConfigMap.Name, s.ConfigMap.Items})
		}
	}
	return found, only
}
