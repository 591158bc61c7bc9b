// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// R375: when a cluster that a hub relays was last seen does not depend on the clock of the hub,
// nor on which replica of the hub responds.
func TestClockOfAHubDoesNotMatter(t *testing.T) {
	type event struct {
		now, said time.Duration
		connected bool
		uid       types.UID
	}
	for _, test := range []struct {
		name   string
		events []event
		want   time.Duration
	}{
		{"connected, clock behind", []event{{time.Hour, 0, true, "x"}}, time.Hour},
		{"silent since, clock behind", []event{{time.Hour, 0, true, "x"}, {time.Hour + 1, 0, false, "x"}}, time.Hour},
		{"silent since, clock ahead", []event{{time.Hour, 2 * time.Hour, true, "x"}, {time.Hour + 1, 2 * time.Hour, false, "x"}}, time.Hour},
		{"seen again meanwhile", []event{{time.Hour, 0, true, "x"}, {2 * time.Hour, minStep, false, "x"}}, 2 * time.Hour},
		{"another replica", []event{{time.Hour, 0, true, "x"}, {2 * time.Hour, minStep - 1, false, "x"}, {3 * time.Hour, 0, false, "x"}}, time.Hour},
		{"not known before", []event{{time.Hour, time.Minute, false, "x"}}, time.Minute},
		{"not known before, clock ahead", []event{{time.Hour, 2 * time.Hour, false, "x"}}, time.Hour},
		{"clock ahead until it was set", []event{{0, 2 * time.Hour, true, "x"}, {1, 0, true, "x"}, {time.Hour, time.Hour, false, "x"}}, time.Hour},
		{"another cluster", []event{{time.Hour, 0, true, "x"}, {2 * time.Hour, time.Minute, false, "y"}}, time.Minute},
	} {
		var relayed Relayed
		for _, event := range test.events {
			relayed = relayed.Observe(event.uid, epoch.Add(event.said), event.connected, epoch.Add(event.now))
		}
		if got := relayed.Seen.Sub(epoch); got != test.want {
			t.Errorf("%s: seen at %s, want %s", test.name, got, test.want)
		}
	}
	if got := (Relayed{}).Observe("x", time.Time{}, false, epoch); !got.Seen.IsZero() {
		t.Errorf("never seen: %s", got.Seen)
	}
	recalled := Relayed{UID: "x", Seen: epoch}
	if got := recalled.Observe("x", epoch.Add(time.Hour), false, epoch.Add(2*time.Hour)); !got.Seen.Equal(epoch) {
		t.Errorf("silent since before a restart: seen at %s", got.Seen)
	}
}
