// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"slices"
	"strconv"
	"strings"
)

// hostMounts returns the mount points of the host that a container sees besides the root file
// system, from the content of /proc/self/mountinfo. Mount points at or below the given paths are
// excluded.
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

// within reports whether a clean path is equal to or below another one.
func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/")
}

// unescape decodes characters that the kernel escapes, such as \040 for a space.
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
