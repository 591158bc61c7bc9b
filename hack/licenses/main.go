// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command licenses checks the licenses of all modules that are linked into the
// programs in cmd, and into the program that makes releases, of which images contain data.
// It fails if a module has no license, or one that is not allowed.
//
// With -texts, it writes the texts of the licenses of the programs in cmd to a file, which
// is distributed with them.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// allowed are the licenses that allow distributing the programs under the Apache License
// 2.0, each with a phrase that its text always contains.
var allowed = map[string]*regexp.Regexp{
	"Apache-2.0": regexp.MustCompile(`apache license,? version 2\.0`),
	"BSD":        regexp.MustCompile(`redistribution and use in source and binary forms, with or without modification, are permitted`),
	"ISC":        regexp.MustCompile(`permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee is hereby granted`),
	"MIT":        regexp.MustCompile(`permission is hereby granted, free of charge, to any person obtaining a copy`),
}

// restricted are words of licenses with more conditions, which a file may contain in
// addition to an allowed license.
var restricted = regexp.MustCompile(`general public license|mozilla public license|eclipse public license|server side public license|business source license|commons clause|creative commons|non-?commercial`)

var (
	fileName = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([.-].*)?$`)
	// notLinked are files with such a name that are code, or the license of documentation.
	notLinked = regexp.MustCompile(`(?i)\.(go|docs)$`)
	space     = regexp.MustCompile(`[\s*#]+`)
)

func main() {
	file := flag.String("texts", "", "file to write the texts of the licenses to")
	flag.Parse()
	if err := run(os.Stdout, *file); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, file string) error {
	packages, err := linked(".", "./cmd/...", "linux", "darwin", "windows")
	if err != nil {
		return err
	}
	if file != "" {
		library, err := standardLibrary()
		if err != nil {
			return err
		}
		text, err := texts(append(packages, library))
		if err != nil {
			return err
		}
		return os.WriteFile(file, []byte(text), 0o644)
	}
	tools, err := linked("hack/release", ".", runtime.GOOS)
	if err != nil {
		return err
	}
	packages = append(packages, tools...)
	found, err := licenses(packages)
	count := map[string]int{}
	for _, names := range found {
		count[strings.Join(names, " and ")]++
	}
	for _, names := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(out, "licenses: %d modules with %s\n", count[names], names)
	}
	return err
}

// pkg is a package as `go list` describes it.
type pkg struct {
	Dir    string
	Module *module
}

type module struct {
	Path, Version, Dir string
	Main               bool
}

// standardLibrary returns the standard library of Go as a module.
func standardLibrary() (pkg, error) {
	output, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return pkg{}, fmt.Errorf("go env: %w", err)
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return pkg{Dir: dir, Module: &module{Path: "Go standard library", Version: version, Dir: dir}}, nil
}

// linked returns the packages of other modules that programs of a module are linked with
// on any of these operating systems.
func linked(dir, programs string, systems ...string) ([]pkg, error) {
	var packages []pkg
	for _, system := range systems {
		command := exec.Command("go", "list", "-deps", "-json=Dir,Module", programs)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOOS="+system)
		command.Stderr = os.Stderr
		output, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		found, err := decode(output)
		if err != nil {
			return nil, fmt.Errorf("output of go list: %w", err)
		}
		packages = append(packages, found...)
	}
	return packages, nil
}

// decode returns the packages of other modules in the output of go list.
func decode(output []byte) ([]pkg, error) {
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var next pkg
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if next.Module != nil && !next.Module.Main {
			packages = append(packages, next)
		}
	}
}

// licenses returns the licenses of the packages by module.
func licenses(packages []pkg) (map[string][]string, error) {
	found, checked := map[string][]string{}, map[string]error{}
	for _, p := range packages {
		module := p.Module.Path + " " + p.Module.Version
		if _, done := checked[p.Dir]; done {
			continue
		}
		names, err := ofDirectory(p.Dir, p.Module.Dir)
		if err != nil {
			err = fmt.Errorf("module %s: %w", module, err)
		}
		checked[p.Dir] = err
		found[module] = slices.Compact(slices.Sorted(slices.Values(append(found[module], names...))))
	}
	var errs []error
	for _, dir := range slices.Sorted(maps.Keys(checked)) {
		errs = append(errs, checked[dir])
	}
	return found, errors.Join(errs...)
}

// ofDirectory returns the licenses of a package: those of its directory, or of the nearest
// directory above it in the same module that has any.
func ofDirectory(dir, root string) ([]string, error) {
	files, err := filesOf(dir, root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		of, err := classify(files[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		names = append(names, of...)
	}
	return names, nil
}

// filesOf returns the texts of the licenses of a package by file.
func filesOf(dir, root string) (map[string]string, error) {
	for {
		files, err := matching(dir, fileName)
		if err != nil || len(files) > 0 {
			return files, err
		}
		if dir == root || dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("no license in %s; do not link a module that may not be distributed", root)
		}
		dir = filepath.Dir(dir)
	}
}

// matching returns the texts of files in a directory whose name matches.
func matching(dir string, name *regexp.Regexp) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || !name.MatchString(entry.Name()) || notLinked.MatchString(entry.Name()) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files[path] = string(text)
	}
	return files, nil
}

// classify returns the licenses that a file contains, of which all apply.
func classify(text string) ([]string, error) {
	text = space.ReplaceAllString(strings.ToLower(text), " ")
	if words := restricted.FindString(text); words != "" {
		return nil, fmt.Errorf("license is not allowed (%q); replace the module", words)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if allowed[name].MatchString(text) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("license is none of %s; replace the module, or add its license to hack/licenses if it has no other conditions",
			strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
	}
	return names, nil
}
