// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Faults of one cluster, and of one link in either direction, never overlap, even if one of them
// takes until all others could have begun. Others go on meanwhile, also if one fails.
func TestFaultsOfAPlaceArePlayedInTurn(t *testing.T) {
	plan := []Fault{
		{ID: 1, Clusters: []string{"east"}},
		{ID: 2, Clusters: []string{"east", "west"}},
		{ID: 3, Clusters: []string{"east"}},
		{ID: 4, Clusters: []string{"west", "east"}},
		{ID: 5, Clusters: []string{"west"}},
	}
	var guard sync.Mutex
	var begun []int
	others := make(chan struct{})
	err := inTurn(plan, func(fault Fault) error {
		guard.Lock()
		begun = append(begun, fault.ID)
		guard.Unlock()
		switch fault.ID {
		case 1: // slow, and fails
			<-others
			guard.Lock()
			defer guard.Unlock()
			if slices.Contains(begun, 3) {
				t.Error("the next fault of the cluster did not wait")
			}
			return errors.New("cannot be undone")
		case 4:
			close(others)
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "cannot be undone") {
		t.Errorf("got error %v", err)
	}
	slices.Sort(begun)
	if want := []int{1, 2, 3, 4, 5}; !slices.Equal(begun, want) {
		t.Errorf("played %v, want %v", begun, want)
	}
}
