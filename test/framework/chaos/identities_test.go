// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestIdentities(t *testing.T) {
	kept := NewIdentities(map[string]types.UID{"a": "1", "b": "2"})
	kept.Exists("x", "a", "1")
	kept.Exists("x", "other", "9")
	kept.Gone("x", "other")
	kept.Listed("x", map[string]types.UID{"a": "1", "b": "2", "other": "9"})
	if violations := kept.Violations(); len(violations) > 0 {
		t.Errorf("unexpected %v", violations)
	}
	kept.Exists("x", "a", "3")
	kept.Gone("y", "b")
	kept.Listed("z", map[string]types.UID{"a": "1"})
	want := []string{"x: a had UID 1, has 3", "y: b disappeared", "z: b is not listed"}
	if violations := kept.Violations(); !slices.Equal(violations, want) {
		t.Errorf("got %v, want %v", violations, want)
	}
}
