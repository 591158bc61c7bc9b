// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Packages start their clusters at the same time.
func TestSetsChooseDifferentSubnets(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create network namespaces")
	}
	const sets = 6
	var group errgroup.Group
	var subnets [sets]int
	for i := range sets {
		set := &Set{Root: t.TempDir(), Dir: t.TempDir(), Progress: t.Logf}
		t.Cleanup(func() {
			if err := set.fabric(0).Remove(); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() error {
			if _, err := set.connect([]string{"alone"}); err != nil {
				return err
			}
			state, err := set.load()
			subnets[i] = state.Subnet
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(subnets[:])
	if distinct := slices.Compact(slices.Clone(subnets[:])); len(distinct) != sets {
		t.Errorf("subnets of %d sets are %v, want different ones", sets, subnets)
	}
}
