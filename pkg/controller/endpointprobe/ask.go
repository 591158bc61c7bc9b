// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// connectTimeout limits a connection.
	connectTimeout = time.Second
	// controlInterval is how long the result of a control connection is used.
	controlInterval = time.Minute
	// atOnce limits the connections at a time to the endpoints of one member and of all
	// clusters that it relays, and allAtOnce those to all members. forAnswered of them are
	// only for Services that answered, and forSamples for samples: Services that do not
	// answer need them for long.
	atOnce      = 64
	forAnswered = 3
	forSamples  = 1
	allAtOnce   = 256
	// minAttempts is how many connections have to fail before an endpoint counts as
	// silent, and attemptInterval the time between two: a single packet may be lost, and a
	// route may be missing for a moment.
	minAttempts     = 2
	attemptInterval = time.Second
)

// Addresses that nobody has (RFC 5737, RFC 3849): if they answer, connections say nothing.
var (
	nobody4 = netip.MustParseAddr("192.0.2.1")
	nobody6 = netip.MustParseAddr("2001:db8::1")
)

// dial opens a connection, as net.Dialer does.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// asker asks endpoints whether they are alive: it opens TCP connections and sends nothing.
type asker struct {
	dial  dial
	clock clock.Clock
	// slots limit the connections to endpoints, and controlSlots control connections.
	slots, controlSlots chan struct{}

	mu sync.Mutex
	// controls are the results of control connections by address and port.
	controls map[netip.AddrPort]control
}

type control struct {
	at       time.Time
	answered bool
}

func newAsker(dial dial, clock clock.Clock) *asker {
	return &asker{
		dial: dial, clock: clock, slots: make(chan struct{}, allAtOnce), controlSlots: make(chan struct{}, allAtOnce),
		controls: map[netip.AddrPort]control{},
	}
}

// connects reports whether a connection succeeds. It takes a slot.
func (a *asker) connects(ctx context.Context, slots chan struct{}, target netip.AddrPort) bool {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-slots }()
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	connection, err := a.dial(ctx, "tcp", target.String())
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

// answer is what was found about the endpoints of a Service.
type answer struct {
	// alive is where an endpoint accepted a connection, the zero value if none did.
	alive netip.AddrPort
	// silent is set if at some port no endpoint accepted a connection.
	silent bool
	// void is set if connections to some port say nothing, because an address that nobody
	// has accepts them, too.
	void bool
}

// ask asks the endpoints at one port after the other, until one answers.
func (a *asker) ask(ctx context.Context, ports [][]netip.AddrPort) answer {
	var found answer
	for _, targets := range ports {
		target, alive := a.anyOf(ctx, targets)
		switch {
		case !alive:
			found.silent = true
		case a.controlAnswers(ctx, target):
			found.void = true
		default:
			found.alive = target
			return found
		}
	}
	return found
}

// anyOf asks endpoints one after the other, until one answers, which it returns. Each is
// asked at least once, and a single one twice.
func (a *asker) anyOf(ctx context.Context, targets []netip.AddrPort) (netip.AddrPort, bool) {
	var next time.Time
	for attempt := range max(len(targets), minAttempts) {
		a.waitUntil(ctx, next)
		next = a.clock.Now().Add(attemptInterval)
		if target := targets[attempt%len(targets)]; a.connects(ctx, a.slots, target) {
			return target, true
		}
	}
	return netip.AddrPort{}, false
}

func (a *asker) waitUntil(ctx context.Context, when time.Time) {
	pause := when.Sub(a.clock.Now())
	if pause <= 0 {
		return
	}
	select {
	case <-a.clock.After(pause):
	case <-ctx.Done():
	}
}

// controlAnswers reports whether an address that nobody has answers at the port of a target.
func (a *asker) controlAnswers(ctx context.Context, target netip.AddrPort) bool {
	address := netip.AddrPortFrom(nobody4, target.Port())
	if target.Addr().Is6() && !target.Addr().Is4In6() {
		address = netip.AddrPortFrom(nobody6, target.Port())
	}
	a.mu.Lock()
	last, asked := a.controls[address]
	a.mu.Unlock()
	now := a.clock.Now()
	if asked && now.Sub(last.at) < controlInterval {
		return last.answered
	}
	answered := a.connects(ctx, a.controlSlots, address)
	if ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, result := range a.controls {
		if now.Sub(result.at) >= controlInterval {
			delete(a.controls, other)
		}
	}
	a.controls[address] = control{now, answered}
	return answered
}
