// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exitcode

import (
	"errors"
	"fmt"
	"testing"
)

func TestExitCode(t *testing.T) {
	err := errors.New("no")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {err, 1}, {Set(nil, 2), 0}, {Set(err, 2), 2}, {fmt.Errorf("wrapped: %w", Set(err, 2)), 2},
	} {
		if got := Of(test.err); got != test.want {
			t.Errorf("%v: got %d, want %d", test.err, got, test.want)
		}
	}
	if coded := Set(err, 2); coded.Error() != "no" || !errors.Is(coded, err) {
		t.Errorf("got %v", coded)
	}
}
