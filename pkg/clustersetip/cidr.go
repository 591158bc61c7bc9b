// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// allocationLength is the prefix length of an automatically assigned allocation CIDR:
// about 65000 addresses.
var allocationLength = map[corev1.IPFamily]int{corev1.IPv4Protocol: 16, corev1.IPv6Protocol: 112}

// ParseCIDRs parses a list of CIDRs. It returns all errors; each names the text and, if
// possible, the correct form. It accepts canonical CIDRs only, since clusters could
// interpret others differently.
func ParseCIDRs(texts []string) ([]netip.Prefix, error) {
	cidrs := make([]netip.Prefix, 0, len(texts))
	var errs []error
	for _, text := range texts {
		cidr, err := parseCIDR(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("CIDR %q: %w", text, err))
			continue
		}
		cidrs = append(cidrs, cidr)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return cidrs, nil
}

func parseCIDR(text string) (netip.Prefix, error) {
	cidr, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New("must be of the form 243.1.0.0/16 or fd00:243::1:0/112")
	case cidr.Addr().Is4In6() && cidr.Bits() >= 96:
		right := netip.PrefixFrom(cidr.Addr().Unmap(), cidr.Bits()-96).Masked()
		return netip.Prefix{}, fmt.Errorf("must not be IPv4-mapped IPv6, use %s", right)
	case cidr != cidr.Masked():
		return netip.Prefix{}, fmt.Errorf("must not have bits set beyond its prefix length, use %s", cidr.Masked())
	}
	return cidr, nil
}

// Outside returns the prefixes of the CIDRs that are not within the ranges, in the order
// of the CIDRs, with as few prefixes as possible for each.
func Outside(cidrs, ranges []netip.Prefix) []netip.Prefix {
	var outside []netip.Prefix
	for _, cidr := range cidrs {
		within := func(r netip.Prefix) bool { return r.Overlaps(cidr) && r.Bits() <= cidr.Bits() }
		switch {
		case slices.ContainsFunc(ranges, within):
		case !slices.ContainsFunc(ranges, cidr.Overlaps):
			outside = append(outside, cidr)
		default:
			// A range is within the CIDR, so the CIDR has at least two addresses. Each
			// level visits at most one more prefix per range.
			outside = append(outside, Outside(halves(cidr), ranges)...)
		}
	}
	return outside
}

// halves returns the two halves of a prefix of at least two addresses.
func halves(cidr netip.Prefix) []netip.Prefix {
	lower := netip.PrefixFrom(cidr.Addr(), cidr.Bits()+1)
	return []netip.Prefix{lower, netip.PrefixFrom(last(lower).Next(), lower.Bits())}
}

// Overlap returns the first pair of overlapping prefixes.
func Overlap(a, b []netip.Prefix) (x, y netip.Prefix, found bool) {
	for _, x := range a {
		for _, y := range b {
			if x.Overlaps(y) {
				return x, y, true
			}
		}
	}
	return netip.Prefix{}, netip.Prefix{}, false
}

// FreeAllocationCIDRs returns the allocation CIDRs for a new cluster: within the first
// range of each IP family a /16 or /112 that does not overlap those in use, or the whole
// range if it is smaller. It fails if there is none. The first allocation CIDR of a range
// is tried last, since addresses at the beginning are often used by hand.
func FreeAllocationCIDRs(ranges, used []netip.Prefix) ([]netip.Prefix, error) {
	var cidrs []netip.Prefix
	seen := map[corev1.IPFamily]bool{}
	for _, within := range ranges {
		family := familyOf(within)
		if seen[family] {
			continue
		}
		seen[family] = true
		cidr, found := freeAllocationCIDR(within, max(allocationLength[family], within.Bits()), used)
		if !found {
			return nil, fmt.Errorf("no unused /%d in ClusterSet IP range %s; choose a smaller unused CIDR, or add a range", cidr.Bits(), within)
		}
		cidrs = append(cidrs, cidr)
	}
	return cidrs, nil
}

// freeAllocationCIDR skips the CIDRs in use, each of which it visits only once, so that
// the size of the range does not matter.
func freeAllocationCIDR(within netip.Prefix, length int, used []netip.Prefix) (cidr netip.Prefix, found bool) {
	first := netip.PrefixFrom(within.Addr(), length)
	cidr = after(first, length)
	for within.Contains(cidr.Addr()) {
		i := slices.IndexFunc(used, cidr.Overlaps)
		if i < 0 {
			return cidr, true
		}
		// Of two overlapping prefixes one contains the other: continue after that one.
		larger := cidr
		if used[i].Bits() < cidr.Bits() {
			larger = used[i]
		}
		cidr = after(larger, length)
	}
	return first, !slices.ContainsFunc(used, first.Overlaps)
}

// after returns the prefix of a length that follows a prefix that is not smaller. It is
// invalid after the last one of the address family.
func after(cidr netip.Prefix, length int) netip.Prefix {
	return netip.PrefixFrom(last(cidr).Next(), length)
}

// last returns the last address of a prefix.
func last(cidr netip.Prefix) netip.Addr {
	bytes := cidr.Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(bytes) // the length is unchanged
	return addr
}
