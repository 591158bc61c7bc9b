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

// all allocates until nothing is left.
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
			t.Fatalf("%s was given twice", addr)
		}
		used[addr] = true
		ips = append(ips, got[0])
	}
}

func TestAllUsableAddressesAreGiven(t *testing.T) {
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

func TestServiceThatComesBackGetsTheAddressItHad(t *testing.T) {
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
	// Another release must not get another one.
	if want := []string{"243.1.128.34", "fd00:243:0:1:4a2f:d72d:8cb6:b875"}; !slices.Equal(first, want) {
		t.Errorf("web got %v instead of %v", first, want)
	}
}

func TestAddressPerWantedFamily(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, test := range map[string]struct {
		cidrs    []netip.Prefix
		families []corev1.IPFamily
		want     []string
		err      string
	}{
		"all that the pool has":           {prefixes("fd00::1/128", "243.1.0.1/32"), nil, []string{"fd00::1", "243.1.0.1"}, ""},
		"in the order of the families":    {prefixes("243.1.0.1/32", "fd00::1/128"), []corev1.IPFamily{v6, v4}, []string{"fd00::1", "243.1.0.1"}, ""},
		"only the wanted":                 {prefixes("243.1.0.1/32", "fd00::1/128"), []corev1.IPFamily{v6}, []string{"fd00::1"}, ""},
		"only those that the pool has":    {prefixes("243.1.0.1/32"), []corev1.IPFamily{v6, v4}, []string{"243.1.0.1"}, ""},
		"one, if a family is named twice": {prefixes("243.1.0.0/30"), []corev1.IPFamily{v4, v4}, []string{"243.1.0.2"}, ""},
		"none of the wanted":              {prefixes("243.1.0.1/32"), []corev1.IPFamily{v6}, nil, "no CIDR of the IP families [IPv6] of ns/web, but only 243.1.0.1/32"},
		"an empty pool":                   {nil, nil, nil, "the cluster has no CIDR"},
		"one family is exhausted":         {prefixes("243.1.0.1/32", "243.1.0.9/32", "fd00::f/128"), nil, nil, "no address is left in fd00::f/128"},
		"several CIDRs are exhausted":     {prefixes("fd00::f/128", "fd00::e/128"), nil, nil, "no address is left in fd00::f/128, fd00::e/128"},
	} {
		t.Run(name, func(t *testing.T) {
			used := map[netip.Addr]bool{netip.MustParseAddr("fd00::e"): true, netip.MustParseAddr("fd00::f"): true, netip.MustParseAddr("243.1.0.9"): true}
			got, err := NewPool(test.cidrs).Allocate("ns/web", test.families, in(used))
			if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v (%v), want %v (%s)", got, err, test.want, test.err)
			}
			if exhausted := (*ExhaustedError)(nil); errors.As(err, &exhausted) != strings.Contains(test.err, "left") {
				t.Errorf("%v is of the wrong type", err)
			}
		})
	}
}

func TestHugeCIDRsCostNoMoreThanSmallOnes(t *testing.T) {
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
				t.Fatalf("%s was given in %s", addr, prefix)
			}
			used[addr] = true
		}
	}
}

// The search goes on at the beginning when it comes to the end.
func TestLastFreeAddressIsFound(t *testing.T) {
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
	for name, count := range map[string]int{"empty": 0, "nearly full": 1<<16 - 10} {
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
