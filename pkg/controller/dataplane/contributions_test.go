// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R493: a derived Service is written because of the members that changed what they export
// since it was last written, whatever others do meanwhile.
func TestCausesAreTheMembersThatChanged(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	known := newContributions(clock)
	const long = 2 * changeVisible
	for _, step := range []struct {
		name     string
		passed   time.Duration
		exported string // member=version
		causes   string
		wait     time.Duration
		written  bool
	}{
		{"a new Service", 0, "east=1", "east", 0, true},
		{"a change of this cluster", long, "east=1", "east", 0, true},
		{"another member exports it, too", long, "east=1 west=1", "west", 0, false},
		{"both change it", time.Second, "east=2 west=2", "east west", 0, true},
		{"it changes for no reason", long, "east=2 west=2", nobody, causeDelay, false},
		{"still for no reason", causeDelay - time.Millisecond, "east=2 west=2", nobody, time.Millisecond, false},
		{"the export arrives later", 0, "east=2 west=3", "west", 0, true},
		{"the import arrives later than the Service is written", changeVisible - time.Millisecond, "east=2 west=3", "west", 0, true},
		{"it changes for no reason again", long, "east=2 west=3", nobody, causeDelay, false},
		{"nobody says why", causeDelay, "east=2 west=3", nobody, 0, true},
		{"a member withdraws it", long, "east=2", "west", 0, true},
		{"and exports it again later", long, "east=2 west=3", "west", 0, true},
		{"and withdraws it after a change", time.Second, "east=2", "west", 0, true},
		{"a change of the only one that is left", long, "east=2", "east", 0, true},
		{"nobody exports it", long, "", "east", 0, true},
	} {
		clock.SetTime(clock.Now().Add(step.passed))
		versions := map[string]string{}
		for _, text := range strings.Fields(step.exported) {
			member, version, _ := strings.Cut(text, "=")
			versions[member] = version
		}
		known.observe(web, versions)
		causes, wait := known.causes(web)
		slices.Sort(causes)
		if got := strings.Join(causes, " "); got != step.causes || wait != step.wait {
			t.Errorf("%s: causes %q and wait %s, want %q and %s", step.name, got, wait, step.causes, step.wait)
		}
		if step.written {
			known.written(web)
		}
	}
	known.forget(web)
	if len(known.held) > 0 {
		t.Error("contributions are kept")
	}
}

// R493: derived Services that several members export take turns of their own in the queue, so
// that none uses those of another. A hub and the clusters that it relays are one member.
func TestSharedDerivedServicesHaveTurnsOfTheirOwn(t *testing.T) {
	for name, test := range map[string]struct {
		exporters []string
		want      string
	}{
		"one":                {[]string{"west"}, "west"},
		"several":            {[]string{"east", "west"}, sharedServices},
		"a hub and a relay":  {[]string{"west", "behind"}, "west"},
		"with other members": {[]string{"behind", "east"}, sharedServices},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hold(t, "member", &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "behind"}, Status: clustersetv1alpha1.MemberStatus{Path: []string{"behind", "west"}}})
			for _, cluster := range test.exporters {
				w.export(t, exportedBy(cluster, ready("10.1.0.1")))
			}
			if got := w.source(ofService(web)); got != test.want {
				t.Errorf("source of the derived Service is %q, want %q", got, test.want)
			}
			if got := w.source(key{web, "behind"}); got != "west" {
				t.Errorf("source of EndpointSlices is %q", got)
			}
		})
	}
}
