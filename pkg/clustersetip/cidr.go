// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// allocationLength is the length of the CIDR that a cluster gets if nobody chose
// one: some 65000 addresses.
var allocationLength = map[corev1.IPFamily]int{corev1.IPv4Protocol: 16, corev1.IPv6Protocol: 112}

// SplitCIDRs are the texts of a list of CIDRs, as claims have it.
func SplitCIDRs(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// ParseCIDRs reads a list of CIDRs. It returns all errors, each of which names
// the text and, if one can be told, what would be right: a text that only
// almost says what it means is refused, since two clusters could read it in
// different ways.
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
		return netip.Prefix{}, errors.New("not of the form 243.1.0.0/16 or fd00:243::1:0/112")
	case cidr.Addr().Is4In6() && cidr.Bits() >= 96:
		right := netip.PrefixFrom(cidr.Addr().Unmap(), cidr.Bits()-96).Masked()
		return netip.Prefix{}, fmt.Errorf("an IPv4 CIDR that is mapped to IPv6, write %s", right)
	case cidr != cidr.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits beyond its length, write %s", cidr.Masked())
	}
	return cidr, nil
}

// Outside are the parts of the CIDRs that do not lie within the ranges, in the
// order of the CIDRs, in as few prefixes as possible for each.
func Outside(cidrs, ranges []netip.Prefix) []netip.Prefix {
	var outside []netip.Prefix
	for _, cidr := range cidrs {
		within := func(r netip.Prefix) bool { return r.Overlaps(cidr) && r.Bits() <= cidr.Bits() }
		switch {
		case slices.ContainsFunc(ranges, within):
		case !slices.ContainsFunc(ranges, cidr.Overlaps):
			outside = append(outside, cidr)
		default:
			// A range lies within the CIDR, so it has at least two addresses. Each
			// level has at most one more prefix to look at per range.
			outside = append(outside, Outside(halves(cidr), ranges)...)
		}
	}
	return outside
}

// halves are the two halves of a prefix of at least two addresses.
func halves(cidr netip.Prefix) []netip.Prefix {
	lower := netip.PrefixFrom(cidr.Addr(), cidr.Bits()+1)
	return []netip.Prefix{lower, netip.PrefixFrom(last(lower).Next(), lower.Bits())}
}

// Overlap finds the first pair of overlapping prefixes.
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

// FreeAllocationCIDRs is a CIDR for a new cluster: within the first range of each IP
// family a /16 or /112 that overlaps none of those that are taken, or the whole
// range if it is smaller than that. It fails when there is none. The second
// part of a range is tried first and the first last, since the beginning is
// where people try things by hand.
func FreeAllocationCIDRs(ranges, taken []netip.Prefix) ([]netip.Prefix, error) {
	var parts []netip.Prefix
	seen := map[corev1.IPFamily]bool{}
	for _, within := range ranges {
		family := familyOf(within)
		if seen[family] {
			continue
		}
		seen[family] = true
		part, found := freeAllocationCIDR(within, max(allocationLength[family], within.Bits()), taken)
		if !found {
			return nil, fmt.Errorf("no /%d is left in %s: choose a smaller CIDR that is free, or add a range", part.Bits(), within)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// freeAllocationCIDR steps over what is taken, each of which it meets only once, so that
// it does not matter how many parts a range has.
func freeAllocationCIDR(within netip.Prefix, length int, taken []netip.Prefix) (part netip.Prefix, found bool) {
	first := netip.PrefixFrom(within.Addr(), length)
	part = after(first, length)
	for within.Contains(part.Addr()) {
		i := slices.IndexFunc(taken, part.Overlaps)
		if i < 0 {
			return part, true
		}
		// Of two overlapping prefixes one contains the other: go on after that.
		larger := part
		if taken[i].Bits() < part.Bits() {
			larger = taken[i]
		}
		part = after(larger, length)
	}
	return first, !slices.ContainsFunc(taken, first.Overlaps)
}

// after is the prefix of a length that follows another one that is not
// smaller. It is not valid after the last one of all.
func after(cidr netip.Prefix, length int) netip.Prefix {
	return netip.PrefixFrom(last(cidr).Next(), length)
}

// last is the last address of a prefix.
func last(cidr netip.Prefix) netip.Addr {
	bytes := cidr.Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(bytes) // as long as it was
	return addr
}
