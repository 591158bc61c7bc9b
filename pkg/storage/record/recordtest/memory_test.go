// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package recordtest

import (
	"context"
	"errors"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

func TestStoreInMemory(t *testing.T) {
	TestStore(t, func(*testing.T) record.Store { return New() })
}

func TestHooksFailCallsBeforeOrAfterTheirEffect(t *testing.T) {
	store := New()
	failure := errors.New("failure")
	fail := func(_ context.Context, call Call) error {
		if call == (Call{"Update", "a"}) {
			return failure
		}
		return nil
	}
	store.Before(fail)
	if _, _, err := store.Update(t.Context(), "a", set([]byte("1"))); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	expectDocuments(t, store, map[string][]byte{})
	store.Before(nil)
	store.After(fail)
	if _, _, err := store.Update(t.Context(), "a", set([]byte("1"))); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	expectDocuments(t, store, map[string][]byte{"a": []byte("1")})
}

func TestBrokenWatchReturnsAnError(t *testing.T) {
	store := New()
	update(t, store, "a", []byte("1"))
	err := store.Watch(t.Context(), "0", func(string, []byte, string) { store.BreakWatches() })
	if err == nil {
		t.Error("a broken watch returned nil")
	}
}
