// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"testing"
)

func TestCombinedBehaviorSendsBothByTurns(t *testing.T) {
	numbers := func(first int) Resource {
		return Resource{Rate: 10, Objects: slices.Values([]string{strconv.Itoa(first), strconv.Itoa(first + 1)}), Then: func(number int) string { return strconv.Itoa(first + number) }}
	}
	own := Resource{Handler: func(http.ResponseWriter, *http.Request) {}}
	combined := Combine(Behavior{Services: numbers(0), Members: numbers(0), Slices: own}, Behavior{Services: numbers(100), Members: numbers(100), Slices: numbers(0), Claims: numbers(7)})
	services := combined[Services]
	if got := slices.Collect(services.Objects); !slices.Equal(got, []string{"0", "100", "1", "101"}) {
		t.Errorf("objects are %v", got)
	}
	if services.Then(4) != "2" || services.Then(5) != "102" || services.Rate != 20 {
		t.Errorf("events are %s and %s, %d per second", services.Then(4), services.Then(5), services.Rate)
	}
	for name, want := range map[string][]string{Members: {"0", "1"}, Claims: {"7", "8"}} {
		if got := slices.Collect(combined[name].Objects); !slices.Equal(got, want) {
			t.Errorf("%s are %v, want %v", name, got, want)
		}
	}
	if combined[Slices].Handler == nil {
		t.Error("handler is missing")
	}
}

func TestCombinedObjectsMayHaveNoEnd(t *testing.T) {
	next, stop := iter.Pull(byTurns(repeated("a"), repeated("b")))
	defer stop()
	for _, want := range []string{"a", "b", "a", "b"} {
		if got, _ := next(); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

func TestPodCIDRsContainAllPodAddresses(t *testing.T) {
	for _, number := range []int{0, 1 << 16, 1<<20 - 1, 1 << 20, 1<<40 - 1} {
		address := netip.MustParseAddr(podAddress(number))
		if !slices.ContainsFunc(PodCIDRs(), func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) }) {
			t.Errorf("%s is in none of them", address)
		}
	}
}
