// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chaos measures what clients of a cluster notice while parts of it fail: whether
// reads fail, whether objects disappear, and how long changes take to arrive.
package chaos

import (
	"fmt"
	"sync"
	"time"
)

// Changes are the changes of a load, numbered from 0 for each subject.
type Changes struct {
	mu      sync.Mutex
	written map[string][]time.Time
	total   int
}

// NewChanges returns an empty record.
func NewChanges() *Changes { return &Changes{written: map[string][]time.Time{}} }

// Written records that the next change of a subject is complete.
func (c *Changes) Written(subject string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[subject] = append(c.written[subject], at)
	c.total++
}

// Next returns the number of the next change of a subject.
func (c *Changes) Next(subject string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.written[subject])
}

// Total returns the number of all changes.
func (c *Changes) Total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// first returns when the first change of a subject after a number was complete, and false if
// there is none.
func (c *Changes) first(subject string, after int) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if times := c.written[subject]; after+1 < len(times) {
		return times[after+1], true
	}
	return time.Time{}, false
}

// Observer measures how long changes take to arrive at one client.
type Observer struct {
	changes *Changes

	mu sync.Mutex
	// seen is the number of the last change that arrived, by subject.
	seen  map[string]int
	worst Delay
}

// Delay is how long a change of a subject took to arrive.
type Delay struct {
	Subject string
	time.Duration
}

func (d Delay) String() string {
	return fmt.Sprintf("%s (%s)", d.Round(time.Millisecond), d.Subject)
}

// longer returns the longer one of two delays.
func longer(a, b Delay) Delay {
	if b.Duration > a.Duration {
		return b
	}
	return a
}

// NewObserver returns an observer of changes of the given subjects. None of the changes so far
// has arrived.
func NewObserver(changes *Changes, subjects ...string) *Observer {
	o := &Observer{changes: changes, seen: map[string]int{}}
	for _, subject := range subjects {
		o.seen[subject] = -1
	}
	return o
}

// Saw records that a change has arrived, and with it all earlier ones of the subject: a client
// may see the latest state only. Other subjects than those of the observer are ignored.
func (o *Observer) Saw(subject string, number int, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen, known := o.seen[subject]
	if !known || number <= seen {
		return
	}
	if written, ok := o.changes.first(subject, seen); ok {
		o.worst = longer(o.worst, Delay{subject, at.Sub(written)})
	}
	o.seen[subject] = number
}

// Reset forgets the delays of changes that have arrived.
func (o *Observer) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.worst = Delay{}
}

// Delay returns how long the slowest change took since Reset. A change that has not arrived
// counts until now.
func (o *Observer) Delay(now time.Time) Delay {
	o.mu.Lock()
	defer o.mu.Unlock()
	return longer(o.worst, o.pendingLocked(now))
}

// Pending returns how long the oldest change has been under way, or 0 if all have arrived.
func (o *Observer) Pending(now time.Time) Delay {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pendingLocked(now)
}

func (o *Observer) pendingLocked(now time.Time) Delay {
	var oldest Delay
	for subject, seen := range o.seen {
		if written, ok := o.changes.first(subject, seen); ok {
			oldest = longer(oldest, Delay{subject, now.Sub(written)})
		}
	}
	return oldest
}
