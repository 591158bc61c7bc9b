// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumes implements the volumes of Pods as directories of the node.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Manager creates volumes.
type Manager struct {
	Client kubernetes.Interface
	// Claims is the directory with a subdirectory <namespace>/<name>/<UID> per PersistentVolumeClaim.
	Claims string
	// Node has the allocatable resources of the node.
	Node corev1.ResourceList
}

// Set is the volumes of one Pod. It is not safe for concurrent use.
type Set struct {
	manager *Manager
	dir     string
	paths   map[string]string
	mounted []string
	tokens  map[tokenKey]token
}

type tokenKey struct {
	audience string
	seconds  int64
}

type token struct {
	value string
	renew time.Time
}

// NewSet returns the volumes of a Pod in a directory. Both paths are absolute and free of symbolic links.
func (m *Manager) NewSet(dir string) *Set {
	return &Set{manager: m, dir: dir, paths: map[string]string{}, tokens: map[tokenKey]token{}}
}

// Sync creates missing volumes and updates those with content from the API. It returns when to run again
// at the latest, or the zero time. The status of the Pod must have its addresses.
func (s *Set) Sync(ctx context.Context, pod *corev1.Pod) (time.Time, error) {
	owner := ownership{}
	if pod.Spec.SecurityContext != nil {
		owner.group = pod.Spec.SecurityContext.FSGroup
	}
	var errs []error
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if err := s.sync(ctx, pod, volume, owner); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", volume.Name, err))
		}
	}
	var renew time.Time
	for _, token := range s.tokens {
		if renew.IsZero() || token.renew.Before(renew) {
			renew = token.renew
		}
	}
	return renew, errors.Join(errs...)
}

func (s *Set) sync(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, owner ownership) error {
	if sources, mode := projections(volume); sources != nil {
		files, err := s.project(ctx, pod, sources, mode)
		if err != nil {
			return err
		}
		path, err := s.make(volume.Name, 0o755)
		if err != nil {
			return err
		}
		s.paths[volume.Name] = path
		return files.write(path, owner)
	}
	if s.paths[volume.Name] != "" {
		return nil
	}
	path, err := s.other(ctx, pod, volume, owner)
	if err == nil {
		s.paths[volume.Name] = path
	}
	return err
}

// other creates a volume without content from the API.
func (s *Set) other(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, owner ownership) (string, error) {
	switch {
	case volume.EmptyDir != nil:
		path, err := s.emptyDir(volume)
		if err != nil {
			return "", err
		}
		return path, owner.apply(path, writable)
	case volume.HostPath != nil:
		return hostPath(volume.HostPath)
	case volume.PersistentVolumeClaim != nil:
		return s.claim(ctx, pod.Namespace, volume.PersistentVolumeClaim.ClaimName, owner)
	case volume.Ephemeral != nil:
		return s.claim(ctx, pod.Namespace, pod.Name+"-"+volume.Name, owner)
	case volume.Projected != nil || volume.DownwardAPI != nil: // without sources
		return s.make(volume.Name, 0o755)
	}
	return "", errors.New("unsupported kind of volume")
}

func (s *Set) emptyDir(volume *corev1.Volume) (string, error) {
	path, err := s.make(volume.Name, 0o777)
	if err != nil || volume.EmptyDir.Medium != corev1.StorageMediumMemory {
		return path, err
	}
	options := "mode=777"
	if limit := volume.EmptyDir.SizeLimit; limit != nil && !limit.IsZero() {
		options += fmt.Sprintf(",size=%d", limit.Value())
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return "", fmt.Errorf("mount tmpfs on %s: %w", path, err)
	}
	s.mounted = append(s.mounted, path)
	return path, nil
}

// claim returns a directory that outlives its Pods, but not its claim: that of a deleted claim is removed when
// another one of the same name is used. Volumes are not provisioned: any existing claim counts as bound.
func (s *Set) claim(ctx context.Context, namespace, name string, owner ownership) (string, error) {
	claim, err := s.manager.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	volumes := filepath.Join(s.manager.Claims, namespace, name)
	if err := removeExcept(volumes, string(claim.UID)); err != nil {
		return "", err
	}
	path := filepath.Join(volumes, string(claim.UID))
	if err := makeDirectory(path, 0o777); err != nil {
		return "", err
	}
	return path, owner.apply(path, writable)
}

// removeExcept removes what a directory contains, except for one entry.
func removeExcept(directory, kept string) error {
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == kept {
			continue
		}
		if err := os.RemoveAll(filepath.Join(directory, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) make(name string, mode fs.FileMode) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, makeDirectory(path, mode)
}

func makeDirectory(path string, mode fs.FileMode) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // independent of the umask
}

// Path returns the path of a volume, or of a file or directory in it, on the node, free of symbolic links. A
// missing directory is created. The path must not lead out of the volume.
func (s *Set) Path(volume, subPath string) (string, error) {
	base, known := s.paths[volume]
	if !known {
		return "", fmt.Errorf("volume %s is not ready", volume)
	}
	if subPath == "" {
		return base, nil
	}
	if !filepath.IsLocal(subPath) {
		return "", fmt.Errorf("path %q leads out of volume %s", subPath, volume)
	}
	info, err := os.Stat(base)
	if err != nil {
		return "", err
	}
	path := filepath.Join(base, subPath)
	if err := makeDirectory(path, info.Mode()); err != nil {
		return "", fmt.Errorf("path %q of volume %s: %w", subPath, volume, err)
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if path != base && !strings.HasPrefix(path, base+"/") {
		return "", fmt.Errorf("path %q leads out of volume %s", subPath, volume)
	}
	return path, nil
}

// Remove removes the volumes, except those that outlive the Pod. All containers must have exited.
func (s *Set) Remove() error {
	var errs []error
	for _, path := range s.mounted {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
		}
	}
	s.mounted = nil
	if len(errs) == 0 {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	clear(s.paths)
	return errors.Join(errs...)
}
