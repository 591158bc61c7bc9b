// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

const (
	// volumePerSecond is how many bytes of EndpointSlices and derived Services are written per
	// second because of one member, and volumeBurst how many at once: the host keeps all of
	// them for minutes, and every node receives them. All that a member exports by default
	// fits into a burst.
	volumePerSecond = 1 << 20
	volumeBurst     = 64 << 20
	// turnValid is how long a turn is kept that is not used, and minTurns how many are
	// before those are looked for.
	turnValid = time.Minute
	minTurns  = 1024
)

// volume limits the bytes that are written because of each member. A key that has to wait
// gets its turn after those of the same member that wait already: small changes do not
// overtake large ones again and again, and no key is looked at more often than it changes.
type volume struct {
	clock clock.PassiveClock
	limit *pace.Limiter[string]

	mu    sync.Mutex
	turns map[key]map[string]turn // by member
	sweep int                     // the number of keys at which unused ones are removed
}

// turn is from when on a key may write how many bytes.
type turn struct {
	from  time.Time
	bytes int
}

func newVolume(clock clock.PassiveClock, perSecond, burst int) *volume {
	return &volume{clock: clock, limit: pace.New[string](clock, time.Second/time.Duration(perSecond), burst), turns: map[key]map[string]turn{}, sweep: minTurns}
}

// wait returns how long a key has to wait before it may write a number of bytes because of
// one of several members. They count for each of them from now on. If they become more while
// it waits, it waits for those as well; they do not become more without end, so that its turn
// comes.
func (v *volume) wait(key key, members []string, bytes int) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.clock.Now()
	turns := v.turns[key]
	if turns == nil {
		v.sweepLocked(now)
		turns = map[string]turn{}
		v.turns[key] = turns
	}
	shortest := time.Duration(math.MaxInt64)
	for _, member := range members {
		turn := turns[member]
		if more := bytes - turn.bytes; more > 0 {
			turn.bytes, turn.from = bytes, now.Add(v.limit.Reserve(member, more))
			turns[member] = turn
		}
		shortest = min(shortest, max(0, turn.from.Sub(now)))
	}
	return shortest
}

// end ends the turn of a key.
func (v *volume) end(key key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.turns, key)
}

// sweepLocked removes turns that are not used, because there is nothing to be written any
// more. It does so when their number has doubled, so that a turn costs little on average.
func (v *volume) sweepLocked(now time.Time) {
	if len(v.turns) < v.sweep {
		return
	}
	for key, turns := range v.turns {
		maps.DeleteFunc(turns, func(_ string, turn turn) bool { return now.Sub(turn.from) > turnValid })
		if len(turns) == 0 {
			delete(v.turns, key)
		}
	}
	v.sweep = max(minTurns, 2*len(v.turns))
}

// affordable returns the changes of a key that may be written now: all of them, or only
// deletions, because what is withdrawn must not be used any longer, and takes no space. For
// the others, the key is enqueued again when it is its turn, with its state at that time.
func (c *Controller) affordable(key key, changes []sliceChange) []sliceChange {
	deletions, bytes := 0, 0
	for _, change := range changes { // deletions are the first
		if change.verb == deleteSlice {
			deletions++
		} else {
			bytes += change.slice.Size()
		}
	}
	if bytes == 0 {
		c.volume.end(key) // what waited for its turn is gone
		return changes
	}
	if wait := c.volume.wait(key, []string{c.cause(key)}, bytes); wait > 0 {
		c.queue.AddAfter(key, wait)
		return changes[:deletions]
	}
	return changes
}

// managedPort is about how many bytes the host adds for each port of a Service, to keep track
// of who manages its fields. The cache does not hold them.
const managedPort = 130

// affordableService reports whether the derived Service of an import may be written now.
// Otherwise its key is enqueued again when it is its turn. One that several members export is
// written because of those that changed what they export, as soon as it is the turn of one of
// them: none can delay what another changes.
func (c *Controller) affordableService(name types.NamespacedName, service *corev1.Service) bool {
	of := ofService(name)
	members, wait := c.contributions.causes(name)
	if wait == 0 {
		wait = c.volume.wait(of, members, service.Size()+managedPort*len(service.Spec.Ports))
	}
	if wait > 0 {
		c.queue.AddAfter(of, wait)
	}
	return wait == 0
}
