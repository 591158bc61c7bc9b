// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// R583: a port that is always the same never has the IP as origin, which another program at the port may
// have left something behind for, and a page that has it also has a name of its own.
func TestAddressOfThePage(t *testing.T) {
	for _, test := range []struct {
		name            string
		port            int
		fixed, resolves bool
		want            []string
		note            string
	}{
		{"any port", 40001, false, true, []string{"x.localhost:40001"}, ""},
		{"any port, names do not resolve", 40001, false, false, []string{"x.localhost:40001", "127.0.0.1:40001"}, "use the second one only for another browser"},
		{"this port", 8001, true, true, []string{"x.localhost:8001"}, ""},
		{"this port, names do not resolve", 8001, true, false, []string{"x.localhost:8001"}, "leave --port out"},
		{"a port that browsers leave out", 80, true, true, []string{"x.localhost"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := newAddress("x.localhost", test.port, test.fixed, test.resolves)
			if got := at.origins(); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			text := at.text("SECRET")
			for _, origin := range test.want {
				if !strings.Contains(text, "http://"+origin+"/#token=SECRET\n") {
					t.Errorf("got text %s without %s", text, origin)
				}
			}
			if strings.Count(text, "SECRET") != len(test.want) || !strings.Contains(text, test.note) || (at.note == "") != (test.note == "") {
				t.Errorf("got text %s", text)
			}
		})
	}
}

// R583: the host of every page is another one.
func TestHostsDiffer(t *testing.T) {
	one, other := newHost(), newHost()
	if one == other || !strings.HasSuffix(one, ".localhost") || len(one) < 30 || one != strings.ToLower(one) {
		t.Errorf("got %s and %s", one, other)
	}
}

// R583: a DNS server that answers with another machine is not believed.
func TestOnlyLoopbackResolves(t *testing.T) {
	for ips, want := range map[string]bool{"": false, "127.0.0.1": true, "127.0.0.1 ::1": true, "::ffff:127.0.0.1": true, "192.0.2.1": false, "127.0.0.1 192.0.2.1": false} {
		var found []netip.Addr
		for _, ip := range strings.Fields(ips) {
			found = append(found, netip.MustParseAddr(ip))
		}
		if got := allLoopback(found); got != want {
			t.Errorf("%s: got %t", ips, got)
		}
	}
}

// R583: nobody else listens at the other loopback address, to which browsers may resolve the name.
func TestBothLoopbackAddressesAreTaken(t *testing.T) {
	other, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	defer other.Close()
	if taken, err := listenLoopback(t.Context(), portOf(other)); err == nil || !strings.Contains(err.Error(), "::1") {
		t.Errorf("got listeners %v, error %v at a port that is in use at ::1", taken, err)
	}
	listeners, err := listenLoopback(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, listener := range listeners {
		defer listener.Close()
	}
	for _, ip := range []string{"127.0.0.1", "::1"} {
		if taken, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(portOf(listeners[0])))); err == nil {
			taken.Close()
			t.Errorf("%s is not taken", ip)
		}
	}
}
