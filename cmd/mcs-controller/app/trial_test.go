// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/podtrial"
)

// R561: mcs-controller trial is part of the image, and takes what kubectl mcs test gives it.
func TestTrialCommands(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := NewCommand()
	server.SetArgs([]string{"trial", "serve", "--key=x", "--cluster=east", "--port=" + port})
	served := make(chan error, 1)
	go func() { served <- server.ExecuteContext(ctx) }()
	plan := podtrial.Plan{Key: "x", Patience: 20 * time.Second, Timeout: 5 * time.Second, Targets: []podtrial.Target{
		{Network: podtrial.TCP, Address: address, Requests: 2}, {Network: podtrial.UDP, Address: address, Requests: 2},
	}}
	args, err := plan.Args()
	if err != nil {
		t.Fatal(err)
	}
	// Commands share some flags: the next one has to wait until the server has parsed its own, and answers.
	if err := podtrial.NewClient().Run(t.Context(), plan, io.Discard); err != nil {
		t.Fatal(err)
	}
	client := NewCommand()
	var out bytes.Buffer
	client.SetOut(&out)
	client.SetArgs(append([]string{"trial", "call"}, args...))
	if err := client.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := podtrial.Parse(&out)
	if err != nil || !results.Done || len(results.Contacts) != 2 {
		t.Fatalf("got %+v, error %v", results, err)
	}
	for _, contact := range results.Contacts {
		if contact.Outcome != podprobe.Succeeded || contact.Clusters["east"] != 3 {
			t.Errorf("got %+v", contact)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func TestTrialHelp(t *testing.T) {
	for _, args := range [][]string{{"trial", "--help"}, {"trial", "serve", "--help"}, {"trial", "call", "--help"}} {
		cmd := NewCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if help := out.String(); !strings.Contains(help, "Usage:") || strings.Contains(help, "--serving-cert-dir") {
			t.Errorf("help of %v is\n%s", args, help)
		}
	}
}

func TestTrialArgumentsAreValidated(t *testing.T) {
	for _, args := range [][]string{{"trial", "call"}, {"trial", "call", "--plan={}"}, {"trial", "serve", "--key=x"}} {
		cmd := NewCommand()
		cmd.SetOut(new(bytes.Buffer))
		cmd.SetErr(new(bytes.Buffer))
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%v succeeds", args)
		}
	}
}
