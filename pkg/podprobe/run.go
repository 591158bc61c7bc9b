// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package podprobe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// resolvConf is where the DNS servers of a Pod are.
const resolvConf = "/etc/resolv.conf"

// maxConnections limits how many connections are attempted at the same time.
const maxConnections = 64

// Prober tries what a request asks for.
type Prober struct {
	// Resolve returns the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address.
	Dial func(ctx context.Context, address string) (io.Closer, error)
	// ResolvConf is the name of the file with the DNS servers.
	ResolvConf string
}

// New returns a prober that uses the resolver of Go, which follows the resolv.conf of the Pod.
func New() *Prober {
	resolver := &net.Resolver{PreferGo: true}
	var dialer net.Dialer
	return &Prober{
		Resolve: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return resolver.LookupNetIP(ctx, "ip", name)
		},
		Dial: func(ctx context.Context, address string) (io.Closer, error) {
			return dialer.DialContext(ctx, "tcp", address)
		},
		ResolvConf: resolvConf,
	}
}

// Run tries everything, and writes a line for each result.
func (p *Prober) Run(ctx context.Context, request Request, out io.Writer) error {
	encoder := json.NewEncoder(out)
	addresses := request.addresses()
	if request.Name != "" {
		lookup := p.lookup(ctx, request)
		if err := encoder.Encode(Line{Lookup: &lookup}); err != nil {
			return err
		}
	}
	for _, connection := range p.connectAll(ctx, addresses, request.Timeout) {
		if err := encoder.Encode(Line{Connection: &connection}); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return encoder.Encode(Line{Done: true})
}

// addresses returns what is connected, each as often as it is.
func (r Request) addresses() []string {
	addresses, services := slices.Clone(r.Addresses), slices.Clone(r.ServiceAddresses)
	slices.Sort(addresses)
	slices.Sort(services)
	addresses = slices.Compact(addresses)
	for _, service := range slices.Compact(services) {
		addresses = append(addresses, slices.Repeat([]string{service}, Attempts)...)
	}
	return addresses
}

func (p *Prober) lookup(ctx context.Context, request Request) Lookup {
	ctx, cancel := context.WithTimeout(ctx, request.Timeout)
	defer cancel()
	lookup := Lookup{Name: request.Name, Outcome: Succeeded, Servers: servers(p.ResolvConf)}
	found, err := p.Resolve(ctx, strings.TrimSuffix(request.Name, ".")+".") // the dot excludes search domains
	for _, address := range found {
		lookup.Addresses = append(lookup.Addresses, address.Unmap().String())
	}
	slices.Sort(lookup.Addresses)
	if err == nil {
		return lookup
	}
	lookup.Outcome, lookup.Error = Failed, err.Error()
	var failure *net.DNSError
	switch {
	case errors.As(err, &failure) && failure.IsNotFound:
		lookup.Outcome = NotFound
	case errors.As(err, &failure) && failure.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		lookup.Outcome = TimedOut
	}
	return lookup
}

// servers returns the DNS servers in a resolv.conf.
func servers(file string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			found = append(found, fields[1])
		}
	}
	return found
}

// connectAll connects to all addresses, several at a time.
func (p *Prober) connectAll(ctx context.Context, addresses []string, timeout time.Duration) []Connection {
	results := make([]Connection, len(addresses))
	slots := make(chan struct{}, maxConnections)
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = p.connect(ctx, address, timeout)
		})
	}
	group.Wait()
	return results
}

// connect connects to an address, and sends nothing.
func (p *Prober) connect(ctx context.Context, address string, timeout time.Duration) Connection {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	connection, err := p.Dial(ctx, address)
	result := Connection{Address: address, Outcome: Succeeded, Milliseconds: time.Since(start).Milliseconds()}
	if err == nil {
		_ = connection.Close() // the result is known
		return result
	}
	result.Outcome, result.Error = outcomeOf(err), err.Error()
	return result
}

func outcomeOf(err error) Outcome {
	var failure net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Unreachable
	case errors.As(err, &failure) && failure.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return Failed
}
