// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// balancer sends requests to one server until it is moved to another, which
// ends active requests.
type balancer struct {
	url string

	mu     sync.Mutex
	proxy  *httputil.ReverseProxy
	moved  context.Context
	cancel context.CancelFunc
}

func newBalancer(t *testing.T, to *replica) *balancer {
	b := &balancer{}
	b.move(t, to)
	server := httptest.NewServer(b)
	b.url = server.URL
	t.Cleanup(func() {
		b.cancel()
		server.CloseClientConnections()
		server.Close()
	})
	return b
}

func (b *balancer) move(t *testing.T, to *replica) {
	t.Helper()
	target, err := url.Parse(to.url)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
	}
	b.moved, b.cancel = context.WithCancel(context.Background())
	b.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}

// ServeHTTP implements http.Handler.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	proxy, moved := b.proxy, b.moved
	b.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(moved, cancel)()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// history is a sequence of changes that every replica applies at its own pace.
type history struct {
	random  *rand.Rand
	changes []func(*virtual.Store)
}

func (h *history) grow() {
	name, ip := nameOf(h.random.IntN(400)), ipOf(len(h.changes))
	if h.random.IntN(5) == 0 {
		h.changes = append(h.changes, func(s *virtual.Store) { s.Delete("a", name) })
		return
	}
	h.changes = append(h.changes, func(s *virtual.Store) { s.Set(serviceImport("a", name, ip, nil)) })
}

// follower is a replica and its position in the history.
type follower struct {
	*replica
	applied int
}

func (f *follower) catchUp(h *history, to int) {
	for ; f.applied < to; f.applied++ {
		h.changes[f.applied](f.Store)
	}
}

func newFollower(t *testing.T, h *history) *follower {
	f := &follower{replica: newReplica(t, clock.RealClock{})}
	f.catchUp(h, len(h.changes))
	f.MarkSynced()
	return f
}

func TestClientsThatMoveBetweenReplicasConverge(t *testing.T) {
	const moves, between, lag = 12, 25, 60
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	h := &history{random: rand.New(rand.NewPCG(seed, 0))}
	for range 500 {
		h.grow()
	}
	prompt, lagging := newFollower(t, h), newFollower(t, h)

	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var balancers []*balancer
	var caches []cache.Store
	for i := range 4 {
		b := newBalancer(t, prompt.replica)
		held := cache.NewStore(cache.MetaNamespaceKeyFunc)
		reflector := cache.NewReflectorWithOptions(newListerWatcher(t, b.url, i%2 == 0), &unstructured.Unstructured{}, held,
			cache.ReflectorOptions{Backoff: &wait.Backoff{Duration: 5 * time.Millisecond, Factor: 1, Steps: 1}})
		running.Go(func() { reflector.RunWithContext(ctx) })
		balancers, caches = append(balancers, b), append(caches, held)
	}
	agreed := func(f *follower) bool {
		return !slices.ContainsFunc(caches, func(held cache.Store) bool { return !agree(f.Store, held.List()) })
	}
	eventually(t, "the clients agree with the first replica", func() bool { return agreed(prompt) })

	for move := range moves {
		to := lagging
		switch move % 4 {
		case 1:
			to = prompt
		case 3: // the current replica is replaced by a new one that has issued no version yet
			prompt.end()
			prompt = newFollower(t, h)
			to = prompt
		}
		watches := to.seen.count(isWatch)
		for _, b := range balancers {
			b.move(t, to.replica)
		}
		// The world goes on while they reconnect, and for a while after.
		for changes := 0; changes < between || to.seen.count(isWatch) < watches+len(balancers); changes++ {
			h.grow()
			prompt.catchUp(h, len(h.changes))
			lagging.catchUp(h, len(h.changes)-lag)
			runtime.Gosched()
		}
		// Then the server stands still, and whatever its clients do not
		// learn now they would never learn.
		eventually(t, "the clients agree with their replica", func() bool { return agreed(to) })
	}
}

func isWatch(query url.Values) bool { return query.Get("watch") == "true" }
