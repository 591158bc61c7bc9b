// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is how long a test waits for what ought to happen at once.
const patience = 30 * time.Second

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, patience, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestRecorderWritesInTheBackgroundAndWhatIsLeftAtTheEnd(t *testing.T) {
	memory := newMemory(t)
	recorder := newRecorder(memory, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		recorder.run(ctx)
	}()
	web, api := serviceFactOf(t, exportedService("b", "web")), serviceFactOf(t, exportedService("b", "api"))
	recorder.record("b", "uid-b", "b", web.service, []fact{web})
	eventually(t, "the first record is written", func() bool { return names(loaded(t, memory)["b"]) == "web.b" })
	recorder.record("b", "uid-b", "b", api.service, []fact{api})
	cancel()
	<-ended
	if got := names(loaded(t, memory)["b"]); got != "api.b,web.b" {
		t.Errorf("written are %q at the end, want both", got)
	}
}

func TestWhatCannotBeWrittenIsWrittenLater(t *testing.T) {
	memory := newMemory(t)
	recorder := newRecorder(memory, nil)
	old, web := serviceFactOf(t, exportedService("b", "old")), serviceFactOf(t, exportedService("b", "web"))
	recorder.record("b", "uid-b", "b", old.service, []fact{old})
	recorder.flush(t.Context())

	recorder.forget("b")
	recorder.record("b", "uid-b", "b", web.service, []fact{web})
	recorder.seen("b", "uid-b", sight{at: epoch})
	broken, cancel := context.WithCancel(t.Context())
	cancel()
	if recorder.flush(broken) {
		t.Fatal("it was written without an etcd")
	}
	if got := names(loaded(t, memory)["b"]); got != "old.b" {
		t.Fatalf("written are %q", got)
	}
	if !recorder.flush(t.Context()) {
		t.Fatal("it could not be written")
	}
	if got := loaded(t, memory)["b"]; names(got) != "web.b" || !got.LastSeen.Equal(epoch) {
		t.Errorf("written are %q and last seen %s, want what came after the forgetting", names(got), got.LastSeen)
	}
}

func TestWhatWasTakenOutIsPutBackUnlessItIsOutdated(t *testing.T) {
	current := map[string]int{"b/uid/newer": 2}
	restore(current, map[string]int{"b/uid/newer": 1, "b/uid/kept": 1, "c/uid/forgotten": 1}, []string{"c"})
	if diff := cmp.Diff(map[string]int{"b/uid/newer": 2, "b/uid/kept": 1}, current); diff != "" {
		t.Error(diff)
	}
}

func TestForgettingAMemberLeavesTheOthers(t *testing.T) {
	memory := newMemory(t)
	recorder := newRecorder(memory, nil)
	for _, id := range []string{"b", "b2"} {
		f := serviceFactOf(t, exportedService(id, "web"))
		recorder.record(id, "uid", id, f.service, []fact{f})
		recorder.seen(id, "uid", sight{at: epoch})
	}
	recorder.flush(t.Context())
	f := serviceFactOf(t, exportedService("b2", "api"))
	recorder.record("b2", "uid", "b2", f.service, []fact{f})
	recorder.record("b", "uid", "b", f.service, []fact{f})
	recorder.forget("b")
	recorder.flush(t.Context())
	got := loaded(t, memory)
	if _, known := got["b"]; known || names(got["b2"]) != "api.b2,web.b2" {
		t.Errorf("known are %v", got)
	}
	// A new sighting is written at once, although the last was not long ago.
	recorder.seen("b", "uid", sight{at: epoch.Add(time.Second)})
	recorder.flush(t.Context())
	if !loaded(t, memory)["b"].LastSeen.Equal(epoch.Add(time.Second)) {
		t.Error("a member that is back is not remembered")
	}
}

func TestLoadingIsTriedUntilTheContextEnds(t *testing.T) {
	recorder := newRecorder(newMemory(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := recorder.load(ctx); err == nil {
		t.Error("the memory was read without an etcd: it would look as if nothing had been exported")
	}
}
