// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func in(used map[netip.Addr]bool) func(netip.Addr) bool {
	return func(address netip.Addr) bool { return used[address] }
}

// all allocates until the pool is exhausted.
func all(t *testing.T, pool Pool) []string {
	t.Helper()
	used := map[netip.Addr]bool{}
	var ips []string
	for {
		got, err := pool.Allocate("ns/web", nil, in(used))
		if exhausted := (*ExhaustedError)(nil); errors.As(err, &exhausted) {
			slices.Sort(ips)
			return ips
		} else if err != nil {
			t.Fatal(err)
		}
		addr := netip.MustParseAddr(got[0])
		if used[addr] {
			t.Fatalf("%s was allocated twice", addr)
		}
		used[addr] = true
		ips = append(ips, got[0])
	}
}

func TestAllUsableAddressesAreAllocated(t *testing.T) {
	for cidr, want := range map[string][]string{
		"243.1.0.0/29":       {"243.1.0.1", "243.1.0.2", "243.1.0.3", "243.1.0.4", "243.1.0.5", "243.1.0.6"},
		"243.1.0.0/30":       {"243.1.0.1", "243.1.0.2"},
		"243.1.0.2/31":       {"243.1.0.2", "243.1.0.3"},
		"243.1.0.3/32":       {"243.1.0.3"},
		"fd00::10/126":       {"fd00::11", "fd00::12", "fd00::13"},
		"fd00::10/127":       {"fd00::10", "fd00::11"},
		"fd00::10/128":       {"fd00::10"},
		"243.1.0.0/30 twice": {"243.1.0.1", "243.1.0.2", "243.9.0.1", "243.9.0.2"},
	} {
		t.Run(cidr, func(t *testing.T) {
			cidrs := prefixes(strings.TrimSuffix(cidr, " twice"))
			if strings.HasSuffix(cidr, " twice") {
				cidrs = append(cidrs, netip.MustParsePrefix("243.9.0.0/30"))
			}
			if got := all(t, NewPool(cidrs)); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestServiceExportedAgainGetsItsFormerAddress(t *testing.T) {
	pool := NewPool(prefixes("243.1.0.0/16", "fd00:243:0:1::/64"))
	first, err := pool.Allocate("ns/web", nil, in(nil))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := pool.Allocate("ns/web", nil, in(map[netip.Addr]bool{netip.MustParseAddr("243.1.0.1"): true}))
	other, _ := pool.Allocate("ns/other", nil, in(nil))
	if !slices.Equal(first, again) || first[0] == other[0] || first[1] == other[1] {
		t.Errorf("web got %v, then %v, and other %v", first, again, other)
	}
	// The address must not change between releases.
	if want := []string{"243.1.128.34", "fd00:243:0:1:4a2f:d72d:8cb6:b875"}; !slices.Equal(first, want) {
		t.Errorf("web got %v, want %v", first, want)
	}
}

func TestAddressPerRequestedFamily(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, test := range map[string]struct {
		cidrs    []netip.Prefix
		families []corev1.IPFamily
		want     []string
		err      string
	}{
		"all families of the pool":     {prefixes("fd00::1/128", "243.1.0.1/32"), nil, []string{"fd00::1", "243.1.0.1"}, ""},
		"in the order of the families": {prefixes("243.1.0.1/32", "fd00::1/128"), []corev1.IPFamily{v6, v4}, []string{"fd00::1", "243.1.0.1"}, ""},
		"requested families only":      {prefixes("243.1.0.1/32", "fd00::1/128"), []corev1.IPFamily{v6}, []string{"fd00::1"}, ""},
		"families of the pool only":    {prefixes("243.1.0.1/32"), []corev1.IPFamily{v6, v4}, []string{"243.1.0.1"}, ""},
		"family requested twice":       {prefixes("243.1.0.0/30"), []corev1.IPFamily{v4, v4}, []string{"243.1.0.2"}, ""},
		"no requested family":          {prefixes("243.1.0.1/32"), []corev1.IPFamily{v6}, nil, "no allocation CIDR of the IP families [IPv6] of ns/web, only 243.1.0.1/32"},
		"an empty pool":                {nil, nil, nil, "this cluster has no allocation CIDR"},
		"one family is exhausted":      {prefixes("243.1.0.1/32", "243.1.0.9/32", "fd00::f/128"), nil, nil, "allocation CIDR fd00::f/128 is exhausted"},
		"several CIDRs are exhausted":  {prefixes("fd00::f/128", "fd00::e/128"), nil, nil, "allocation CIDR fd00::f/128, fd00::e/128 is exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			used := map[netip.Addr]bool{netip.MustParseAddr("fd00::e"): true, netip.MustParseAddr("fd00::f"): true, netip.MustParseAddr("243.1.0.9"): true}
			got, err := NewPool(test.cidrs).Allocate("ns/web", test.families, in(used))
			if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v (%v), want %v (%s)", got, err, test.want, test.err)
			}
			if exhausted := (*ExhaustedError)(nil); errors.As(err, &exhausted) != strings.Contains(test.err, "exhausted") {
				t.Errorf("got error %v of the wrong type", err)
			}
		})
	}
}

func TestAllocationFromHugeCIDRsIsCheap(t *testing.T) {
	for _, cidr := range []string{"fd00::/8", "fd00:243::/64", "::/0", "0.0.0.0/0"} {
		prefix := netip.MustParsePrefix(cidr)
		pool, used := NewPool(prefixes(cidr)), map[netip.Addr]bool{}
		for range 100 {
			ips, err := pool.Allocate("ns/web", nil, in(used))
			if err != nil {
				t.Fatal(err)
			}
			addr := netip.MustParseAddr(ips[0])
			if used[addr] || !prefix.Contains(addr) {
				t.Fatalf("allocated %s from %s", addr, prefix)
			}
			used[addr] = true
		}
	}
}

// The search wraps around at the end of the CIDR.
func TestLastUnusedAddressIsFound(t *testing.T) {
	pool := NewPool(prefixes("243.1.0.0/24"))
	for free := 1; free <= 254; free++ {
		used := map[netip.Addr]bool{}
		for i := range 256 {
			used[netip.AddrFrom4([4]byte{243, 1, 0, byte(i)})] = i != free
		}
		want := fmt.Sprintf("243.1.0.%d", free)
		if got, err := pool.Allocate("ns/web", nil, in(used)); err != nil || got[0] != want {
			t.Fatalf("got %v (%v), want %s", got, err, want)
		}
	}
}

func BenchmarkAllocate(b *testing.B) {
	pool := NewPool(prefixes("243.1.0.0/16"))
	for name, count := range map[string]int{"empty": 0, "nearly exhausted": 1<<16 - 10} {
		used := map[netip.Addr]bool{}
		for addr := netip.MustParseAddr("243.1.0.0"); len(used) < count; addr = addr.Next() {
			used[addr] = true
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := pool.Allocate("ns/web", nil, in(used)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
