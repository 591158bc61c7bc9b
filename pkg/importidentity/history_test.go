// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// history is a random sequence of events in a world.
type history struct {
	*world
	random *rand.Rand
	// agreed are the UIDs that all replicas showed when nothing was happening, and
	// whether they still did so the last time.
	agreed map[types.UID]bool
	scopes int
}

var histories = flag.Int64("histories", 50, "how many random histories the tests run")

// runHistories runs random histories, each of which calls step repeatedly.
func runHistories(t *testing.T, maxDelay time.Duration, step func(*history), finish func(*history)) {
	for seed := range *histories {
		synctest.Test(t, func(t *testing.T) {
			h := &history{
				world:  newWorld(t, seed, maxDelay, "web", "api", "db"),
				random: rand.New(rand.NewPCG(uint64(seed), 0)), //nolint:gosec // repeatable
				agreed: map[types.UID]bool{},
			}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { h.control(ctx) })
			for _, r := range h.replicas {
				r.start()
			}
			for range 40 {
				step(h)
			}
			h.calmDown()
			finish(h)
			cancel()
			running.Wait()
			for _, r := range h.replicas {
				r.kill()
			}
			time.Sleep(time.Minute) // timers that are still pending
		})
		if t.Failed() {
			return
		}
	}
}

func (h *history) name() string      { return h.names[h.random.IntN(len(h.names))] }
func (h *history) replica() *replica { return h.replicas[h.random.IntN(len(h.replicas))] }

// pause lets up to a duration pass, mostly a short one.
func (h *history) pause(limit time.Duration) {
	time.Sleep(time.Duration(h.random.Float64() * h.random.Float64() * float64(limit)))
}

// toggle exports or withdraws a service.
func (h *history) toggle() {
	name := h.name()
	if h.value(name) == "" {
		h.change(name, "exported")
	} else {
		h.change(name, "")
	}
}

// again withdraws a service for a moment.
func (h *history) again() {
	name := h.name()
	h.change(name, "")
	h.pause(h.maxDelay)
	h.change(name, "exported")
}

// renew replaces the namespace or the membership for a moment.
func (h *history) renew() {
	h.scopes++
	fact := []string{namespaceFact, membershipFact}[h.random.IntN(2)]
	h.change(fact, "")
	h.pause(h.maxDelay)
	h.change(fact, fmt.Sprintf("%s-%d", fact, h.scopes))
}

// restart restarts a replica, with a pause in between.
func (h *history) restart() {
	r := h.replica()
	r.kill()
	h.pause(2 * h.maxDelay)
	r.setCut(false)
	r.start()
}

// crash stops all replicas at once, whatever they are doing, and starts them again.
func (h *history) crash() {
	for _, r := range h.replicas {
		r.kill()
	}
	h.pause(h.maxDelay)
	for _, r := range h.replicas {
		r.setCut(false)
		r.start()
	}
}

// outage stops all replicas while services are exported and withdrawn. The derived
// Services have the lives that are shown.
func (h *history) outage() {
	h.calmDown()
	for _, r := range h.replicas {
		r.kill()
	}
	for range h.random.IntN(3) {
		h.toggle()
	}
	h.pause(h.maxDelay)
	for _, r := range h.replicas {
		r.start()
	}
}

// partition separates a replica from something, or joins all replicas again.
func (h *history) partition() {
	r := h.replica()
	switch h.random.IntN(4) {
	case 0:
		r.setCut(true)
	case 1:
		r.part(h.name(), true)
	default:
		h.rejoin()
	}
}

func (h *history) rejoin() {
	for _, r := range h.replicas {
		r.setCut(false)
		for _, name := range h.names {
			r.part(name, false)
		}
	}
}

// calmDown ends all partitions and waits until all replicas have heard of
// everything, and the grace period is over. Then they must agree, and must not show
// anything that they agreed on before and withdrew since.
func (h *history) calmDown() {
	h.rejoin()
	time.Sleep(3*h.maxDelay + Grace + 2*maxRetryDelay)
	h.checkAgreement()
	before := fmt.Sprint(h.replicas[0].shows(), h.replicas[1].shows())
	time.Sleep(time.Minute)
	if after := fmt.Sprint(h.replicas[0].shows(), h.replicas[1].shows()); after != before {
		h.t.Errorf("seed %d: the UIDs changed while nothing happened:\n%s\n%s", h.seed, before, after)
	}
}

func (h *history) checkAgreement() {
	h.mu.Lock()
	defer h.mu.Unlock()
	shown := map[types.UID]bool{}
	for _, name := range h.names {
		first := h.replicas[0].shows()[name]
		for _, r := range h.replicas {
			identity, found := r.shows()[name]
			if found != h.exists(name) || identity != first {
				h.t.Errorf("seed %d: replica %d shows %s: %t, with life %d of %+v; want %t, and life %d of %+v", h.seed, r.id, name, found, identity.Life, identity.Scope, h.exists(name), first.Life, first.Scope)
			}
		}
		if first.UID == "" {
			continue
		}
		shown[first.UID] = true
		if still, known := h.agreed[first.UID]; known && !still {
			h.t.Errorf("seed %d: life %d of %s is shown again", h.seed, first.Life, name)
		}
		h.agreed[first.UID] = true
	}
	for uid := range h.agreed {
		h.agreed[uid] = shown[uid]
	}
}

// R160, R161: as long as replicas hear of everything within the grace period, an
// import has one UID from its beginning to its end, in all replicas and across
// restarts, and a different one in its next life.
func TestEveryLifeHasOneUID(t *testing.T) {
	runHistories(t, Grace/4, func(h *history) {
		// Everything lasts long enough for all replicas to hear of it, except that
		// something may be withdrawn for a moment only.
		time.Sleep(h.maxDelay)
		switch h.random.IntN(10) {
		case 0, 1, 2, 3:
			h.toggle()
		case 4, 5, 6:
			h.again()
		case 7:
			h.renew()
		case 8:
			h.restart()
		case 9:
			h.outage()
		}
	}, func(h *history) {
		for _, name := range h.names {
			if len(h.uids[name]) > h.births[name] {
				h.t.Errorf("seed %d: %s had %d lives and %d UIDs", h.seed, name, h.births[name], len(h.uids[name]))
			}
		}
	})
}

// R160, R161: whatever replicas hear of, and whenever they do, they agree once they
// have heard of the same, and never show an earlier life again.
func TestReplicasAgreeAfterAnyHistory(t *testing.T) {
	runHistories(t, 3*Grace, func(h *history) {
		h.pause(2 * Grace)
		switch h.random.IntN(16) {
		case 0, 1, 2, 3:
			h.toggle()
		case 4, 5, 6:
			h.again()
		case 7:
			h.renew()
		case 8:
			h.restart()
		case 9:
			h.outage()
		case 10, 11:
			h.crash()
		default:
			h.partition()
		}
	}, func(h *history) {
		total := 0
		for _, name := range h.names {
			total += len(h.uids[name])
		}
		if total < len(h.names) {
			h.t.Errorf("seed %d: only %d UIDs were shown: the history shows nothing", h.seed, total)
		}
	})
}
