// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A process whose main thread is in the network namespace of a node is killed with it.
func TestMainThreadEntersNoNamespace(t *testing.T) {
	var mu sync.Mutex
	threads := map[int]bool{}
	for range 20 {
		var calls sync.WaitGroup
		all := make(chan struct{})
		var called sync.WaitGroup
		for range 20 {
			called.Add(1)
			calls.Go(func() {
				onOwnThread(func() {
					mu.Lock()
					threads[unix.Gettid()] = true
					mu.Unlock()
					called.Done()
					<-all // until all threads are in use
				})
			})
		}
		called.Wait()
		close(all)
		calls.Wait()
	}
	if threads[unix.Getpid()] {
		t.Error("a function was called on the main thread")
	}
	if len(threads) < 20 {
		t.Errorf("20 functions at once were called on %d threads", len(threads))
	}
}
