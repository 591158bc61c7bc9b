// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expect is what tests of different components ask in the same way.
package expect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Patience is how long a condition may take to become true. It is long,
// because it only matters when something is broken.
const Patience = 2 * time.Minute

// NoError ends the test on an error.
func NoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns the value of a call that must succeed, as in
// expect.Must(os.ReadFile(name))(t). An error ends the test.
func Must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// Contains fails for every part that is not in the text.
func Contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// Lacks fails for every part that is in the text.
func Lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q must not be in:\n%s", part, text)
		}
	}
}

// Eventually waits until a check passes, and fails with its last error if it never does.
func Eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil || last == nil {
			last = err // that time is up says less than what was wrong before
		}
		return err == nil, nil
	}); err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// Manifest writes a file for kubectl.
func Manifest(t *testing.T, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
