// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command licenses checks the licenses of all modules that are linked into the
// programs in cmd. It fails if a module has no license, or one that is not allowed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	space    = regexp.MustCompile(`[\s*#]+`)
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	packages, err := linked("./cmd/...")
	if err != nil {
		return err
	}
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
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// linked returns the packages of other modules that programs are linked with.
func linked(programs string) ([]pkg, error) {
	command := exec.Command("go", "list", "-deps", "-json=Dir,Module", programs)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var next pkg
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("output of go list: %w", err)
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
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, entry := range entries {
			if entry.IsDir() || !fileName.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			of, err := classify(string(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(dir, entry.Name()), err)
			}
			names = append(names, of...)
		}
		if len(names) > 0 {
			return names, nil
		}
		if dir == root || dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("no license in %s; do not link a module that may not be distributed", root)
		}
		dir = filepath.Dir(dir)
	}
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
