// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// awaitNothing waits until nothing is left of former members in the importer: for a
// minute at most. Their Leases and their ClusterProfiles are deleted last.
func (o *observation) awaitNothing(t *testing.T, last bool, ids ...string) {
	t.Helper()
	victim := hostile.Victim{Kubernetes: importer().Kubernetes, Clientset: importer().Clientset}
	var identities []string
	for _, id := range ids {
		identities = append(identities, hostile.Identities(id)...)
	}
	expect.Within(t, time.Minute, "end of "+strings.Join(ids, ", "), func(ctx context.Context) error {
		for _, id := range ids { // everything else is asked for when these are gone
			if found := o.from(id); found > 0 {
				return fmt.Errorf("%d imports of %s are left", found, id)
			}
		}
		left, err := victim.Leftovers(ctx, identities...)
		if err == nil && last && len(left) == 0 {
			left, err = victim.Last(ctx, identities...)
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d objects are left, such as %s", len(left), left[0])
		}
		return err
	})
}
