// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"strconv"
	"strings"
)

// hostMounts picks the mount points of the host that a container needs to see
// besides the root file system, from the text of /proc/self/mountinfo. It
// leaves out everything at or below the given paths.
func hostMounts(mountinfo string, without []string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if point == "/" || slices.Contains(points, point) || slices.ContainsFunc(without, func(path string) bool { return within(point, path) }) {
			continue
		}
		points = append(points, point)
	}
	return points
}

// within says whether a clean path is another one or below it.
func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/")
}

// unescape undoes how the kernel writes spaces and the like: as \040.
func unescape(path string) string {
	var clean strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if code, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				clean.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		clean.WriteByte(path[i])
	}
	return clean.String()
}
