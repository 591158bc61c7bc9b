// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// versionOf returns the version of CoreDNS from the tag of an image, or nil. Suffixes of
// vendors, as in v1.12.2-eksbuild.4, do not make it an earlier version.
func versionOf(image string) *version.Version {
	_, tag := splitImage(image)
	return parseVersion(tag)
}

func parseVersion(text string) *version.Version {
	number, _, _ := strings.Cut(text, "-")
	parsed, err := version.ParseGeneric(number)
	if err != nil {
		return nil
	}
	return parsed
}

var buildInfo = regexp.MustCompile(`(?m)^coredns_build_info\{(?:[^}]*,)?version="([^"]*)"`)

// VersionOfMetrics returns the version of CoreDNS from its metrics, or nil.
func VersionOfMetrics(metrics []byte) *version.Version {
	match := buildInfo.FindSubmatch(metrics)
	if match == nil {
		return nil
	}
	return parseVersion(string(match[1]))
}

// CheckVersion returns an error if CoreDNS is known to be too old.
func (s *Setup) CheckVersion() error {
	if s.Version != nil && !s.Version.AtLeast(version.MustParseGeneric(MinVersion)) {
		return fmt.Errorf("CoreDNS %s of %s is too old: serving ServiceImports requires %s or later; upgrade CoreDNS", s.Version, s.Workload, MinVersion)
	}
	return nil
}
