// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R585: if the state of a member changes, only services that it exports are computed, and only those whose
// row is another one are sent.
func TestOnlyServicesOfAMemberChangeWithItsState(t *testing.T) {
	b := newBoard([]*cluster.Cluster{clustertest.NewCluster()}, "")
	v := b.views[0]
	add := func(r *resource, object any) {
		t.Helper()
		if err := r.informer.GetIndexer().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	add(v.members, clustertest.Local())
	west := clustertest.NewMember("west", clustersetv1alpha1.MemberConnected)
	add(v.members, west)
	add(v.members, clustertest.NewMember("north", clustersetv1alpha1.MemberConnected))
	for i := range 10 {
		from := []string{"north", "west"}[i%2]
		exported := clustertest.NewExported(from, time.Hour)
		exported.Name, exported.Spec.Service = fmt.Sprintf("s%d.%s", i, from), fmt.Sprintf("s%d", i)
		add(v.exports, exported)
		b.serviceChanged("shop/" + exported.Spec.Service)
	}
	b.update()
	page := b.store.subscribe()
	b.store.take(page)
	sent := func() (keys []string) {
		b.update()
		for _, one := range b.store.take(page) {
			if one.Kind == serviceEntry {
				keys = append(keys, one.Key)
			}
		}
		return keys
	}

	b.stateChanged("west")
	taken := b.take()
	if len(taken.services) != 5 || len(taken.members) != 0 {
		t.Errorf("services %v and members %v are computed", taken.services, taken.members)
	}
	b.everythingChanged()
	if keys := sent(); len(keys) != 0 {
		t.Errorf("nothing changed, but %v are sent", keys)
	}
	stale := west.DeepCopy()
	stale.Status.State = clustersetv1alpha1.MemberStale
	add(v.members, stale)
	b.stateChanged("west")
	if keys := sent(); !slices.Equal(keys, []string{"shop/s1", "shop/s3", "shop/s5", "shop/s7", "shop/s9"}) {
		t.Errorf("the west is stale, and %v are sent", keys)
	}
	// Details may be other ones although the row is the same.
	b.serviceChanged("shop/s2")
	if keys := sent(); !slices.Equal(keys, []string{"shop/s2"}) {
		t.Errorf("one changed, and %v are sent", keys)
	}
}
