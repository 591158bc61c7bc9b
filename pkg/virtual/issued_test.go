// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestIssuedVersionsContainsRecentVersionsOnly(t *testing.T) {
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
		young := now.Sub(IssuedAt(version)) <= rememberedAge
		if issued.contains(version, now) != young {
			t.Fatalf("a version that is %s old: contained is %v", now.Sub(IssuedAt(version)), !young)
		}
		if issued.contains(version+1, now) || issued.contains(version-1, now) {
			t.Fatal("a version that was never issued is contained")
		}
	}
	if issued.contains(versions.Next(), now) {
		t.Error("a version of another store is contained")
	}
}

func TestIssuedVersionsExpireWithoutNewVersions(t *testing.T) {
	versions := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch))
	var issued issuedVersions
	version := versions.Next()
	issued.add(version)
	if !issued.contains(version, testEpoch.Add(rememberedAge)) {
		t.Error("the version expired too early")
	}
	if issued.contains(version, testEpoch.Add(rememberedAge+time.Millisecond)) {
		t.Error("the version did not expire")
	}
}

func TestIssuedVersionsMemoryIsBounded(t *testing.T) {
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
				t.Errorf("capacity is %d versions, want at most three times %d", largest, test.remember)
			}
		})
	}
}
