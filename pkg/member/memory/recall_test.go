// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// R169: a document that is missing, because it was deleted or not restored, is as unknown
// as one that cannot be read.
func TestMemberWithAMissingDocumentIsIncomplete(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	w.record("b", many(200)...)
	w.flush()
	documents, _, err := store.List(t.Context())
	membertest.Must(t, err)
	for name, data := range documents {
		if !strings.HasPrefix(name, servicesName) {
			continue
		}
		put := func(data []byte) {
			_, _, err := store.Update(t.Context(), name, func([]byte) ([]byte, error) { return data, nil })
			membertest.Must(t, err)
		}
		put(nil)
		if got := recalled(t, store)["b"]; !got.Incomplete || got.UID != "uid-b" || len(got.Services) == 200 {
			t.Errorf("without %s, %d of 200 Services are recalled; incomplete: %t", name, len(got.Services), got.Incomplete)
		}
		put(data)
	}
	if got := recalled(t, store)["b"]; got.Incomplete || len(got.Services) != 200 {
		t.Errorf("%d of 200 Services are recalled; incomplete: %t", len(got.Services), got.Incomplete)
	}
}

// The list of documents is up to date, whatever changes, and written only if it changes.
func TestMemberWithAllDocumentsIsComplete(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.heard("b")
	all := many(100)
	for _, change := range []struct {
		add, remove []string
		writes      int
	}{
		{writes: 1},
		{add: all[:1], writes: 2},
		{add: all[1:50], writes: 1},
		{add: all[50:], writes: 4}, // divided in two
		{remove: all[:1], writes: 1},
		{remove: all[1:], writes: 3},
		{add: all[:1], writes: 2},
	} {
		before := store.Version()
		w.record("b", change.add...)
		for _, name := range change.remove {
			ref, _ := service(t, "b", name)
			w.Record(0, "b", "uid-b", ref, nil)
		}
		w.flush()
		if got := store.Version() - before; got != change.writes {
			t.Errorf("%d added, %d removed: %d writes, want %d", len(change.add), len(change.remove), got, change.writes)
		}
		if recalled(t, store)["b"].Incomplete {
			t.Errorf("%d added, %d removed: it counts as incomplete", len(change.add), len(change.remove))
		}
	}
}

// R169: if a server ends before Services could be written, the member is incomplete,
// whether its contact was written or not.
func TestMemberThatWasNotWrittenCompletelyIsIncomplete(t *testing.T) {
	store := recordtest.New()
	w := newWriter(t, store)
	w.record("b", many(200)...)
	w.heard("b")
	failed := false
	store.Before(func(_ context.Context, call recordtest.Call) error {
		if failed || call.Method != "Update" || !strings.HasPrefix(call.Name, servicesName) {
			return nil
		}
		failed = true
		return errors.New("not now")
	})
	for written := 0; ; written++ {
		w.mu.Lock()
		next, _, ok := w.writing.next(w.clock.Now().Add(maxRetryDelay), w.restLocked)
		w.mu.Unlock()
		if !ok {
			break
		}
		w.try(t.Context(), next)
		if got := recalled(t, store)["b"]; len(got.Services) != 200 && !got.Incomplete && got.UID != "" {
			t.Errorf("after %d attempts, %d of 200 Services are recalled, and it counts as complete", written, len(got.Services))
		}
	}
	if got := recalled(t, store)["b"]; !failed || len(got.Services) != 200 || got.Incomplete {
		t.Errorf("in the end, %d of 200 Services are recalled; incomplete: %t", len(got.Services), got.Incomplete)
	}
}
