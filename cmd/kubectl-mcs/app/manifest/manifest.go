// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest writes objects to files that `kubectl apply` takes.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// File is a file with objects.
type File struct {
	// Path is where the file is written.
	Path string
	// Title is the first line of the file, a comment. A file with another one is not
	// replaced: somebody else wrote it.
	Title string
	// Objects are what the file contains, with their kinds.
	Objects []runtime.Object
}

// firstLine returns the first line of the file.
func (f File) firstLine() string { return "# " + f.Title + "\n" }

// Encode returns the content of the file.
func (f File) Encode() ([]byte, error) {
	var content bytes.Buffer
	content.WriteString(f.firstLine())
	for _, object := range f.Objects {
		encoded, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&content, "---\n%s", encoded)
	}
	return content.Bytes(), nil
}

// Check returns an error if a file cannot be written, because one exists that somebody else
// wrote or encrypted, or because its directory cannot be created, which this does. Commands check before
// they change clusters.
func Check(files []File) error {
	for _, file := range files {
		if err := os.MkdirAll(filepath.Dir(file.Path), 0o700); err != nil { // likely for all of them
			return fmt.Errorf("directory %s cannot be created: choose another one with --output-dir, or correct its permissions (%w)", filepath.Dir(file.Path), err)
		}
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, file.check())
	}
	return errors.Join(errs...)
}

func (f File) check() error {
	info, err := os.Lstat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	foreign := fmt.Errorf("%s exists and is not an earlier version of the file: remove it, or choose another directory", f.Path)
	if !info.Mode().IsRegular() {
		return foreign
	}
	content, err := os.ReadFile(f.Path)
	if err != nil {
		return err
	}
	switch {
	case encrypted.Match(content):
		return fmt.Errorf("%s was encrypted, and would be replaced by plain text: choose another directory, outside of your repository, and encrypt what is written there", f.Path)
	case !strings.HasPrefix(string(content), f.firstLine()):
		return foreign
	}
	return nil
}

// encrypted matches what SOPS writes. It may keep comments, such as the title, and values that are
// not secret.
var encrypted = regexp.MustCompile(`(?m)\bENC\[|^sops:`)

// Write writes the files. Nobody but the user can read them: they may contain credentials. A
// file is complete, or it is as before. All of them are written before the first one
// gets its name, so that a full disk changes nothing. After an error, new files are removed,
// and those that replaced earlier versions are named.
func Write(files []File) error {
	if err := Check(files); err != nil {
		return err
	}
	var temporary []string
	defer func() {
		for _, name := range temporary {
			_ = os.Remove(name) // those that were not renamed
		}
	}()
	for _, file := range files {
		name, err := file.writeTemporary()
		if name != "" {
			temporary = append(temporary, name)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", file.Path, err)
		}
	}
	var created, replaced []string
	for i, file := range files {
		_, err := os.Lstat(file.Path)
		isNew := errors.Is(err, fs.ErrNotExist)
		if err := os.Rename(temporary[i], file.Path); err != nil {
			return failed(fmt.Errorf("write %s: %w", file.Path, err), created, replaced)
		}
		if isNew {
			created = append(created, file.Path)
		} else {
			replaced = append(replaced, file.Path)
		}
	}
	return nil
}

// failed removes the files that were created before an error, and returns the error with the
// names of those that are left.
func failed(err error, created, replaced []string) error {
	for _, path := range created {
		err = errors.Join(err, os.Remove(path))
	}
	if len(replaced) > 0 {
		err = fmt.Errorf("%w; these files were replaced already: %s", err, strings.Join(replaced, ", "))
	}
	return err
}

// writeTemporary writes the content to a new file beside the path, and returns its name, also
// with an error if it exists.
func (f File) writeTemporary() (name string, err error) {
	content, err := f.Encode()
	if err != nil {
		return "", err
	}
	temporary, err := os.CreateTemp(filepath.Dir(f.Path), ".kubectl-mcs-*") // 0600, new; on Windows with the permissions of the directory
	if err != nil {
		return "", err
	}
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync() // a file that has its name after a crash is complete
	}
	return temporary.Name(), errors.Join(err, temporary.Close())
}

// Others returns the names of other files in the directory of a file that `kubectl apply -f`
// of the directory applies, too.
func Others(directory string, files []File) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	written := map[string]bool{}
	for _, file := range files {
		written[file.Path] = true
	}
	var names []string
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".yaml", ".yml", ".json":
			if !written[filepath.Join(directory, entry.Name())] {
				names = append(names, entry.Name())
			}
		}
	}
	return names, nil
}
