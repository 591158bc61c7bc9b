// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/chaos"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// counts are the events so far.
type counts struct {
	at                                 time.Time
	changes, lostImports, lostServices int
	watches, repeatedByItself          int64
}

func (c *clients) counts() counts {
	return counts{
		at: time.Now(), changes: c.changes.Total(),
		lostImports: len(c.imported.Violations()), lostServices: len(c.derived.Violations()),
		watches: c.watching.Watches.Load(), repeatedByItself: c.reading.RetryAfter.Load(),
	}
}

// observation is what the clients noticed of a fault.
type observation struct {
	fault         string
	before, after counts
	reads         chaos.Reads
	// disturbed is how long after the fault reads began that were slow.
	disturbed time.Duration
	// endpoints and imports are the delays of changes at each client.
	endpoints, imports []chaos.Delay
}

// observe injects a fault while clients read and watch.
func observe(t *testing.T, c *clients, fault fault) observation {
	t.Helper()
	client := expect.Must(chaos.Client(c.config, &c.reading))(t)
	fault.prepare(t)
	c.start(t)
	c.awaitCurrent(t)
	c.reset()
	seen := observation{fault: fault.name, before: c.counts()}
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	outcome := make(chan chaos.Reads, 1)
	go func() { outcome <- chaos.Read(reading, readPeriod, c.read(client)) }()
	pause(t, calm)
	injected := time.Now()
	fault.inject(t, c)
	pause(t, calm)
	stop()
	seen.reads = <-outcome
	if slow := seen.reads.LastSlow; slow.After(injected) {
		seen.disturbed = slow.Sub(injected)
	}
	seen.after, seen.endpoints, seen.imports = c.counts(), c.delays(c.endpointDelays), c.delays(c.importDelays)
	return seen
}

// awaitCurrent waits until all clients are up to date.
func (c *clients) awaitCurrent(t *testing.T) {
	t.Helper()
	expect.Eventually(t, "changes at all clients", func(context.Context) error {
		for i, observer := range c.importDelays {
			if pending := observer.Pending(time.Now()); pending.Duration > maxDelay/2 {
				return fmt.Errorf("client %d waits for a change: %s", i, pending)
			}
		}
		return nil
	})
}

// reset forgets the delays so far.
func (c *clients) reset() {
	for _, observer := range slices.Concat(c.importDelays, c.endpointDelays) {
		observer.Reset()
	}
}

// delays returns how long the slowest change took at each client.
func (c *clients) delays(observers []*chaos.Observer) []chaos.Delay {
	var delays []chaos.Delay
	for _, observer := range observers {
		delays = append(delays, observer.Delay(time.Now()))
	}
	return delays
}

// slowest returns the longest of delays.
func slowest(delays []chaos.Delay) chaos.Delay {
	return slices.MaxFunc(delays, func(a, b chaos.Delay) int { return cmp.Compare(a.Duration, b.Duration) })
}

// pause observes the clients for a while.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// check reports what clients must not notice, among it changes that took too long.
func (o observation) check(t *testing.T, c *clients, limits limits, maxDelay time.Duration) {
	t.Helper()
	for _, failure := range o.reads.Failures {
		t.Errorf("a read failed %s", failure)
	}
	for _, lost := range slices.Concat(c.imported.Violations()[o.before.lostImports:], c.derived.Violations()[o.before.lostServices:]) {
		t.Error(lost)
	}
	if o.reads.Repeated > 0 && !limits.repetitions {
		t.Errorf("%d reads had to be repeated", o.reads.Repeated)
	}
	if o.disturbed > limits.disturbed {
		t.Errorf("%s after the fault, a read took longer than %s", o.disturbed, chaos.Slow)
	}
	if delay := slowest(o.endpoints); delay.Duration > maxDelay {
		t.Errorf("a change of endpoints took %s, want at most %s", delay, maxDelay)
	}
	if delay := slowest(o.imports); delay.Duration > maxDelay {
		t.Errorf("a change took %s, want at most %s; slowest change at each client: %v", delay, maxDelay, o.imports)
	}
}

// report prints all observations as a table.
func report(w io.Writer, observations []observation) {
	const format = "%-15s %9v %11v %7v %12v %13v %7v %13v %10v %8v %6v %11v %11v\n"
	fmt.Fprintf(w, "\n"+format, "", "duration", "changes", "reads", "repeated by", "repeated by", "failed", "slowest read", "disturbed", "watches", "lost", "endpoints", "imports")
	fmt.Fprintf(w, format, "fault", "", "per second", "", "client-go", "the caller", "", "", "for", "resumed", "", "delayed", "delayed")
	for _, o := range observations {
		duration := o.after.at.Sub(o.before.at)
		fmt.Fprintf(w, format, o.fault, duration.Round(time.Second), fmt.Sprintf("%.1f", float64(o.after.changes-o.before.changes)/duration.Seconds()),
			o.reads.Total, o.after.repeatedByItself-o.before.repeatedByItself, o.reads.Repeated, len(o.reads.Failures), o.reads.Slowest.Round(time.Millisecond),
			o.disturbed.Round(time.Millisecond), o.after.watches-o.before.watches, o.after.lostImports-o.before.lostImports+o.after.lostServices-o.before.lostServices,
			slowest(o.endpoints).Round(time.Millisecond), slowest(o.imports).Round(time.Millisecond))
	}
}
