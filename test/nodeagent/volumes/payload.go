// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is a file of a volume with content from the API.
type file struct {
	data string
	mode fs.FileMode
}

// payload is the content of a volume by relative path.
type payload map[string]file

const (
	// dataLink leads to the current content. The visible files are links through it, so that one
	// rename replaces all of them atomically.
	dataLink    = "..data"
	newDataLink = "..data_tmp"
)

// write replaces the content of a directory atomically. A directory with the same content is not
// written.
func (p payload) write(dir string, owner ownership) error {
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" {
		current, err := readPayload(filepath.Join(dir, old))
		if err == nil && p.equal(current, owner) {
			return nil
		}
	}
	content, err := p.writeContent(dir, owner)
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, newDataLink)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(content), temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := p.link(dir); err != nil {
		return err
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

// writeContent writes the files to a new directory.
func (p payload) writeContent(dir string, owner ownership) (string, error) {
	content, err := os.MkdirTemp(dir, ".."+time.Now().UTC().Format("2006_01_02_15_04_05."))
	if err != nil {
		return "", err
	}
	for path, file := range p {
		target := filepath.Join(content, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(target, []byte(file.data), 0o600); err != nil {
			return "", err
		}
		if err := os.Chmod(target, file.mode); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(content, 0o755); err != nil {
		return "", err
	}
	return content, owner.apply(content, readable)
}

// link creates the visible links and removes those of former files.
func (p payload) link(dir string) error {
	wanted := map[string]bool{}
	for path := range p {
		first, _, _ := strings.Cut(path, "/")
		wanted[first] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.Type()&fs.ModeSymlink == 0 || name == dataLink {
			continue
		}
		if wanted[name] {
			delete(wanted, name)
		} else if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for name := range wanted {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// equal compares the payload with the content of a directory.
func (p payload) equal(current payload, owner ownership) bool {
	if len(p) != len(current) {
		return false
	}
	for path, file := range p {
		found, exists := current[path]
		if !exists || found.data != file.data || found.mode != owner.mode(file.mode, readable) {
			return false
		}
	}
	return true
}

func readPayload(dir string) (payload, error) {
	p := payload{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		p[relative] = file{data: string(data), mode: info.Mode().Perm()}
		return err
	})
	return p, err
}

// add adds files to the payload. Paths must be unique.
func (p payload) add(more payload) error {
	for path, file := range more {
		if _, exists := p[path]; exists {
			return fmt.Errorf("volume has two sources with the file %q", path)
		}
		p[path] = file
	}
	return nil
}
