// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expect has assertions on the output and the errors of commands.
package expect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Text asserts that two texts are equal. A newline at the start of the expected
// text is ignored.
func Text(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("unexpected text (-want +got):\n%s\nfull text:\n%s", diff, got)
	}
}

// Error asserts that an error contains these texts.
func Error(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("expected an error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}
