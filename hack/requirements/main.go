// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command requirements compares the statements of docs/requirements.md with
// those that tests name in the form R57 or R83 to R88. It fails if a test names
// a statement that the document does not have, and prints the statements that
// no test names. It also fails if SECURITY.md names a statement or a test that
// does not exist.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	document = "docs/requirements.md"
	// security is the threat model, whose statements are only worth what their tests are.
	security = "SECURITY.md"
)

var (
	declared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	quoted   = regexp.MustCompile(`\bTest[A-Z]\w*`)

	row   = regexp.MustCompile(`(?m)^\| R([0-9]+) \|`)
	named = regexp.MustCompile(`\bR([0-9]+)(?: to R([0-9]+))?\b`)
)

func main() {
	if err := run(os.DirFS(".")); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

func run(root fs.FS) error {
	text, err := fs.ReadFile(root, document)
	if err != nil {
		return err
	}
	stated, err := statements(string(text))
	if err != nil {
		return err
	}
	tested, tests, err := namedByTests(root)
	if err != nil {
		return err
	}
	threats, err := fs.ReadFile(root, security)
	if err != nil {
		return err
	}
	if untested := slices.DeleteFunc(slices.Clone(stated), func(number int) bool { return tested[number] != "" }); len(untested) > 0 {
		fmt.Printf("requirements: no test names %s\n", list(untested))
	}
	return errors.Join(unknown(stated, tested), unshown(string(threats), stated, tests))
}

// statements returns the numbers in the tables, which must increase.
func statements(text string) ([]int, error) {
	var numbers []int
	last := 0
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		number, err := strconv.Atoi(match[1])
		if err != nil {
			return nil, err
		}
		if number <= last {
			return nil, fmt.Errorf("%s: R%d follows R%d", document, number, last)
		}
		numbers, last = append(numbers, number), number
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("%s has no rows of the form '| R1 |'", document)
	}
	return numbers, nil
}

// namedByTests returns the numbers that tests name, each with a file that does, and the
// names of all tests.
func namedByTests(root fs.FS) (files map[int]string, tests map[string]bool, err error) {
	files, tests = map[int]string{}, map[string]bool{}
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "bin" || path == "hack/requirements"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		numbers, err := names(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, number := range numbers {
			files[number] = filepath.ToSlash(path)
		}
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[match[1]] = true
		}
		return nil
	})
	return files, tests, err
}

// names returns the numbers that a text names, ranges expanded.
func names(text string) ([]int, error) {
	var numbers []int
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		first, err := strconv.Atoi(match[1])
		if err != nil {
			return nil, err
		}
		last := first
		if match[2] != "" {
			if last, err = strconv.Atoi(match[2]); err != nil {
				return nil, err
			}
			if last < first {
				return nil, fmt.Errorf("%s is not a range", match[0])
			}
		}
		for number := first; number <= last; number++ {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

func unknown(stated []int, tested map[int]string) error {
	var errs []error
	for _, number := range slices.Sorted(maps.Keys(tested)) {
		if !slices.Contains(stated, number) {
			errs = append(errs, fmt.Errorf("%s names R%d, which %s does not have", tested[number], number, document))
		}
	}
	return errors.Join(errs...)
}

// unshown returns an error for each statement and test in the threat model that does not
// exist.
func unshown(threats string, stated []int, tests map[string]bool) error {
	numbers, err := names(threats)
	errs := []error{err}
	for _, number := range numbers {
		if !slices.Contains(stated, number) {
			errs = append(errs, fmt.Errorf("%s names R%d, which %s does not have", security, number, document))
		}
	}
	found := quoted.FindAllString(threats, -1)
	for _, test := range found {
		if !tests[test] {
			errs = append(errs, fmt.Errorf("%s names %s, and there is no such test", security, test))
		}
	}
	if len(found) == 0 {
		errs = append(errs, fmt.Errorf("%s names no test", security))
	}
	return errors.Join(errs...)
}

func list(numbers []int) string {
	var all []string
	for _, number := range numbers {
		all = append(all, fmt.Sprintf("R%d", number))
	}
	return strings.Join(all, ", ")
}
