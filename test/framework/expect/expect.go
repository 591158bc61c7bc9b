// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expect has the assertions that tests of different components share.
package expect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Patience is how long a check may take to pass. It is long, since it matters
// only when something is broken.
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

// Contains reports an error for every part that the text does not contain.
func Contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// Lacks reports an error for every part that the text contains.
func Lacks(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("unexpected %q in:\n%s", part, text)
		}
	}
}

// Eventually waits until a check passes, and fails with its last error if it
// does not within Patience.
func Eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	eventually(t.Context(), t, Patience, what, check)
}

// Within is Eventually for what must not take longer than a limit.
func Within(t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	eventually(t.Context(), t, limit, what, check)
}

// EventuallyAfterTest is Eventually for functions of t.Cleanup, where the
// context of the test has ended.
func EventuallyAfterTest(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	eventually(context.Background(), t, Patience, what, check)
}

func eventually(ctx context.Context, t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := time.Now()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err // an expired deadline tells less than the error before it
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, last)
		case <-time.After(pause(time.Since(begun))):
		}
	}
}

// pause returns how long to wait for the next check. What has taken long may take a little
// longer: checks cost time that the components under test need.
func pause(elapsed time.Duration) time.Duration {
	return min(max(elapsed/20, 50*time.Millisecond), 500*time.Millisecond)
}

// Manifest writes a manifest for kubectl and returns its file name.
func Manifest(t *testing.T, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
