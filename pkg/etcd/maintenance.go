// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

const (
	// maintenanceInterval is how often the usage is read, which costs next to nothing.
	maintenanceInterval = time.Second
	// maintenanceRetry is when a failed action is tried again.
	maintenanceRetry = 10 * time.Second
)

// maintenance keeps the embedded etcd within its space.
type maintenance struct {
	server  *etcdserver.EtcdServer
	dataDir string
	quota   int64
	// reported is true if it was logged that the storage is full.
	reported bool
}

// run maintains etcd until the context ends.
func (m *maintenance) run(ctx context.Context) {
	for {
		wait := maintenanceInterval
		if err := m.maintain(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to maintain embedded etcd, retrying", "dataDir", m.dataDir, "after", maintenanceRetry)
			wait = maintenanceRetry
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// maintain does at most one thing.
func (m *maintenance) maintain(ctx context.Context) error {
	before, err := m.usage()
	if err == nil && before.refusing && !before.diskFull() {
		m.commit()
		before, err = m.usage()
	}
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("dataDir", m.dataDir)
	next := nextAction(before)
	m.report(logger, before, next)
	if next == none {
		return nil
	}
	start := time.Now()
	if err := m.do(ctx, next); err != nil {
		return fmt.Errorf("%s: %w", next, err)
	}
	after, err := m.usage()
	if err != nil {
		return err
	}
	if next == compact { // routine in a database that is half full
		logger = logger.V(2)
	}
	logger.Info("Maintained embedded etcd", "action", next, "took", time.Since(start), "quota", mebibytes(m.quota),
		"sizeBefore", mebibytes(before.size), "inUseBefore", mebibytes(before.inUse), "size", mebibytes(after.size), "inUse", mebibytes(after.inUse), "free", mebibytes(after.free))
	return nil
}

// report logs, once, that writes are refused and that there is nothing to do about it here.
func (m *maintenance) report(logger klog.Logger, u usage, next action) {
	full := u.refusing && next == none
	if full && !m.reported {
		logger.Error(nil, "Storage is full", "reason", u.explain(m.dataDir))
	}
	m.reported = full || m.reported && u.refusing
}

// commit makes etcd count again what is in use. Pages that were still read when their
// keys were compacted are freed by a later commit, and while writes are refused there may
// be none. It commits a value that does not change.
func (m *maintenance) commit() {
	tx := m.server.Backend().BatchTx()
	tx.LockOutsideApply()
	if _, values := tx.UnsafeRange(schema.Meta, schema.MetaTermKeyName, nil, 0); len(values) == 1 {
		tx.UnsafePut(schema.Meta, schema.MetaTermKeyName, values[0])
	}
	tx.Unlock()
	m.server.Backend().ForceCommit()
}

func (m *maintenance) usage() (usage, error) {
	volume, err := volumeOf(m.dataDir)
	if err != nil {
		return usage{}, err
	}
	u := usage{
		quota: m.quota, size: m.server.Backend().Size(), inUse: m.server.Backend().SizeInUse(), free: volume.free,
		compactable: m.server.KV().Rev() > max(m.server.KV().FirstRev(), 1),
		refusing:    m.refusing(),
	}
	return u, nil
}

// refusing reports whether etcd refuses writes other than deletions.
func (m *maintenance) refusing() bool {
	return slices.ContainsFunc(m.server.Alarms(), func(alarm *etcdserverpb.AlarmMember) bool {
		return alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
	})
}

func (m *maintenance) do(ctx context.Context, next action) error {
	switch next {
	case compact:
		// Readers of history, such as watches, start anew. Those of this server are up to date.
		_, err := m.server.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: m.server.KV().Rev(), Physical: true})
		return err
	case defragment:
		return m.server.Backend().Defrag()
	case refuse:
		return m.alarm(ctx, etcdserverpb.AlarmRequest_ACTIVATE)
	case accept:
		return m.alarm(ctx, etcdserverpb.AlarmRequest_DEACTIVATE)
	case none:
	}
	return nil
}

func (m *maintenance) alarm(ctx context.Context, action etcdserverpb.AlarmRequest_AlarmAction) error {
	_, err := m.server.Alarm(ctx, &etcdserverpb.AlarmRequest{
		MemberID: uint64(m.server.MemberID()), Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE,
	})
	return err
}

// volume describes a file system.
type volume struct{ size, free int64 }

// volumeOf returns the volume that holds a directory.
func volumeOf(dir string) (volume, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return volume{}, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return volume{size: int64(stat.Blocks) * stat.Bsize, free: int64(stat.Bavail) * stat.Bsize}, nil //nolint:gosec // no volume has 2^63 bytes
}
