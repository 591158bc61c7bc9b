// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/podprobe"
)

// R548: mcs-controller probe is part of the image, and takes what the doctor gives it.
func TestProbeCommand(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"probe"}, podprobe.Request{Addresses: []string{listener.Addr().String()}, ServiceAddresses: []string{listener.Addr().String()}, Timeout: 10 * time.Second}.Args()...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := podprobe.Parse(&out)
	if err != nil || !results.Done || len(results.Connections) != 1+podprobe.Attempts || results.Connections[0].Outcome != podprobe.Succeeded {
		t.Errorf("got %+v, error %v", results, err)
	}
}

func TestProbeHelp(t *testing.T) {
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"probe", "--help"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if help := out.String(); !strings.Contains(help, "--address") || strings.Contains(help, "--serving-cert-dir") {
		t.Errorf("help is\n%s", help)
	}
}

func TestProbeRequiresATimeout(t *testing.T) {
	cmd := NewCommand()
	cmd.SetOut(new(bytes.Buffer))
	cmd.SetErr(new(bytes.Buffer))
	cmd.SetArgs([]string{"probe", "--timeout=0s"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--timeout") {
		t.Errorf("got error %v", err)
	}
}
