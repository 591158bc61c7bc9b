// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/wal"
)

// R170: the database, the copy that defragmentation makes, and the write-ahead log
// fit on the volume.
func TestQuotaFollowsTheVolume(t *testing.T) {
	for volume, want := range map[int64]int64{
		0:               minQuota,
		256 * mebibyte:  minQuota,
		512 * mebibyte:  96 * mebibyte,
		1024 * mebibyte: 352 * mebibyte,
		2048 * mebibyte: maxQuota,
		1 << 40:         maxQuota,
	} {
		if got := quotaFor(volume); got != want {
			t.Errorf("volume of %s: quota is %s, want %s", mebibytes(volume), mebibytes(got), mebibytes(want))
		}
	}
	if wal.SegmentSizeBytes > walSegment {
		t.Errorf("etcd uses segments of %d bytes, more than the expected %d", wal.SegmentSizeBytes, walSegment)
	}
}

func TestDatabaseIsDefragmentedAtStartOnlyIfTheCopyFits(t *testing.T) {
	const database = 200 * mebibyte
	if got := startDefragmentation(database, database+diskReserve); got == 0 {
		t.Error("disabled although the copy fits")
	}
	if got := startDefragmentation(database, database); got != 0 {
		t.Error("enabled although the copy does not fit")
	}
}

func TestNextAction(t *testing.T) {
	const quota = 160 * mebibyte
	plenty := usage{quota: quota, size: 10 * mebibyte, inUse: 5 * mebibyte, free: 1024 * mebibyte}
	for name, test := range map[string]struct {
		change func(*usage)
		want   action
	}{
		"plenty of space": {func(*usage) {}, none},
		"history that is compacted every five minutes": {func(u *usage) { u.compactable = true }, none},
		"free space in a small database":               {func(u *usage) { u.size, u.inUse = quota/2, 0 }, none},
		"history in a database that is half full":      {func(u *usage) { u.size, u.inUse, u.compactable = quota, quota/2, true }, compact},
		"almost full":                                            {func(u *usage) { u.size, u.inUse = quota, quota }, none},
		"free space in an almost full database":                  {func(u *usage) { u.size, u.inUse = quota*7/8, quota/2 }, defragment},
		"free space that is not worthwhile":                      {func(u *usage) { u.size, u.inUse = quota, quota*61/64 }, none},
		"free space without space for the copy":                  {func(u *usage) { u.size, u.inUse, u.free = quota, quota/2, diskReserve }, none},
		"history when writes are refused":                        {func(u *usage) { u.refusing, u.compactable = true, true }, compact},
		"full":                                                   {func(u *usage) { u.refusing, u.size, u.inUse = true, quota, quota*15/16+1 }, none},
		"full, and then deleted":                                 {func(u *usage) { u.refusing, u.size, u.inUse = true, quota, quota/2 }, defragment},
		"full, and then defragmented":                            {func(u *usage) { u.refusing, u.size, u.inUse = true, quota/2, quota/2 }, accept},
		"full, and then as much deleted as the message asks for": {func(u *usage) { u.refusing, u.size, u.inUse = true, quota*7/8, quota*13/16 }, defragment},
		"disk almost full":                                       {func(u *usage) { u.free = diskReserve - 1 }, refuse},
		"disk full":                                              {func(u *usage) { u.free, u.refusing = 0, true }, none},
		"history when the disk is full":                          {func(u *usage) { u.free, u.refusing, u.compactable = 0, true, true }, compact},
		"disk still almost full":                                 {func(u *usage) { u.free, u.refusing = diskReserve, true }, none},
		"disk no longer full":                                    {func(u *usage) { u.free, u.refusing = diskReserve+databaseGrowth, true }, accept},
	} {
		u := plenty
		test.change(&u)
		if got := nextAction(u); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// R171: a refusal says what is full, how large it is, and what to do.
func TestFullStorageIsExplained(t *testing.T) {
	const quota = 160 * mebibyte
	for name, test := range map[string]struct {
		usage usage
		want  []string
	}{
		"database": {usage{quota: quota, size: quota, inUse: quota, free: 1024 * mebibyte, refusing: true}, []string{"/data", "160 MiB are in use", "quota on this volume is 160 MiB", "delete ServiceExports until less than 130 MiB"}},
		"history":  {usage{quota: quota, size: quota, inUse: quota, free: 1024 * mebibyte, refusing: true, compactable: true}, []string{"/data", "quota of 160 MiB", "try again in a few seconds"}},
		"disk":     {usage{quota: quota, free: 3 * mebibyte, refusing: true}, []string{"/data", "3 MiB are free", "96 MiB are required", "enlarge the volume"}},
		"no space for defragmentation": {usage{quota: quota, size: quota, inUse: 100 * mebibyte, free: 100 * mebibyte, refusing: true},
			[]string{"100 MiB are free", "116 MiB are required", "free space"}},
	} {
		for _, want := range test.want {
			if got := test.usage.explain("/data"); !strings.Contains(got, want) {
				t.Errorf("%s: %q does not contain %q", name, got, want)
			}
		}
	}
}
