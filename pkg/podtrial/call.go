// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package podtrial

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

const (
	// MaxFirst limits how many names and targets are tried at the same time until they respond.
	MaxFirst = 16
	// MaxMeasured is the same for targets that respond: what is measured should not wait for others.
	MaxMeasured = 4
	// lookups is how often a name has to have what is wanted, in a row: there may be several DNS servers,
	// and one that answers correctly now and then is broken.
	lookups = 10
	// retryInterval is the time between attempts.
	retryInterval = 500 * time.Millisecond
	// datagramInterval is the time after which a datagram counts as lost, and is sent again.
	datagramInterval = time.Second
)

// Resolver looks up names.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// Client tries a plan.
type Client struct {
	Resolver Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	// Retry is the time between attempts.
	Retry time.Duration
}

// NewClient returns a client that uses the resolver of Go, which follows the resolv.conf of the Pod.
func NewClient() *Client {
	var dialer net.Dialer
	return &Client{Resolver: &net.Resolver{PreferGo: true}, Dial: dialer.DialContext, Retry: retryInterval}
}

// Run tries everything, and writes a line for each result.
func (c *Client) Run(ctx context.Context, plan Plan, out io.Writer) error {
	if err := plan.Validate(); err != nil {
		return err
	}
	lookups, contacts := make([]Lookup, len(plan.Queries)), make([]Contact, len(plan.Targets))
	first := newPool(MaxFirst)
	for i, query := range plan.Queries {
		first.run(func() { lookups[i] = c.resolve(ctx, plan, query) })
	}
	for i, target := range plan.Targets {
		first.run(func() { contacts[i] = c.reach(ctx, plan, target) })
	}
	first.wait()
	measured := newPool(MaxMeasured)
	for i, target := range plan.Targets {
		if contacts[i].Failed == 0 {
			measured.run(func() { c.measure(ctx, plan, target, &contacts[i]) })
		}
	}
	measured.wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	encoder := json.NewEncoder(out)
	for i := range lookups {
		if err := encoder.Encode(Line{Lookup: &lookups[i]}); err != nil {
			return err
		}
	}
	for i := range contacts {
		if err := encoder.Encode(Line{Contact: &contacts[i]}); err != nil {
			return err
		}
	}
	return encoder.Encode(Line{Done: true})
}

// pool runs functions, some at a time.
type pool struct {
	slots chan struct{}
	group sync.WaitGroup
}

func newPool(size int) *pool { return &pool{slots: make(chan struct{}, size)} }

func (p *pool) run(do func()) {
	p.group.Go(func() {
		p.slots <- struct{}{}
		defer func() { <-p.slots }()
		do()
	})
}

func (p *pool) wait() { p.group.Wait() }

// resolve looks up a name until it has what is wanted several times in a row, or the patience is over.
func (c *Client) resolve(ctx context.Context, plan Plan, query Query) Lookup {
	patient, cancel := context.WithTimeout(ctx, plan.Patience)
	defer cancel()
	for retry := c.Retry; ; {
		result := c.lookUpOften(ctx, patient, plan.Timeout, query)
		if result.Failed == 0 {
			return result
		}
		if result.Sent > result.Failed {
			// Some DNS servers lag, or are broken. The more often this is tried, the more likely it
			// succeeds by chance.
			retry *= 2
		}
		if pause(patient, retry); patient.Err() != nil {
			return result
		}
	}
}

// lookUpOften looks up a name several times, or once if it does not have what is wanted at first. It does
// not begin another lookup after a failure if the patience is over.
func (c *Client) lookUpOften(ctx, patient context.Context, timeout time.Duration, query Query) Lookup {
	result := Lookup{Name: query.Name, Type: query.Type, Outcome: podprobe.Succeeded}
	want := slices.Sorted(slices.Values(query.Want))
	var times []time.Duration
	for range lookups {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		start := time.Now()
		got, err := c.lookUp(attempt, query)
		took := time.Since(start)
		cancel()
		result.Sent++
		if err == nil && slices.Equal(got, want) {
			times = append(times, took)
			if result.Failed == 0 {
				result.Got = got
			}
			continue
		}
		if result.Failed++; result.Failed == 1 {
			result.Got = got
			if err != nil {
				result.Outcome, result.Error = outcomeOfLookup(err), err.Error()
			}
		}
		if result.Sent == 1 || patient.Err() != nil {
			break
		}
	}
	result.Took = median(times)
	return result
}

// median returns the median of times, zero if there are none.
func median(times []time.Duration) time.Duration {
	if slices.Sort(times); len(times) > 0 {
		return times[len(times)/2]
	}
	return 0
}

// lookUp returns what a name has, sorted.
func (c *Client) lookUp(ctx context.Context, query Query) ([]string, error) {
	name := strings.TrimSuffix(query.Name, ".") + "." // the dot excludes search domains
	var got []string
	if query.Type == SRV {
		_, records, err := c.Resolver.LookupSRV(ctx, "", "", name)
		for _, record := range records {
			got = append(got, net.JoinHostPort(strings.TrimSuffix(record.Target, "."), strconv.Itoa(int(record.Port))))
		}
		slices.Sort(got)
		return slices.Compact(got), err
	}
	network := "ip4"
	if query.Type == AAAA {
		network = "ip6"
	}
	addresses, err := c.Resolver.LookupNetIP(ctx, network, name)
	for _, address := range addresses {
		got = append(got, address.Unmap().String())
	}
	slices.Sort(got)
	return slices.Compact(got), err
}

func outcomeOfLookup(err error) podprobe.Outcome {
	var failure *net.DNSError
	switch {
	case errors.As(err, &failure) && failure.IsNotFound:
		return podprobe.NotFound
	case errors.As(err, &failure) && failure.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return podprobe.TimedOut
	}
	return podprobe.Failed
}

// reach sends requests until all clusters have answered that should, or the patience is over. Something
// that answered is measured in any case.
func (c *Client) reach(ctx context.Context, plan Plan, target Target) Contact {
	patient, cancel := context.WithTimeout(ctx, plan.Patience)
	defer cancel()
	for {
		contact := c.reachAll(ctx, patient, plan, target)
		if contact.Failed == 0 && contact.answeredByAll(target.Clusters) {
			return contact
		}
		if pause(patient, c.Retry); patient.Err() != nil {
			return contact
		}
	}
}

// reachAll sends requests until one fails, all clusters have answered that should, or chance should have
// led to them.
func (c *Client) reachAll(ctx, patient context.Context, plan Plan, target Target) Contact {
	contact := Contact{Network: target.Network, Address: target.Address, Outcome: podprobe.Succeeded, Clusters: map[string]int{}}
	for range max(1, target.Requests) {
		identity, _, err := c.ask(ctx, plan, target)
		if contact.record(identity, err); err != nil || contact.answeredByAll(target.Clusters) || patient.Err() != nil {
			break
		}
	}
	return contact
}

func (c *Contact) answeredByAll(clusters []string) bool {
	return !slices.ContainsFunc(clusters, func(cluster string) bool { return c.Clusters[cluster] == 0 })
}

// record adds a request.
func (c *Contact) record(identity Identity, err error) {
	c.Sent++
	if err == nil {
		c.Clusters[identity.Cluster]++
		return
	}
	if c.Failed++; c.Failed == 1 {
		c.Outcome, c.Error = outcomeOf(err), err.Error()
	}
}

// measure sends the other requests to a target that responds.
func (c *Client) measure(ctx context.Context, plan Plan, target Target, contact *Contact) {
	var times []time.Duration
	for range target.Requests {
		if ctx.Err() != nil {
			return
		}
		identity, took, err := c.ask(ctx, plan, target)
		if contact.record(identity, err); err == nil {
			times = append(times, took)
		}
	}
	contact.RoundTrip = median(times)
}

// errStranger is for answers of programs that do not belong to the run.
var errStranger = errors.New("something else answered: another Pod or host has this address")

// ask sends a request on a connection of its own, and returns the answer and how long it took.
func (c *Client) ask(ctx context.Context, plan Plan, target Target) (Identity, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, plan.Timeout)
	defer cancel()
	network := strings.ToLower(string(target.Network))
	connection, err := c.Dial(ctx, network, target.Address)
	if err != nil {
		return Identity{}, 0, err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })() // ends what waits
	number := rand.Uint64()                                                                //nolint:gosec // tells requests apart, no secret
	sent := time.Now()
	if target.Network == UDP {
		return exchangeDatagrams(ctx, connection, plan.Key, number, sent)
	}
	if _, err := io.WriteString(connection, request(plan.Key, number)); err != nil {
		return Identity{}, 0, cmp.Or(ctx.Err(), err)
	}
	line, err := bufio.NewReader(io.LimitReader(connection, maxMessage)).ReadString('\n')
	took := time.Since(sent)
	switch {
	case ctx.Err() != nil:
		return Identity{}, 0, fmt.Errorf("connected, but there was no answer: %w", ctx.Err())
	case err != nil && line == "" && errors.Is(err, io.EOF):
		return Identity{}, 0, fmt.Errorf("connected, but the connection was closed without an answer: %w", errStranger)
	case err != nil:
		return Identity{}, 0, err
	}
	identity, err := parseAnswer(line, plan.Key, number)
	return identity, took, err
}

// exchangeDatagrams repeats a request until it is answered: single datagrams may be lost. The time is
// that since the first.
func exchangeDatagrams(ctx context.Context, connection net.Conn, key string, number uint64, sent time.Time) (Identity, time.Duration, error) {
	buffer := make([]byte, maxMessage)
	for {
		if _, err := io.WriteString(connection, request(key, number)); err != nil {
			return Identity{}, 0, cmp.Or(ctx.Err(), err)
		}
		if err := connection.SetReadDeadline(time.Now().Add(datagramInterval)); err != nil {
			return Identity{}, 0, err
		}
		n, err := connection.Read(buffer)
		took := time.Since(sent)
		var timeout net.Error
		switch {
		case ctx.Err() != nil:
			return Identity{}, 0, ctx.Err()
		case errors.As(err, &timeout) && timeout.Timeout():
			continue
		case err != nil:
			return Identity{}, 0, err
		}
		identity, err := parseAnswer(string(buffer[:n]), key, number)
		return identity, took, err
	}
}

func parseAnswer(text, key string, number uint64) (Identity, error) {
	var found answer
	if json.Unmarshal([]byte(text), &found) != nil || found.Number != number || found.Cluster == "" || !isSigned(found.Signature, key, found.signed()) {
		return Identity{}, errStranger
	}
	return found.Identity, nil
}

func outcomeOf(err error) podprobe.Outcome {
	var failure net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return podprobe.Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return podprobe.Unreachable
	case errors.Is(err, errStranger):
		return podprobe.Failed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &failure) && failure.Timeout():
		return podprobe.TimedOut
	}
	return podprobe.Failed
}
