// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

func TestRecorderWritesInTheBackgroundAndBeforeItEnds(t *testing.T) {
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		recorder.Run(ctx)
	}()
	web, api := decodeObject(t, membertest.ExportedService("b", "web")), decodeObject(t, membertest.ExportedService("b", "api"))
	recorder.Record(recorder.Epoch("b"), "b", "uid-b", exports.Ref{Cluster: "b", Service: web.Service}, []exports.Object{web})
	membertest.Eventually(t, "the first record is written", func() bool { return names(loaded(t, memory)["b"]) == "web.b" })
	recorder.Record(recorder.Epoch("b"), "b", "uid-b", exports.Ref{Cluster: "b", Service: api.Service}, []exports.Object{api})
	cancel()
	<-ended
	if got := names(loaded(t, memory)["b"]); got != "api.b,web.b" {
		t.Errorf("written are %q at the end, want both", got)
	}
}

func TestFailedWritesAreRetried(t *testing.T) {
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	old, web := decodeObject(t, membertest.ExportedService("b", "old")), decodeObject(t, membertest.ExportedService("b", "web"))
	recorder.Record(recorder.Epoch("b"), "b", "uid-b", exports.Ref{Cluster: "b", Service: old.Service}, []exports.Object{old})
	recorder.Flush(t.Context())

	recorder.Forget("b")
	recorder.Record(recorder.Epoch("b"), "b", "uid-b", exports.Ref{Cluster: "b", Service: web.Service}, []exports.Object{web})
	recorder.RecordContact("b", "uid-b", Contact{At: membertest.Epoch})
	broken, cancel := context.WithCancel(t.Context())
	cancel()
	if recorder.Flush(broken) {
		t.Fatal("it was written without etcd")
	}
	if got := names(loaded(t, memory)["b"]); got != "old.b" {
		t.Fatalf("written are %q", got)
	}
	if !recorder.Flush(t.Context()) {
		t.Fatal("it could not be written")
	}
	if got := loaded(t, memory)["b"]; names(got) != "web.b" || !got.LastSeen.Equal(membertest.Epoch) {
		t.Errorf("written are %q and last seen %s, want what was recorded after Forget", names(got), got.LastSeen)
	}
}

func TestRestoreKeepsNewerValues(t *testing.T) {
	current := map[string]int{"b/uid/newer": 2}
	restore(current, map[string]int{"b/uid/newer": 1, "b/uid/kept": 1, "c/uid/forgotten": 1}, []string{"c"})
	if diff := cmp.Diff(map[string]int{"b/uid/newer": 2, "b/uid/kept": 1}, current); diff != "" {
		t.Error(diff)
	}
}

func TestForgetLeavesOtherMembers(t *testing.T) {
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	for _, id := range []string{"b", "b2"} {
		f := decodeObject(t, membertest.ExportedService(id, "web"))
		recorder.Record(recorder.Epoch(id), id, "uid", exports.Ref{Cluster: id, Service: f.Service}, []exports.Object{f})
		recorder.RecordContact(id, "uid", Contact{At: membertest.Epoch})
	}
	recorder.Flush(t.Context())
	f := decodeObject(t, membertest.ExportedService("b2", "api"))
	recorder.Record(recorder.Epoch("b2"), "b2", "uid", exports.Ref{Cluster: "b2", Service: f.Service}, []exports.Object{f})
	recorder.Record(recorder.Epoch("b"), "b", "uid", exports.Ref{Cluster: "b", Service: f.Service}, []exports.Object{f})
	recorder.Forget("b")
	recorder.Flush(t.Context())
	got := loaded(t, memory)
	if _, known := got["b"]; known || names(got["b2"]) != "api.b2,web.b2" {
		t.Errorf("known are %v", got)
	}
	// A new contact is written at once, although the last was not long ago.
	recorder.RecordContact("b", "uid", Contact{At: membertest.Epoch.Add(time.Second)})
	recorder.Flush(t.Context())
	if !loaded(t, memory)["b"].LastSeen.Equal(membertest.Epoch.Add(time.Second)) {
		t.Error("a member that is back is not recorded")
	}
}

func TestLoadIsRetriedUntilTheContextEnds(t *testing.T) {
	recorder := NewRecorder(newMemory(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := recorder.Load(ctx); err == nil {
		t.Error("the memory was read without etcd")
	}
}

// A caller without a lock must not bring back what was removed.
func TestRecordsOfAnEarlierEpochAreIgnored(t *testing.T) {
	memory := newMemory(t)
	recorder := NewRecorder(memory, nil)
	web := decodeObject(t, membertest.ExportedService("b", "web"))
	epoch := recorder.Epoch("b")
	recorder.Forget("b")
	recorder.Record(epoch, "b", "uid-b", exports.Ref{Cluster: "b", Service: web.Service}, []exports.Object{web})
	recorder.Flush(t.Context())
	if got := loaded(t, memory); len(got) != 0 {
		t.Errorf("recorded are %v", got)
	}
}
