// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"strings"
	"testing"
)

func keysOf(changes []change) string {
	var keys []string
	for _, one := range changes {
		value := string(one.Value)
		if one.Value == nil {
			value = "deleted"
		}
		keys = append(keys, string(one.Kind)+" "+one.Key+"="+value)
	}
	return strings.Join(keys, ", ")
}

// R582: a page receives everything there is, then what changes, and of something that changed several
// times the last value.
func TestReadersReceiveTheLastValue(t *testing.T) {
	s := newStore()
	s.set(serviceEntry, "shop/web", 1)
	s.set(clusterEntry, "west", 1)
	s.set(viewEntry, "east", 1)
	reader, other := s.subscribe(), s.subscribe()
	if got := keysOf(s.take(reader)); got != "view east=1, cluster west=1, service shop/web=1" {
		t.Errorf("at first, got %s", got)
	}
	s.set(serviceEntry, "shop/web", 1)
	if len(reader.changed) != 0 || len(s.take(reader)) != 0 {
		t.Error("nothing changed, but the reader was told")
	}
	for i := range 1000 {
		s.set(serviceEntry, "shop/web", i)
	}
	s.set(serviceEntry, "shop/db", 1)
	s.delete(serviceEntry, "shop/db")
	s.delete(clusterEntry, "west")
	s.delete(clusterEntry, "unknown")
	if len(reader.changed) != 1 {
		t.Error("the reader was not told")
	}
	if got := keysOf(s.take(reader)); got != "cluster west=deleted, service shop/db=deleted, service shop/web=999" {
		t.Errorf("then, got %s", got)
	}
	if got := keysOf(s.take(other)); got != "view east=1, cluster west=deleted, service shop/db=deleted, service shop/web=999" {
		t.Errorf("another one that was slow got %s", got)
	}
	s.unsubscribe(reader)
	s.set(viewEntry, "east", 2)
	if len(s.take(reader)) != 0 || len(s.take(other)) != 1 {
		t.Error("a page that was closed is told about changes, or others are not")
	}
}

// R585: there are at most so many pages.
func TestReadersAreLimited(t *testing.T) {
	s := newStore()
	var last *reader
	for range maxReaders {
		if last = s.subscribe(); last == nil {
			t.Fatal("a page was refused")
		}
	}
	if s.subscribe() != nil {
		t.Error("one more was accepted")
	}
	s.unsubscribe(last)
	if s.subscribe() == nil {
		t.Error("a page was refused after another one was closed")
	}
}
