// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import "fmt"

const (
	mebibyte = 1 << 20

	// minQuota and maxQuota limit the quota. A ServiceExport takes about 2 KiB.
	// Defragmentation blocks all requests for about a second per 100 MiB, which is why
	// the quota does not follow a large volume.
	minQuota = 32 * mebibyte
	maxQuota = 512 * mebibyte

	// walSegment is the size of a file of the write-ahead log. etcd allocates each in advance.
	walSegment = 64 * mebibyte
	// maxWALFiles are kept of those that are not needed anymore.
	maxWALFiles = 2
	// walSpace is the space for the write-ahead log: what is kept, the next file, and
	// what is written before etcd removes old files, which it does every 30 seconds.
	walSpace = (maxWALFiles + 3) * walSegment
	// databaseGrowth is by how much the database file grows at once.
	databaseGrowth = 16 * mebibyte

	// diskReserve is the free space below which writes are refused. etcd ends the
	// process when it cannot write to the disk. Deletions and their compaction need
	// some space, too.
	diskReserve = walSegment + databaseGrowth
)

// quotaFor returns how large the database on a volume may become. Beside the
// database, the volume must hold the write-ahead log and the copy that
// defragmentation makes.
func quotaFor(volume int64) int64 {
	return min(max((volume-walSpace)/2, minQuota), maxQuota)
}

// startDefragmentation returns how many MiB must be reclaimable for etcd to
// defragment the database when it starts, which is the best moment: nobody waits.
// Zero disables it, because etcd would fail to start if the volume had no room for
// the copy.
func startDefragmentation(database, free int64) uint {
	if free < database+diskReserve {
		return 0
	}
	return databaseGrowth / mebibyte
}

// usage is how much space the embedded etcd takes.
type usage struct {
	// quota limits size, the space of the database, of which inUse is not free.
	// Compaction decreases inUse, and defragmentation decreases size.
	quota, size, inUse int64
	// free is the free space of the volume.
	free int64
	// refusing is true if etcd refuses writes other than deletions, which it does
	// until it is told that there is space again.
	refusing bool
	// compactable is true if there is history that has not been compacted.
	compactable bool
}

// action is what is done about a usage.
type action string

const (
	none       action = "none"
	compact    action = "compact"
	defragment action = "defragment"
	refuse     action = "refuse writes"
	accept     action = "accept writes"
)

// nextAction returns what to do about a usage. An action changes the usage, and the
// usage afterwards decides what follows.
func nextAction(u usage) action {
	switch {
	case u.diskFull() && !u.refusing:
		return refuse
	// The API server compacts every five minutes. That may be too late, and it cannot
	// do so while writes are refused.
	case u.compactable && (u.refusing || u.inUse >= u.quota/2):
		return compact
	// Free space within the database is used again. Reclaiming it matters only when
	// the quota is almost reached.
	case u.fragmented() && u.free >= u.defragmentationSpace():
		return defragment
	case u.refusing && !u.diskFull() && u.size < u.acceptBelow():
		return accept
	}
	return none
}

// acceptBelow is the size below which writes are accepted again.
func (u usage) acceptBelow() int64 { return u.quota / 16 * 14 }

// worthwhile is how much space defragmentation must reclaim: it blocks all requests.
func (u usage) worthwhile() int64 { return u.quota / 16 }

func (u usage) fragmented() bool {
	return u.size >= u.acceptBelow() && u.size-u.inUse >= u.worthwhile()
}

func (u usage) defragmentationSpace() int64 { return u.inUse + databaseGrowth }

// diskFull requires more free space for accepting writes again than for
// accepting more of them.
func (u usage) diskFull() bool {
	if u.refusing {
		return u.free < diskReserve+databaseGrowth
	}
	return u.free < diskReserve
}

// explain returns why writes are refused, and what to do.
func (u usage) explain(dataDir string) string {
	const then = "; writes are accepted again a few seconds later"
	volume := func(required int64) string {
		return fmt.Sprintf("embedded etcd refuses writes because the volume of its data directory %s is full: %s are free and %s are required; free space or enlarge the volume"+then,
			dataDir, mebibytes(u.free), mebibytes(required))
	}
	switch {
	case u.diskFull():
		return volume(diskReserve + databaseGrowth)
	case u.fragmented() && u.free < u.defragmentationSpace():
		return volume(u.defragmentationSpace())
	case nextAction(u) != none:
		return fmt.Sprintf("embedded etcd in %s refuses writes because it reached its quota of %s on this volume; it is being compacted, try again in a few seconds", dataDir, mebibytes(u.quota))
	}
	return fmt.Sprintf("embedded etcd in %s refuses writes because it is full: %s are in use and its quota on this volume is %s; delete ServiceExports until less than %s are in use, or enlarge the volume and restart mcs-apiserver"+then,
		dataDir, mebibytes(u.inUse), mebibytes(u.quota), mebibytes(u.acceptBelow()-u.worthwhile()))
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%d MiB", bytes/mebibyte) }
