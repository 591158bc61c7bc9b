// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Command traffic runs in Pods of local clusters. With the argument "serve", it answers every
// connection to port 8080 with the name of the Pod. With the argument "call", it calls services at
// port 80 by their names, and prints results.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
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
		call(ctx, args[1:])
		return nil
	}
	return fmt.Errorf("unknown arguments %q: use 'serve', or 'call HOST...'", args)
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

func call(ctx context.Context, hosts []string) {
	caller := traffic.Caller{Hosts: hosts, Report: func(report traffic.Report) {
		_ = json.NewEncoder(os.Stdout).Encode(report) // a missing report is noticed
	}}
	caller.Call = func(ctx context.Context, host string) (string, error) { return traffic.Call(ctx, host, "80") }
	caller.Run(ctx)
}
