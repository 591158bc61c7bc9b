// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bySource returns what stands before the slash.
func bySource(item string) string {
	source, _, _ := strings.Cut(item, "/")
	return source
}

// R220
func TestSourcesTakeTurns(t *testing.T) {
	queue := New("", 0, bySource)
	defer queue.ShutDown()
	for i := range 1000 {
		queue.Add(fmt.Sprintf("hostile/%d", i))
	}
	queue.Add("east/1")
	queue.Add("east/2")
	queue.Add("west/1")
	queue.Add("east/1") // is in the queue already
	var got []string
	for range 7 {
		item, _ := queue.Get()
		got = append(got, item)
		queue.Done(item)
	}
	if want := []string{"hostile/0", "east/1", "west/1", "hostile/1", "east/2", "hostile/2", "hostile/3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// R220: a source never occupies more workers than the limit, so that an item of
// another one is taken at once. Items that were held back are processed later.
func TestSourceDoesNotOccupyAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, limit, items = 8, 3, 100
		queue := New("", limit, bySource)
		var mu sync.Mutex
		var workersRunning sync.WaitGroup
		busy, most, finished := map[string]int{}, map[string]int{}, map[string]int{}
		var taken time.Duration
		start := time.Now()
		for range workers {
			workersRunning.Go(func() {
				for {
					item, shutdown := queue.Get()
					if shutdown {
						return
					}
					source := bySource(item)
					mu.Lock()
					busy[source]++
					most[source] = max(most[source], busy[source])
					if source == "honest" {
						taken = time.Since(start)
					}
					mu.Unlock()
					time.Sleep(time.Second) // in the bubble
					mu.Lock()
					busy[source]--
					finished[source]++
					mu.Unlock()
					queue.Done(item)
				}
			})
		}
		for i := range items {
			queue.Add(fmt.Sprintf("hostile/%d", i))
		}
		time.Sleep(500 * time.Millisecond)
		queue.Add("honest/1")
		time.Sleep(time.Hour)
		queue.ShutDown()
		workersRunning.Wait()
		if most["hostile"] != limit || finished["hostile"] != items {
			t.Errorf("processed %d items of one source, at most %d at once; want %d and %d", finished["hostile"], most["hostile"], items, limit)
		}
		if taken != 500*time.Millisecond {
			t.Errorf("item of another source was taken after %s, want at once", taken)
		}
	})
}

// An item that is added again while it is processed is processed again, and counts
// against the limit of its source only once.
func TestItemIsProcessedAgain(t *testing.T) {
	queue := New("", 1, bySource)
	defer queue.ShutDown()
	for range 3 {
		queue.Add("east/1")
		item, _ := queue.Get()
		queue.Add(item)
		if queue.Len() != 0 {
			t.Fatal("item is in the queue while it is processed")
		}
		queue.Done(item)
		if queue.Len() != 1 {
			t.Fatal("item is not in the queue again")
		}
		item, _ = queue.Get()
		queue.Done(item)
	}
}

// R220: whatever is added and taken, no item is lost, the order within a source is
// kept, no source exceeds its limit, and an item waits for at most one item of each
// other source per item of its own source before it.
func TestOrderIsFairForRandomWork(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		limit := random.IntN(4) // 0 for none
		order := newOrder(limit, bySource)
		sources := []string{"a", "b", "c", "d"}
		added, popped := map[string]int{}, map[string]int{}
		bound := map[string]int{} // how many more pops of others an item may wait for
		var processed []string
		for step := range 1000 {
			switch {
			case random.IntN(2) == 0:
				source := sources[min(random.IntN(8), 3)] // mostly d
				item := fmt.Sprintf("%s/%d", source, added[source])
				bound[item] = (added[source] - popped[source] + 1) * (len(sources) - 1)
				added[source]++
				order.Push(item)
			case random.IntN(2) == 0 && len(processed) > 0:
				i := random.IntN(len(processed))
				order.done(processed[i])
				processed = slices.Delete(processed, i, i+1)
			case order.Len() > 0:
				item := order.Pop()
				source := bySource(item)
				if want := fmt.Sprintf("%s/%d", source, popped[source]); item != want {
					t.Fatalf("seed %d, step %d: got %s, want %s", seed, step, item, want)
				}
				popped[source]++
				processed = append(processed, item)
				if limit > 0 && order.running[source] > limit {
					t.Fatalf("seed %d: %d items of a source at once, limit %d", seed, order.running[source], limit)
				}
				delete(bound, item)
				for waiting := range bound {
					if bySource(waiting) == source || limit > 0 { // with a limit, a source may also wait for itself
						continue
					}
					if bound[waiting]--; bound[waiting] < 0 {
						t.Fatalf("seed %d: %s waits for too many items of others", seed, waiting)
					}
				}
			}
		}
		for _, item := range processed {
			order.done(item)
		}
		for order.Len() > 0 {
			item := order.Pop()
			popped[bySource(item)]++
			order.done(item)
		}
		if fmt.Sprint(added) != fmt.Sprint(popped) || len(order.waiting)+len(order.turns)+len(order.running)+len(order.processed) != 0 {
			t.Errorf("seed %d: added %v, popped %v; left over: %v %v %v %v", seed, added, popped, order.waiting, order.turns, order.running, order.processed)
		}
	}
}
