// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
)

// awaitNothing waits until nothing is left of a former member in the importer: for a
// minute at most. Its Lease and its ClusterProfile are deleted last.
func (o *observation) awaitNothing(t *testing.T, id string, last bool) {
	t.Helper()
	victim := hostile.Victim{Kubernetes: importer().Kubernetes, Clientset: importer().Clientset}
	expect.Within(t, time.Minute, "end of "+id, func(ctx context.Context) error {
		if found := o.from(id); found > 0 { // everything else is asked for when these are gone
			return fmt.Errorf("%d imports are left", found)
		}
		left, err := victim.Leftovers(ctx, hostile.Identities(id)...)
		if err == nil && last && len(left) == 0 {
			left, err = victim.Last(ctx, hostile.Identities(id)...)
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d objects are left, such as %s", len(left), left[0])
		}
		return err
	})
}
