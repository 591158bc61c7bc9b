// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package podprobe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake returns a prober with a resolver and a network of its own.
func fake(t *testing.T, resolve error, addresses ...string) *Prober {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("search shop.svc.cluster.local\nnameserver 10.0.0.10\nnameserver fd00::10\noptions ndots:5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Prober{
		ResolvConf: file,
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name != "web.shop.svc.clusterset.local." {
				t.Errorf("looked up %q", name)
			}
			var found []netip.Addr
			for _, address := range addresses {
				found = append(found, netip.MustParseAddr(address))
			}
			return found, resolve
		},
		Dial: func(_ context.Context, address string) (io.Closer, error) {
			for prefix, err := range map[string]error{
				"10.0.0.1:": syscall.ECONNREFUSED, "10.0.0.2:": syscall.EHOSTUNREACH, "10.0.0.3:": context.DeadlineExceeded, "10.0.0.4:": io.EOF, "10.0.0.5:": os.ErrDeadlineExceeded,
			} {
				if strings.HasPrefix(address, prefix) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
				}
			}
			return io.NopCloser(nil), nil
		},
	}
}

// R548: everything that is asked for is tried, and its outcome is told.
func TestProbe(t *testing.T) {
	request := Request{
		Name: "web.shop.svc.clusterset.local", Timeout: time.Second, ServiceAddresses: []string{"[fd00::7]:80"},
		Addresses: []string{"10.0.0.2:80", "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "10.0.0.5:80", "10.0.0.6:80"},
	}
	var out bytes.Buffer
	out.WriteString("I1118 a line of a log\n{not JSON\n")
	if err := fake(t, nil, "::ffff:10.0.0.7", "fd00::8").Run(t.Context(), request, &out); err != nil {
		t.Fatal(err)
	}
	results, err := Parse(&out)
	if err != nil || !results.Done {
		t.Fatalf("done is %t, error %v", results.Done, err)
	}
	want := &Lookup{Name: request.Name, Addresses: []string{"10.0.0.7", "fd00::8"}, Outcome: Succeeded, Servers: []string{"10.0.0.10", "fd00::10"}}
	if diff := cmp.Diff(want, results.Lookup); diff != "" {
		t.Errorf("unexpected lookup (-want +got):\n%s", diff)
	}
	var got []string
	for _, connection := range results.Connections {
		got = append(got, fmt.Sprintf("%s %s", connection.Address, connection.Outcome))
	}
	// What DNS answers is not connected: the answer may be old.
	if diff := cmp.Diff(append([]string{
		"10.0.0.1:80 Refused", "10.0.0.2:80 Unreachable", "10.0.0.3:80 TimedOut", "10.0.0.4:80 Failed", "10.0.0.5:80 TimedOut", "10.0.0.6:80 Succeeded",
	}, slices.Repeat([]string{"[fd00::7]:80 Succeeded"}, Attempts)...), got); diff != "" {
		t.Errorf("unexpected connections (-want +got):\n%s", diff)
	}
}

// R548: why a name is not found is told.
func TestLookupFails(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Outcome
	}{
		{&net.DNSError{Err: "no such host", IsNotFound: true}, NotFound},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, TimedOut},
		{context.DeadlineExceeded, TimedOut},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, Failed},
		{errors.New("other"), Failed},
	} {
		var out bytes.Buffer
		if err := fake(t, test.err).Run(t.Context(), Request{Name: "web.shop.svc.clusterset.local.", Timeout: time.Second}, &out); err != nil {
			t.Fatal(err)
		}
		results, err := Parse(&out)
		if err != nil || results.Lookup == nil || results.Lookup.Outcome != test.want || results.Lookup.Error != test.err.Error() || len(results.Connections) > 0 {
			t.Errorf("%v: got %+v, error %v", test.err, results.Lookup, err)
		}
	}
}

// A real connection, and one that is refused.
func TestRealConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	request := Request{Addresses: []string{listener.Addr().String(), closed.Addr().String()}, Timeout: 10 * time.Second}
	var out bytes.Buffer
	if err := New().Run(t.Context(), request, &out); err != nil {
		t.Fatal(err)
	}
	results, err := Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, connection := range results.Connections {
		want := Succeeded
		if connection.Address == closed.Addr().String() {
			want = Refused
		}
		if connection.Outcome != want {
			t.Errorf("%+v", connection)
		}
	}
	if len(results.Connections) != 2 {
		t.Errorf("got %+v", results)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := fake(t, nil).Run(ctx, Request{Timeout: time.Second}, &out); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	if results, err := Parse(&out); err != nil || results.Done {
		t.Errorf("done is %t, error %v", results.Done, err)
	}
}

func TestArgs(t *testing.T) {
	got := Request{Name: "a.b", ServiceAddresses: []string{"10.0.0.7:80"}, Addresses: []string{"10.2.0.1:80"}, Timeout: 3 * time.Second}.Args()
	if !slices.Equal(got, []string{"--timeout=3s", "--name=a.b", "--service-address=10.0.0.7:80", "--address=10.2.0.1:80"}) {
		t.Errorf("got %q", got)
	}
}
