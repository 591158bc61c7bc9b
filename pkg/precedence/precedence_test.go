// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package precedence

import (
	"testing"
	"time"
)

func TestOldestTakesPrecedenceThenFirstCreatedThenLowestClusterID(t *testing.T) {
	early := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	late := early.Add(time.Second)
	for _, test := range []struct {
		name string
		a, b Rank
		want int
	}{
		{"older", Rank{early, late, "b"}, Rank{late, early, "a"}, -1},
		{"newer", Rank{late, early, "a"}, Rank{early, late, "b"}, 1},
		{"same age, created earlier", Rank{late, early, "b"}, Rank{late, late, "a"}, -1},
		{"same age, created later", Rank{late, late, "a"}, Rank{late, early, "b"}, 1},
		{"same age, lower cluster ID", Rank{early, early, "a"}, Rank{early, early, "b"}, -1},
		{"same age, higher cluster ID", Rank{early, early, "b"}, Rank{early, early, "a"}, 1},
		{"equal", Rank{early, early, "a"}, Rank{early, early, "a"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Compare(test.a, test.b); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
