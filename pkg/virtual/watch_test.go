// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestObjectsEnterAndLeaveSelectors(t *testing.T) {
	r := newSyncedReplica(t, serviceImport("a", "x", "1", map[string]string{"tier": "web"}), serviceImport("b", "y", "1", nil))
	at := list(t, r.url+resourcePath).GetResourceVersion()
	from := func(pairs ...string) *watcher {
		return watchURL(t, r.url+resourcePath+query(append(pairs, "watch", "true", "resourceVersion", at)...))
	}
	web := from("labelSelector", "tier=web")
	others := from("labelSelector", "tier!=web")
	named := from("fieldSelector", "metadata.name=y")
	inB := from("fieldSelector", "metadata.namespace=b")

	r.Set(serviceImport("a", "x", "2", map[string]string{"tier": "db"}))
	r.Set(serviceImport("b", "y", "2", map[string]string{"tier": "web"}))
	r.Set(serviceImport("b", "z", "3", map[string]string{"tier": "web"}))
	r.Set(serviceImport("a", "x", "4", map[string]string{"tier": "web"}))
	r.Set(serviceImport("a", "x", "5", map[string]string{"tier": "web"}))
	r.Delete("b", "y")
	r.Set(serviceImport("b", "end", "6", map[string]string{"tier": "web"}))

	got := web.expect(t, "DELETED x 1", "ADDED y 2", "ADDED z 3", "ADDED x 4", "MODIFIED x 5", "DELETED y 2", "ADDED end 6")
	var versions []int
	for _, e := range got {
		version, err := strconv.Atoi(e.version)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, version)
	}
	if !slices.IsSorted(versions) || len(slices.Compact(slices.Clone(versions))) != len(versions) {
		t.Errorf("the versions %v do not increase; a deleted object must carry the version of its deletion", versions)
	}
	others.expect(t, "ADDED x 2", "DELETED y 1", "DELETED x 2")
	named.expect(t, "MODIFIED y 2", "DELETED y 2")
	inB.expect(t, "MODIFIED y 2", "ADDED z 3", "DELETED y 2", "ADDED end 6")

	if got := list(t, r.url+resourcePath+query("labelSelector", "tier=web")); len(got.Items) != 3 {
		t.Errorf("the list has %d objects with the label, want 3", len(got.Items))
	}
	if got := list(t, r.url+resourcePath+query("fieldSelector", "metadata.namespace=a")); len(got.Items) != 1 {
		t.Errorf("the list has %d objects in the namespace, want 1", len(got.Items))
	}
}

func TestChangedUIDIsADeletionAndAnAddition(t *testing.T) {
	r := newSyncedReplica(t, serviceImport("a", "x", "1", nil))
	w := watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", list(t, r.url+resourcePath).GetResourceVersion()))
	reborn := serviceImport("a", "x", "2", nil)
	reborn.UID = "another"
	r.Set(reborn)
	w.expect(t, "DELETED x 1", "ADDED x 2")
}

func TestStreamingListEndsWithABookmark(t *testing.T) {
	r := newSyncedReplica(t, serviceImport("a", "x", "1", nil), serviceImport("a", "y", "1", nil))
	w := watchURL(t, r.url+reads["streaming list"])
	w.expect(t, "ADDED x 1", "ADDED y 1")
	end, ok := w.next(t)
	if !ok || end.kind != "BOOKMARK" || end.annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("got %+v, want the bookmark at the end of the initial events", end)
	}
	r.Set(serviceImport("a", "x", "2", nil))
	w.expect(t, "MODIFIED x 2")

	again := watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", end.version))
	again.expect(t, "MODIFIED x 2")
}

func TestBookmarksAdvanceWithoutChanges(t *testing.T) {
	wall := clocktesting.NewFakeClock(time.Now())
	r := newReplica(t, wall)
	r.Set(serviceImport("a", "x", "1", nil))
	r.MarkSynced()
	start := list(t, r.url+resourcePath).GetResourceVersion()
	w := watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", start, "allowWatchBookmarks", "true"))
	silent := watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", start))

	bookmarks := make(chan event, 2)
	go func() {
		defer close(bookmarks)
		for range cap(bookmarks) {
			e, ok := w.next(t)
			if !ok {
				return
			}
			bookmarks <- e
		}
	}()
	var got []event
	eventually(t, "two bookmarks are received", func() bool {
		wall.Step(time.Second)
		select {
		case e, ok := <-bookmarks:
			if !ok {
				t.Fatal("the watch ended")
			}
			got = append(got, e)
		default:
		}
		return len(got) == 2
	})
	if got[0].kind != "BOOKMARK" || got[1].kind != "BOOKMARK" || got[0].version <= start || got[1].version <= got[0].version {
		t.Errorf("after %s got %+v, want bookmarks with increasing versions", start, got)
	}

	r.Set(serviceImport("a", "x", "2", nil))
	silent.expect(t, "MODIFIED x 2") // who does not ask for bookmarks gets none
	resumed := watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", got[1].version))
	resumed.expect(t, "MODIFIED x 2")
}

func TestResumedWatchNeitherLosesNorRepeatsEvents(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newSyncedReplica(t)
	start := list(t, r.url+resourcePath).GetResourceVersion()
	follow := func(version string) *watcher {
		return watchURL(t, r.url+resourcePath+query("watch", "true", "resourceVersion", version))
	}

	written := make(chan int)
	go func() {
		writing := rand.New(rand.NewPCG(seed, 1))
		events := 0
		for i := range 1000 {
			events += changeAtRandom(writing, r.Store, i)
		}
		r.Set(serviceImport("a", "the-end", "1", nil))
		written <- events + 1
	}()
	// One client that loses its connection after every few events.
	var seen []event
	last := start
	for ended := false; !ended; {
		w := follow(last)
		for range 1 + random.IntN(40) {
			e, ok := w.next(t)
			if !ok {
				break // it was too slow and cut off, which must not matter
			}
			seen, last, ended = append(seen, e), e.version, e.name == "the-end"
			if ended {
				break
			}
		}
		w.close()
	}
	if want := <-written; len(seen) != want {
		t.Fatalf("received %d of %d events", len(seen), want)
	}
	state := map[string]string{}
	for i, e := range seen {
		if i > 0 && e.version <= seen[i-1].version {
			t.Fatalf("event %d has version %s after %s", i, e.version, seen[i-1].version)
		}
		_, held := state["a/"+e.name]
		if held != (e.kind != "ADDED") {
			t.Fatalf("event %d is %s, but the client has the object: %v", i, e, held)
		}
		state["a/"+e.name] = e.ip
		if e.kind == "DELETED" {
			delete(state, "a/"+e.name)
		}
	}
	if want := content(r.List()); !maps.Equal(state, want) {
		t.Errorf("the client ended with %v, want %v", state, want)
	}
	// Others that come later see the same, from wherever they start.
	for range 20 {
		at := random.IntN(len(seen) - 1)
		w := follow(seen[at].version)
		for next := at + 1; next < len(seen); {
			e, ok := w.next(t)
			if !ok {
				w = follow(seen[next-1].version)
				continue
			}
			if e.String() != seen[next].String() || e.version != seen[next].version {
				t.Fatalf("from %d, event %d is %s, want %s", at, next, e, seen[next])
			}
			next++
		}
		w.close()
	}
}
