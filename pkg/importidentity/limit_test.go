// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

// namedIn returns a long name with a life in a shard.
func namedIn(number uint32, index int) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("service-%d-%d-%s", index, i, strings.Repeat("x", 40))
		if shardOf("uid-a", name).number == number {
			return name
		}
	}
}

// count returns the bytes of all documents that are written from now on.
func (r *recording) count(ctx context.Context, running *sync.WaitGroup) *atomic.Int64 {
	var bytes atomic.Int64
	_, version, err := r.store.List(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	running.Go(func() {
		_ = r.store.Watch(ctx, version, func(_ string, data []byte, _ string) { bytes.Add(int64(len(data))) })
	})
	synctest.Wait()
	return &bytes
}

// R494: a member that exports and withdraws all the time causes a limited number of bytes to
// be written, whatever the number of documents is. The ends of others are recorded at once,
// also those in the same documents, and all are recorded in the end.
func TestBytesRecordedBecauseOfAMemberAreLimited(t *testing.T) {
	const perSecond, burst, seconds, perDocument = 8 << 10, 64 << 10, 60, 100
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		r := newRecording(t, recordtest.New())
		r.Lives.mu.Lock()
		r.turns = pace.NewTurns[shard](clock.RealClock{}, perSecond, burst)
		r.Lives.mu.Unlock()
		for number := range uint32(shards) { // 140 KB, which take a while already
			for index := range perDocument {
				r.End("a", "uid-a", namedIn(number, index), 0, []string{"hostile"})
			}
		}
		time.Sleep(time.Minute)
		bytes := r.count(ctx, &running)
		for second := range seconds {
			for number := range uint32(shards) {
				name := namedIn(number, second%perDocument)
				r.End("a", "uid-a", name, r.number(name), []string{"hostile"})
			}
			if second%10 == 5 {
				name := fmt.Sprintf("honest-%d", second)
				r.End("a", "uid-a", name, 0, []string{"east", "west"})
				time.Sleep(writeInterval)
				if r.number(name) != 1 {
					t.Errorf("end of another member was not recorded in second %d", second)
				}
			}
			time.Sleep(time.Second)
		}
		// Six documents were written because of the others.
		if wrote, allowed := bytes.Load(), int64(burst+(seconds+8)*perSecond+6*16<<10); wrote > allowed || wrote < allowed/3 {
			t.Errorf("%d bytes were written, want at most %d", wrote, allowed)
		}
		time.Sleep(time.Minute)
		r.Lives.mu.Lock()
		left, turns := len(r.ends), r.turns
		r.Lives.mu.Unlock()
		if wait := turns.Wait(shard{}, []string{"east"}, 1); left > 0 || wait > 0 {
			t.Errorf("%d documents have to be written, and another member has to wait for %s", left, wait)
		}
		r.stop()
		cancel()
		running.Wait()
	})
}

// R494: all imports of a member end at once, even if each is in another document.
func TestAllImportsOfAMemberEndAtOnce(t *testing.T) {
	turns := pace.NewTurns[int](clock.RealClock{}, bytesPerSecond, bytesAtOnce)
	for number := range 5_000 {
		if wait := turns.Wait(number, []string{"west"}, document{}.size()+entrySize); wait > 0 {
			t.Fatalf("document %d has to wait for %s", number, wait)
		}
	}
}

// The size that counts is that of a document with long names, at least.
func TestSizeOfDocuments(t *testing.T) {
	var full document
	for i := range maxEnded {
		full.end(fmt.Sprintf("%063d", i), 1, time.Now())
	}
	data, err := json.Marshal(full)
	if err != nil || full.size() < len(data) || full.size() > 2*len(data) {
		t.Errorf("size is %d, and %d bytes are written: %v", full.size(), len(data), err)
	}
}
