// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"testing"
)

func pool(t *testing.T, cidr string) *Pool {
	t.Helper()
	p, err := NewPool(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func take(t *testing.T, p *Pool) netip.Addr {
	t.Helper()
	address, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func TestPoolSkipsGatewayAndBroadcast(t *testing.T) {
	p := pool(t, "10.81.0.0/29")
	if got := p.Gateway().String(); got != "10.81.0.1/29" {
		t.Errorf("gateway %s", got)
	}
	for _, want := range []string{"10.81.0.2", "10.81.0.3", "10.81.0.4", "10.81.0.5", "10.81.0.6"} {
		if got := take(t, p).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if address, err := p.Take(); err == nil {
		t.Errorf("exhausted pool allocated %s", address)
	}
}

func TestPoolReusesAddressesLate(t *testing.T) {
	p := pool(t, "fd00:81::/125")
	first := take(t, p)
	p.Release(first)
	for range 5 { // ::3 to ::7
		if got := take(t, p); got == first {
			t.Fatalf("%s was reused while other addresses were free", first)
		}
	}
	if got := take(t, p); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
}

func TestPoolRejectsInvalidCIDRs(t *testing.T) {
	for _, cidr := range []string{"", "10.81.0.0", "10.81.0.0/31", "fd00:81::/127"} {
		if _, err := NewPool(cidr); err == nil {
			t.Errorf("%q was accepted", cidr)
		}
	}
}
