// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

// TestStore runs the tests that every record.Store must pass. newStore returns an
// empty store.
func TestStore(t *testing.T, newStore func(t *testing.T) record.Store) {
	t.Run("documents are created, replaced and deleted", func(t *testing.T) { testUpdates(t, newStore(t)) })
	t.Run("an update without a change writes nothing", func(t *testing.T) { testUnchanged(t, newStore(t)) })
	t.Run("concurrent updates are all applied", func(t *testing.T) { testConcurrentUpdates(t, newStore(t)) })
	t.Run("a failed update changes nothing", func(t *testing.T) { testFailedUpdate(t, newStore(t)) })
	t.Run("documents up to the limit are accepted", func(t *testing.T) { testLimit(t, newStore(t)) })
	t.Run("changes after a version are observed in order", func(t *testing.T) { testWatch(t, newStore(t)) })
}

// set returns an update to these bytes.
func set(data []byte) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return data, nil }
}

func update(t *testing.T, store record.Store, name string, data []byte) (version string) {
	t.Helper()
	stored, version, err := store.Update(t.Context(), name, set(data))
	if err != nil || !bytes.Equal(stored, data) || (stored == nil) != (data == nil) {
		t.Fatalf("update %s: got %q, %v, want %q", name, stored, err, data)
	}
	return version
}

func expectDocuments(t *testing.T, store record.Store, want map[string][]byte) (version string) {
	t.Helper()
	got, version, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents differ (-want +got):\n%s", diff)
	}
	return version
}

func testUpdates(t *testing.T, store record.Store) {
	expectDocuments(t, store, map[string][]byte{})
	update(t, store, "a", []byte("1"))
	update(t, store, "b.example.com", []byte{0, 255})
	update(t, store, "empty", []byte{})
	expectDocuments(t, store, map[string][]byte{"a": []byte("1"), "b.example.com": {0, 255}, "empty": {}})
	stored, _, err := store.Update(t.Context(), "a", func(current []byte) ([]byte, error) { return append(current, '2'), nil })
	if err != nil || string(stored) != "12" {
		t.Errorf("got %q, %v", stored, err)
	}
	update(t, store, "b.example.com", nil)
	expectDocuments(t, store, map[string][]byte{"a": []byte("12"), "empty": {}})
	_, _, err = store.Update(t.Context(), "b.example.com", func(current []byte) ([]byte, error) {
		if current != nil {
			t.Errorf("current document is %q after its deletion", current)
		}
		return []byte("again"), nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testUnchanged(t *testing.T, store record.Store) {
	version := update(t, store, "a", []byte("1"))
	if again := update(t, store, "a", []byte("1")); again != version {
		t.Errorf("the same bytes were written again as version %s of %s", again, version)
	}
	if absent := update(t, store, "absent", nil); absent != "" {
		t.Errorf("deleting an absent document made version %s", absent)
	}
}

func testConcurrentUpdates(t *testing.T, store record.Store) {
	const writers, increments = 4, 25
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range increments {
				_, _, err := store.Update(t.Context(), "counter", func(current []byte) ([]byte, error) {
					count, _ := strconv.Atoi(string(current))
					return []byte(strconv.Itoa(count + 1)), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	expectDocuments(t, store, map[string][]byte{"counter": []byte(strconv.Itoa(writers * increments))})
}

func testFailedUpdate(t *testing.T, store record.Store) {
	update(t, store, "a", []byte("1"))
	failure := errors.New("not now")
	if _, _, err := store.Update(t.Context(), "a", func([]byte) ([]byte, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("got %v, want the error of the update", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := store.Update(ended, "a", set([]byte("2"))); err == nil {
		t.Error("an update succeeded although its context has ended")
	}
	expectDocuments(t, store, map[string][]byte{"a": []byte("1")})
}

func testLimit(t *testing.T, store record.Store) {
	update(t, store, "large", bytes.Repeat([]byte{0xff}, record.MaxBytes))
	_, _, err := store.Update(t.Context(), "too-large", set(make([]byte, record.MaxBytes+1)))
	if err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("got %v, want an error about the limit", err)
	}
}

// change is a change that a watch observed.
type change struct {
	Name, Data, Version string
	Deleted             bool
}

func testWatch(t *testing.T, store record.Store) {
	update(t, store, "a", []byte("1"))
	from := expectDocuments(t, store, map[string][]byte{"a": []byte("1")})

	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan change), make(chan error, 1)
	go func() {
		ended <- store.Watch(ctx, from, func(name string, data []byte, version string) {
			select {
			case changes <- change{name, string(data), version, data == nil}:
			case <-ctx.Done():
			}
		})
	}()
	want := []change{
		{Name: "b", Data: "1", Version: update(t, store, "b", []byte("1"))},
		{Name: "a", Data: "2", Version: update(t, store, "a", []byte("2"))},
		{Name: "b", Data: "", Version: update(t, store, "b", []byte{})},
		{Name: "a", Deleted: true, Version: update(t, store, "a", nil)},
	}
	for _, want := range want {
		select {
		case got := <-changes:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("observed changes differ (-want +got):\n%s", diff)
			}
		case err := <-ended:
			t.Fatalf("the watch ended: %v", err)
		case <-time.After(30 * time.Second):
			t.Fatalf("change %+v was not observed", want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the watch returned %v when its context ended", err)
	}
}
