// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// notice is a file that has to be distributed with a program besides the license.
var notice = regexp.MustCompile(`(?i)^notice([.-].*)?$`)

// texts returns the texts of all licenses and notices, each once, with the modules that it
// applies to. It depends on nothing but the modules.
func texts(packages []pkg) (string, error) {
	modules := map[string][]string{} // by text
	for _, p := range packages {
		files, err := filesOf(p.Dir, p.Module.Dir)
		if err != nil {
			return "", err
		}
		notices, err := matching(p.Module.Dir, notice)
		if err != nil {
			return "", err
		}
		maps.Copy(files, notices)
		for _, text := range files {
			text = strings.TrimSpace(text)
			modules[text] = append(modules[text], p.Module.Path+" "+p.Module.Version)
		}
	}
	for text := range modules {
		modules[text] = slices.Compact(slices.Sorted(slices.Values(modules[text])))
	}
	order := slices.SortedFunc(maps.Keys(modules), func(a, b string) int { return cmp.Or(slices.Compare(modules[a], modules[b]), cmp.Compare(a, b)) })
	var all strings.Builder
	for _, text := range order {
		fmt.Fprintf(&all, "%s\n%s\n\n%s\n\n", strings.Repeat("=", 80), strings.Join(modules[text], "\n"), text)
	}
	return all.String(), nil
}
