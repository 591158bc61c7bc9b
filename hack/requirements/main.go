// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command requirements compares the statements of docs/requirements.md with
// those that tests name in the form R57 or R83 to R88. It fails if a test names
// a statement that the document does not have, and prints the statements that
// no test names.
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

const document = "docs/requirements.md"

var (
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
	tested, err := namedByTests(root)
	if err != nil {
		return err
	}
	if untested := slices.DeleteFunc(slices.Clone(stated), func(number int) bool { return tested[number] != "" }); len(untested) > 0 {
		fmt.Printf("requirements: no test names %s\n", list(untested))
	}
	return unknown(stated, tested)
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

// namedByTests returns the numbers that tests name, each with a file that does.
func namedByTests(root fs.FS) (map[int]string, error) {
	files := map[int]string{}
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
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
		return nil
	})
	return files, err
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

func list(numbers []int) string {
	var all []string
	for _, number := range numbers {
		all = append(all, fmt.Sprintf("R%d", number))
	}
	return strings.Join(all, ", ")
}
