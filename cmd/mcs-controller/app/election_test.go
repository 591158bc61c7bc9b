// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

// A container that is restarted has the identity of its predecessor, so that it does not
// wait for the Lease to expire. Processes outside of Pods may run at the same time.
func TestIdentityIsThatOfThePod(t *testing.T) {
	identities := func() (first, second string) {
		t.Helper()
		found := [2]string{}
		for i := range found {
			var err error
			if found[i], err = identity(); err != nil || found[i] == "" {
				t.Fatalf("got %q, %v", found[i], err)
			}
		}
		return found[0], found[1]
	}
	t.Setenv("POD_NAME", "mcs-apiserver-abc")
	if first, second := identities(); first != "mcs-apiserver-abc" || second != first {
		t.Errorf("in a Pod: got %q and %q", first, second)
	}
	t.Setenv("POD_NAME", "")
	if first, second := identities(); first == second {
		t.Errorf("outside of a Pod: got %q twice", first)
	}
}
