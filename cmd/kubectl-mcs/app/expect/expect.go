// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expect compares what commands print and return with what tests expect.
package expect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Text fails the test if a text is another than expected. A newline at the
// beginning of what is expected does not count.
func Text(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("- want, + got:\n%s\nall of it:\n%s", diff, got)
	}
}

// Error fails the test unless there is an error that contains these texts.
func Error(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want %q in it", err, text)
		}
	}
}
