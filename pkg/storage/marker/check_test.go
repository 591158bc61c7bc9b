// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package marker

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// memoryPlace keeps a marker as an API does, with optimistic locking.
type memoryPlace struct {
	mu     sync.Mutex
	held   *Marker
	writes int
	err    error
}

func (p *memoryPlace) Get(context.Context) (*Marker, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.err
}

func (p *memoryPlace) Put(_ context.Context, existing *Marker, marker Marker) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != existing {
		return errConflict
	}
	p.held = &marker
	p.writes++
	return nil
}

func newCheck(stored, copied Place) Check {
	return Check{
		Stored: stored, Copy: copied, ClusterUID: here,
		Empty:  func(context.Context) (bool, error) { return true, nil },
		Traces: func(context.Context) ([]string, error) { return nil, nil },
	}
}

func TestReplicasThatStartTogetherAgreeOnOneMarker(t *testing.T) {
	stored, copied := &memoryPlace{}, &memoryPlace{}
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			if err := newCheck(stored, copied).Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if stored.held == nil || copied.held == nil || *stored.held != *copied.held || stored.writes != 1 || copied.writes != 1 {
		t.Errorf("stored %+v (%d writes), copy %+v (%d writes)", stored.held, stored.writes, copied.held, copied.writes)
	}
	if err := newCheck(stored, copied).Run(t.Context()); err != nil || stored.writes+copied.writes != 2 {
		t.Errorf("a restart: %v, %d writes", err, stored.writes+copied.writes)
	}
}

func TestNothingIsWrittenToStorageThatIsRefusedOrUnknown(t *testing.T) {
	unknown := errors.New("connection refused")
	for what, check := range map[string]struct {
		stored, copied *memoryPlace
		lost           bool
	}{
		"lost":                {&memoryPlace{}, &memoryPlace{held: &Marker{StorageID: "s1", ClusterUID: here}}, true},
		"storage unreachable": {&memoryPlace{err: unknown}, &memoryPlace{}, false},
		"host unreachable":    {&memoryPlace{}, &memoryPlace{err: unknown}, false},
	} {
		err := newCheck(check.stored, check.copied).Run(t.Context())
		if err == nil || IsLost(err) != check.lost || check.stored.writes+check.copied.writes != 0 {
			t.Errorf("%s: got %v after %d writes", what, err, check.stored.writes+check.copied.writes)
		}
	}
}
