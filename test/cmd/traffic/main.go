// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command traffic runs in Pods of local clusters. With the argument "serve", it answers every
// connection to port 8080 with the name of the Pod. With the argument "call", it calls services at
// port 80 by their names, and prints results. With "record", it prints every call of a service.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/traffic"
)

// drain is how long a server that was told to end keeps answering, as servers do that let the
// clients of other clusters learn about it.
const drain = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "serve":
		return serve(ctx)
	case len(args) > 1 && args[0] == "call":
		newCaller(args[1:]).Run(ctx)
		return nil
	case len(args) == 2 && args[0] == "record":
		caller := newCaller(args[1:])
		caller.Report, caller.Record = func(traffic.Report) {}, record()
		caller.Run(ctx)
		return nil
	}
	return fmt.Errorf("unknown arguments %q: use 'serve', 'call HOST...', or 'record HOST'", args)
}

func serve(ctx context.Context) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() {
		time.Sleep(drain)
		listener.Close()
	})
	return traffic.Serve(listener, name)
}

// newCaller returns a caller of services that prints what became of all calls.
func newCaller(hosts []string) *traffic.Caller {
	return &traffic.Caller{
		Hosts: hosts,
		Call:  func(ctx context.Context, host string) (string, error) { return traffic.Call(ctx, host, "80") },
		Report: func(report traffic.Report) {
			_ = json.NewEncoder(os.Stdout).Encode(report) // a missing report is noticed
		},
	}
}

// record returns a function that prints attempts, one at a time.
func record() func(traffic.Attempt) {
	var mu sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	return func(attempt traffic.Attempt) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(attempt) // a missing attempt is noticed
	}
}
