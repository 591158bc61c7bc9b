// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestLedgerKnowsExactlyWhatWasIssuedLately(t *testing.T) {
	wall := clocktesting.NewFakePassiveClock(testEpoch)
	versions := NewVersionSource(wall)
	var issued issuedVersions
	var all []uint64
	for range 1000 {
		version := versions.Next()
		issued.add(version)
		all = append(all, version)
		wall.SetTime(wall.Now().Add(time.Second))
	}
	now := wall.Now()
	for _, version := range all {
		young := now.Sub(issuedAt(version)) <= rememberedAge
		if issued.contains(version, now) != young {
			t.Fatalf("a version %s old: known is %v", now.Sub(issuedAt(version)), !young)
		}
		if issued.contains(version+1, now) || issued.contains(version-1, now) {
			t.Fatal("a version is known that was never issued")
		}
	}
	if issued.contains(versions.Next(), now) {
		t.Error("a version is known that another store got")
	}
}

func TestLedgerForgetsAlsoWhenNothingIsIssued(t *testing.T) {
	versions := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch))
	var issued issuedVersions
	version := versions.Next()
	issued.add(version)
	if !issued.contains(version, testEpoch.Add(rememberedAge)) {
		t.Error("forgotten too early")
	}
	if issued.contains(version, testEpoch.Add(rememberedAge+time.Millisecond)) {
		t.Error("still known after its time")
	}
}

func TestLedgerStaysBelowThreeTimesWhatItRemembers(t *testing.T) {
	for name, test := range map[string]struct {
		every    time.Duration
		remember int
	}{
		"quiet": {time.Second, 300},
		"busy":  {50 * time.Millisecond, 6_000},
		"storm": {time.Microsecond, rememberedCount},
	} {
		t.Run(name, func(t *testing.T) {
			wall := clocktesting.NewFakePassiveClock(testEpoch)
			versions := NewVersionSource(wall)
			var issued issuedVersions
			largest := 0
			for i := range 5 * test.remember {
				issued.add(versions.Next())
				largest = max(largest, cap(issued.versions))
				wall.SetTime(testEpoch.Add(time.Duration(i) * test.every))
			}
			if largest > 3*test.remember {
				t.Errorf("had room for %d versions and should remember %d", largest, test.remember)
			}
		})
	}
}
