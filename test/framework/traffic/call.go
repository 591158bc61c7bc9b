// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// Timeout is how long an attempt may take: the lookup, the connection and the answer together.
const Timeout = 5 * time.Second

// Period is the time between two calls of a host: 20 calls a second.
const Period = 50 * time.Millisecond

// Call looks up the IPv4 address of a host, without a cache, connects to it, and returns the answer.
func Call(ctx context.Context, host, port string) (answer string, err error) {
	addresses, err := (&net.Resolver{PreferGo: true}).LookupIP(ctx, "ip4", host)
	if err != nil {
		return "", err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", net.JoinHostPort(addresses[0].String(), port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, limited := ctx.Deadline(); limited {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(conn, 1<<10))
	if err == nil && len(text) == 0 {
		err = errors.New("connection was closed without an answer")
	}
	if err != nil {
		return "", fmt.Errorf("read from %s: %w", conn.RemoteAddr(), err)
	}
	return string(text), nil
}

// Caller calls hosts, each of them every Period.
type Caller struct {
	Hosts []string
	// Call calls a host.
	Call func(ctx context.Context, host string) (answer string, err error)
	// Report receives the results once a second, and at the end.
	Report func(Report)
	// Record receives every attempt that is counted, when it has ended, unless it is nil.
	Record func(Attempt)
}

// Attempt is one call.
type Attempt struct {
	Begun time.Time
	Took  time.Duration
	// From is where the answer came from: the first part of the name of the server.
	From  string `json:",omitempty"`
	Error string `json:",omitempty"`
}

// Report is what happened until a time.
type Report struct {
	At    time.Time
	Hosts map[string]Result
}

// ParseReport parses a report in JSON.
func ParseReport(text string) (report Report, err error) {
	err = json.Unmarshal([]byte(text), &report)
	return report, err
}

// Run waits until every host has answered, and then calls all of them, whether or not earlier calls
// have returned, until the context is done and all calls have returned.
func (c *Caller) Run(ctx context.Context) {
	tallies := map[string]*tally{}
	for _, host := range c.Hosts {
		for ctx.Err() == nil && c.try(ctx, &tally{}, host, nil) != nil {
			wait(ctx, Period)
		}
		tallies[host] = &tally{}
	}
	var running sync.WaitGroup
	for host, tally := range tallies {
		running.Go(func() {
			ticker := time.NewTicker(Period)
			defer ticker.Stop()
			for ctx.Err() == nil {
				running.Go(func() { _ = c.try(ctx, tally, host, c.Record) }) // the error is counted
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
	for ctx.Err() == nil {
		wait(ctx, time.Second)
		c.Report(report(tallies))
	}
	running.Wait()
	c.Report(report(tallies))
}

func report(tallies map[string]*tally) Report {
	report := Report{At: time.Now(), Hosts: map[string]Result{}}
	for host, tally := range tallies {
		report.Hosts[host] = tally.result()
	}
	return report
}

// try calls a host once.
func (c *Caller) try(ctx context.Context, tally *tally, host string, record func(Attempt)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	begun := time.Now()
	tally.begin()
	answer, err := c.Call(ctx, host)
	ended := time.Now()
	tally.end(begun, ended, answer, err)
	if record != nil {
		record(newAttempt(begun, ended, answer, err))
	}
	return err
}

func newAttempt(begun, ended time.Time, answer string, err error) Attempt {
	attempt := Attempt{Begun: begun, Took: ended.Sub(begun)}
	if err != nil {
		attempt.Error = err.Error()
	} else {
		attempt.From = serverOf(answer)
	}
	return attempt
}

// serverOf returns the first part of the name of a server that answered.
func serverOf(answer string) string {
	name, _, _ := strings.Cut(answer, "-")
	return name
}

func wait(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
