// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// hostPath returns a path of the node, free of symbolic links. The path is created if the Pod requires
// it.
func hostPath(source *corev1.HostPathVolumeSource) (string, error) {
	kind := corev1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	_, err := os.Stat(source.Path)
	if errors.Is(err, fs.ErrNotExist) {
		switch kind {
		case corev1.HostPathDirectoryOrCreate:
			err = os.MkdirAll(source.Path, 0o755)
		case corev1.HostPathFileOrCreate:
			err = os.WriteFile(source.Path, nil, 0o644)
		}
	}
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(source.Path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !matches(kind, info.Mode()) {
		return "", fmt.Errorf("%s is not of the type %s", source.Path, kind)
	}
	return path, nil
}

func matches(kind corev1.HostPathType, mode fs.FileMode) bool {
	switch kind {
	case corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return mode.IsDir()
	case corev1.HostPathFile, corev1.HostPathFileOrCreate:
		return mode.IsRegular()
	case corev1.HostPathSocket:
		return mode&fs.ModeSocket != 0
	case corev1.HostPathCharDev:
		return mode&fs.ModeCharDevice != 0
	case corev1.HostPathBlockDev:
		return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	}
	return true
}
