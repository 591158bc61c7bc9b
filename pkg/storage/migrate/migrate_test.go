// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var errInterrupted = errors.New("interrupted")

// interruption fails all calls after a number of them.
type interruption struct {
	mu   sync.Mutex
	left int
}

func (i *interruption) check() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.left == 0 {
		return errInterrupted
	}
	i.left--
	return nil
}

// memory is storage in memory.
type memory struct {
	*interruption
	mu     sync.Mutex
	marker *marker.Marker
	items  map[string]string
}

// Get implements marker.Place.
func (m *memory) Get(context.Context) (*marker.Marker, error) { return m.marker, nil }

// Put implements marker.Place.
func (m *memory) put(existing *marker.Marker, wanted marker.Marker) error {
	if (existing == nil) != (m.marker == nil) || existing != nil && *existing != *m.marker {
		return fmt.Errorf("marker is %+v, not %+v", m.marker, existing)
	}
	m.marker = &wanted
	return m.check() // after it was written, as when a response is lost
}

type memoryMarker struct{ *memory }

func (m memoryMarker) Put(_ context.Context, existing *marker.Marker, wanted marker.Marker) error {
	return m.put(existing, wanted)
}

// List implements Collection.
func (m *memory) List(context.Context) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := map[string][]byte{}
	for key, text := range m.items {
		items[key] = []byte(text)
	}
	return items, m.check()
}

// Put implements Collection.
func (m *memory) Put(_ context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[key] = string(data)
	return m.check()
}

// Delete implements Collection.
func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.items, key)
	return m.check()
}

func (m *memory) storage(name string) Storage {
	return Storage{
		Name: name, Backend: memoryBackend{m}, Collections: map[string]Collection{"items": m},
	}
}

type memoryBackend struct{ *memory }

func (m memoryBackend) Prepare(context.Context) error       { return nil }
func (m memoryBackend) Marker() marker.Place                { return memoryMarker(m) }
func (m memoryBackend) Empty(context.Context) (bool, error) { return len(m.items) == 0, nil }
func (m memoryBackend) Open(context.Context) error          { return m.check() }

const clusterUID = "cluster"

// served reports whether a server uses the storage.
func (m *memory) served(copied *marker.Marker) bool {
	if m.marker == nil {
		return false
	}
	_, err := marker.Evaluate(marker.Observed{Stored: m.marker, Copy: copied, ClusterUID: clusterUID}, "", false)
	return err == nil
}

// R175, R176: a move that is interrupted anywhere is resumed; meanwhile, no storage is
// served but the one that is complete.
func TestMoveIsInterruptedAnywhere(t *testing.T) {
	for interrupted := 0; ; interrupted++ {
		limit := &interruption{left: interrupted}
		copied := &marker.Marker{StorageID: "id", ClusterUID: clusterUID}
		source := &memory{interruption: limit, marker: copied, items: map[string]string{}}
		for i := range 20 {
			source.items[fmt.Sprint(i)] = "data"
		}
		target := &memory{interruption: limit, items: map[string]string{}}
		move := Move{
			Source: source.storage("source"), Target: target.storage("target"),
			Copy: memoryMarker{&memory{marker: copied}}, ClusterUID: clusterUID, Progress: func(string) {},
		}
		first := move.Run(t.Context())
		if target.served(copied) && (source.served(copied) || !maps.Equal(source.items, target.items)) {
			t.Fatalf("interrupted after %d calls: source is %+v, target is %+v with %d of %d items", interrupted, source.marker, target.marker, len(target.items), len(source.items))
		}
		// A server that was still running has written to the source.
		if source.served(copied) {
			delete(source.items, "0")
			source.items["1"], source.items["new"] = "changed", "data"
		}
		limit.left = -1
		if err := move.Run(t.Context()); err != nil {
			t.Fatalf("resumed after %d calls: %v", interrupted, err)
		}
		if !maps.Equal(source.items, target.items) || !target.served(copied) || source.served(copied) || target.marker.StorageID != "id" {
			t.Fatalf("resumed after %d calls: source is %+v, target is %+v with %d of %d items", interrupted, source.marker, target.marker, len(target.items), len(source.items))
		}
		if first == nil {
			t.Logf("interrupted at %d places", interrupted)
			return
		}
	}
}

// R177: nothing is written to a target that is in use.
func TestTargetInUseIsNotTouched(t *testing.T) {
	never := &interruption{left: -1}
	source := &memory{interruption: never, marker: &marker.Marker{StorageID: "a", ClusterUID: clusterUID}, items: map[string]string{"a": "1"}}
	target := &memory{interruption: never, marker: &marker.Marker{StorageID: "b", ClusterUID: clusterUID}, items: map[string]string{"b": "2"}}
	move := Move{Source: source.storage("source"), Target: target.storage("target"), Copy: memoryMarker{&memory{}}, ClusterUID: clusterUID, Progress: func(string) {}}
	if err := move.Run(t.Context()); err == nil {
		t.Error("moved into storage that is in use")
	}
	if target.marker.StorageID != "b" || len(target.items) != 1 || source.marker.MovedTo != "" {
		t.Errorf("source is %+v, target is %+v with %v", source.marker, target.marker, target.items)
	}
}
