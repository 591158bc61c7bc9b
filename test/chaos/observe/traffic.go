// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/traffic"
)

const (
	// callTimeout is how long a lookup, and a connection, may take.
	callTimeout = 3 * time.Second
	servicePort = "80"
	// ServerPort is the port at which servers listen.
	ServerPort = "8080"
)

// Serve answers connections to all addresses, which are made addresses of the cluster's node,
// with the name of the cluster and the address, until the context is done.
func Serve(ctx context.Context, cluster *localcluster.Cluster, network string, addresses []string) error {
	if err := cluster.Node().Own(network); err != nil {
		return err
	}
	for _, address := range addresses {
		listener, err := cluster.Node().Listen(net.JoinHostPort(address, ServerPort))
		if err != nil {
			return fmt.Errorf("listen at %s in %s: %w", address, cluster.Name, err)
		}
		context.AfterFunc(ctx, func() { listener.Close() })
		go func() { _ = traffic.Serve(listener, cluster.Name+" "+address) }() // clients notice
	}
	return nil
}

// Caller looks up services and connects to them, in the network of a cluster.
type Caller struct {
	Cluster  *localcluster.Cluster
	Services []history.Service
	// Endpoints is the network of all endpoints, to which headless services lead.
	Endpoints []netip.Prefix
	Record    func(history.Entry)
	Random    *rand.Rand
}

// Run calls services until the context is done.
func (c *Caller) Run(ctx context.Context, period time.Duration) {
	for ctx.Err() == nil {
		c.call(ctx, c.Services[c.Random.IntN(len(c.Services))])
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
}

func (c *Caller) call(ctx context.Context, of history.Service) {
	answers, err := c.lookUp(ctx, of)
	if ctx.Err() != nil {
		return
	}
	lookup := history.Lookup{Cluster: c.Cluster.Name, Service: of}
	for _, answer := range answers {
		lookup.Answers = append(lookup.Answers, answer.Unmap().String())
	}
	var problem *net.DNSError
	if lookup.NotFound = errors.As(err, &problem) && problem.IsNotFound; err != nil {
		lookup.Error = err.Error()
	}
	c.Record(history.Entry{Lookup: &lookup})
	if len(answers) > 0 {
		c.connect(ctx, of, answers[c.Random.IntN(len(answers))].Unmap())
	}
}

func (c *Caller) lookUp(ctx context.Context, of history.Service) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return c.Cluster.Node().Dial(ctx, network, net.JoinHostPort(c.Cluster.DNSIPs()[0], "53"))
	}}
	return resolver.LookupNetIP(ctx, "ip4", of.Name+"."+of.Namespace+".svc.clusterset.local.")
}

func (c *Caller) connect(ctx context.Context, of history.Service, address netip.Addr) {
	port := servicePort
	for _, network := range c.Endpoints {
		if network.Contains(address) {
			port = ServerPort
		}
	}
	connection := history.Connection{Cluster: c.Cluster.Name, Service: of, Began: time.Now().Round(0)}
	answer, err := c.exchange(ctx, net.JoinHostPort(address.String(), port))
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		connection.Error, connection.Refused = err.Error(), errors.Is(err, syscall.ECONNREFUSED)
	} else {
		connection.BackendCluster, connection.BackendAddress, _ = strings.Cut(answer, " ")
	}
	c.Record(history.Entry{Connection: &connection})
}

func (c *Caller) exchange(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := c.Cluster.Node().Dial(ctx, "tcp4", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 256))
	if err == nil && len(answer) == 0 {
		err = errors.New("the connection was closed without an answer")
	}
	return string(answer), err
}
