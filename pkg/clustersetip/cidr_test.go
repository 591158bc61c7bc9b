// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestCIDRsThatAreNotCanonicalAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"243.1.0.0/16":         "",
		"fd00:243::1:0/112":    "",
		"0.0.0.0/0":            "",
		"243.1.0.1/16":         `CIDR "243.1.0.1/16": must not have bits set beyond its prefix length, use 243.1.0.0/16`,
		"fd00::1/64":           `CIDR "fd00::1/64": must not have bits set beyond its prefix length, use fd00::/64`,
		"::ffff:243.1.2.0/112": `CIDR "::ffff:243.1.2.0/112": must not be IPv4-mapped IPv6, use 243.1.0.0/16`,
		"::ffff:243.1.2.0/90":  `CIDR "::ffff:243.1.2.0/90": must not have bits set beyond its prefix length`,
		"243.1.0.0":            `CIDR "243.1.0.0": must be of the form`,
		" 243.1.0.0/16":        `CIDR " 243.1.0.0/16": must be of the form`,
		"fe80::%eth0/64":       `CIDR "fe80::%eth0/64": must be of the form`,
		"":                     `CIDR "": must be of the form`,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseCIDRs([]string{text})
			switch {
			case want == "":
				if err != nil || len(got) != 1 || got[0].String() != text {
					t.Errorf("got %v (%v)", got, err)
				}
			case err == nil || !strings.Contains(err.Error(), want):
				t.Errorf("got %v (%v), want %s", got, err, want)
			}
		})
	}
}

func TestAllInvalidCIDRsAreReported(t *testing.T) {
	_, err := ParseCIDRs([]string{"x", "243.1.0.0/16", "y"})
	if err == nil || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), `"y"`) || strings.Contains(err.Error(), "243.1.0.0/16\"") {
		t.Errorf("got %v", err)
	}
	if got, err := ParseCIDRs(nil); err != nil || len(got) != 0 {
		t.Errorf("got %v (%v) for no CIDRs", got, err)
	}
}

func TestOutsideReturnsWhatNoRangeContains(t *testing.T) {
	for name, test := range map[string]struct{ cidrs, ranges, want []netip.Prefix }{
		"within":             {prefixes("243.1.0.0/16", "fd00::1:0/112"), prefixes("243.0.0.0/8", "fd00::/64"), nil},
		"the range itself":   {prefixes("243.0.0.0/8"), prefixes("243.0.0.0/8"), nil},
		"beside":             {prefixes("244.1.0.0/16"), prefixes("243.0.0.0/8"), prefixes("244.1.0.0/16")},
		"of another family":  {prefixes("fd00::/64"), prefixes("0.0.0.0/0"), prefixes("fd00::/64")},
		"no ranges":          {prefixes("243.1.0.0/16"), nil, prefixes("243.1.0.0/16")},
		"around":             {prefixes("243.0.0.0/8"), prefixes("243.64.0.0/10"), prefixes("243.0.0.0/10", "243.128.0.0/9")},
		"around two":         {prefixes("243.0.0.0/14"), prefixes("243.0.0.0/16", "243.2.0.0/16"), prefixes("243.1.0.0/16", "243.3.0.0/16")},
		"covered by two":     {prefixes("243.0.0.0/15"), prefixes("243.0.0.0/16", "243.1.0.0/16"), nil},
		"all but an address": {prefixes("243.0.0.0/30"), prefixes("243.0.0.2/32"), prefixes("243.0.0.0/31", "243.0.0.3/32")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Outside(test.cidrs, test.ranges); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if got := Outside(prefixes("::/0"), prefixes("fd00::1/128")); len(got) != 128 {
		t.Errorf("got %d prefixes for all IPv6 addresses but one, want 128", len(got))
	}
}

func TestOverlap(t *testing.T) {
	for name, test := range map[string]struct {
		a, b []netip.Prefix
		want string
	}{
		"none":          {prefixes("243.1.0.0/16", "fd00::/64"), prefixes("243.2.0.0/16", "0.0.0.0/1"), ""},
		"the same":      {prefixes("243.1.0.0/16"), prefixes("243.1.0.0/16"), "243.1.0.0/16 243.1.0.0/16"},
		"contains":      {prefixes("10.0.0.0/8", "243.0.0.0/8"), prefixes("243.1.0.0/16"), "243.0.0.0/8 243.1.0.0/16"},
		"is contained":  {prefixes("fd00::1:0/112"), prefixes("243.0.0.0/8", "fd00::/64"), "fd00::1:0/112 fd00::/64"},
		"nothing given": {nil, prefixes("243.1.0.0/16"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if x, y, found := Overlap(test.a, test.b); found {
				got = x.String() + " " + y.String()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestFreeAllocationCIDRsDoNotOverlapThoseInUse(t *testing.T) {
	both := prefixes("243.0.0.0/8", "fd00:243::/64")
	for name, test := range map[string]struct {
		ranges, used, want []netip.Prefix
		err                string
	}{
		"the second first":         {both, nil, prefixes("243.1.0.0/16", "fd00:243::1:0/112"), ""},
		"the next":                 {both, prefixes("243.1.0.0/16", "fd00:243::1:0/112"), prefixes("243.2.0.0/16", "fd00:243::2:0/112"), ""},
		"a gap":                    {both, prefixes("243.1.0.0/16", "243.3.0.0/16"), prefixes("243.2.0.0/16", "fd00:243::1:0/112"), ""},
		"after a small one":        {both, prefixes("243.1.7.0/24"), prefixes("243.2.0.0/16", "fd00:243::1:0/112"), ""},
		"after a large one":        {both, prefixes("243.0.0.0/9", "fd00:243::/65"), prefixes("243.128.0.0/16", "fd00:243::8000:0:0:0/112"), ""},
		"the first last":           {prefixes("243.0.0.0/15"), prefixes("243.1.0.0/16"), prefixes("243.0.0.0/16"), ""},
		"the end of the family":    {prefixes("255.254.0.0/15"), prefixes("255.255.0.0/16"), prefixes("255.254.0.0/16"), ""},
		"exhausted":                {prefixes("243.0.0.0/15"), prefixes("243.1.0.0/16", "243.0.3.0/24"), nil, "no unused /16 in ClusterSet IP range 243.0.0.0/15"},
		"one family exhausted":     {both, prefixes("fd00::/16"), nil, "no unused /112 in ClusterSet IP range fd00:243::/64"},
		"a range of one CIDR":      {prefixes("243.5.0.0/16"), nil, prefixes("243.5.0.0/16"), ""},
		"a smaller range":          {prefixes("243.5.6.0/24"), nil, prefixes("243.5.6.0/24"), ""},
		"a smaller range, in use":  {prefixes("243.5.6.0/24"), prefixes("243.5.6.7/32"), nil, "no unused /24 in ClusterSet IP range 243.5.6.0/24"},
		"the first of each family": {prefixes("243.0.0.0/8", "244.0.0.0/8"), nil, prefixes("243.1.0.0/16"), ""},
		"no ranges":                {nil, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FreeAllocationCIDRs(test.ranges, test.used)
			if !slices.Equal(got, test.want) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v (%v), want %v (%s)", got, err, test.want, test.err)
			}
		})
	}
}

func TestAllAllocationCIDRsOfARangeAreAssigned(t *testing.T) {
	ranges := prefixes("243.0.0.0/8")
	var used []netip.Prefix
	for range 256 {
		cidrs, err := FreeAllocationCIDRs(ranges, used)
		if err != nil {
			t.Fatal(err)
		}
		if x, y, found := Overlap(cidrs, used); found {
			t.Fatalf("%s overlaps %s", x, y)
		}
		used = append(used, cidrs...)
	}
	if cidrs, err := FreeAllocationCIDRs(ranges, used); err == nil {
		t.Errorf("got %v of an exhausted range", cidrs)
	}
}
