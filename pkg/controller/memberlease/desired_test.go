// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memberlease

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// member returns a member that was last seen so long after the epoch, never if negative.
func member(state clustersetv1alpha1.MemberState, seen time.Duration, ttl int32) *clustersetv1alpha1.Member {
	entry := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: clustersetv1alpha1.MemberStatus{State: state, TTLSeconds: ttl}}
	if seen >= 0 {
		entry.Status.LastSeen = ptr.To(metav1.NewTime(epoch.Add(seen)))
	}
	return entry
}

func lease(renewed time.Duration, ttl int32) *coordinationv1.Lease {
	result := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-east", Labels: map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("east"), RenewTime: ptr.To(metav1.NewMicroTime(epoch.Add(renewed)))},
	}
	if ttl > 0 {
		result.Spec.LeaseDurationSeconds = ptr.To(ttl)
	}
	return result
}

// R79: the renew time of a Lease is when its member was last known to be alive.
func TestDesiredLease(t *testing.T) {
	const connected, lost, connecting = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberLost, clustersetv1alpha1.MemberConnecting
	for _, test := range []struct {
		name     string
		existing *coordinationv1.Lease
		entry    *clustersetv1alpha1.Member
		want     *coordinationv1.Lease
		// kept is true when nothing is to be written.
		kept bool
	}{
		{name: "no member"},
		{name: "former member", existing: lease(0, 60)},
		{name: "this cluster", existing: lease(0, 60), entry: member(clustersetv1alpha1.MemberLocal, 5*time.Minute, 60)},
		{name: "refused", existing: lease(0, 60), entry: member(clustersetv1alpha1.MemberRefused, 5*time.Minute, 60)},
		{name: "never seen", entry: member(connecting, -1, 60)},
		{name: "not seen since a restart", existing: lease(0, 60), entry: member(connecting, -1, 60), want: lease(0, 60), kept: true},
		{name: "new", entry: member(connected, time.Minute, 60), want: lease(time.Minute, 60)},
		{name: "new and lost", entry: member(lost, time.Minute, 60), want: lease(time.Minute, 60)},
		{name: "not seen since", existing: lease(time.Minute, 60), entry: member(connected, time.Minute, 60), want: lease(time.Minute, 60), kept: true},
		{name: "seen shortly after", existing: lease(time.Minute, 60), entry: member(connected, time.Minute+renewEvery-time.Second, 60), want: lease(time.Minute, 60), kept: true},
		{name: "seen later", existing: lease(time.Minute, 60), entry: member(connected, time.Minute+renewEvery, 60), want: lease(time.Minute+renewEvery, 60)},
		{name: "seen earlier by a server that lags behind", existing: lease(time.Minute, 60), entry: member(connected, 0, 60), want: lease(time.Minute, 60), kept: true},
		{name: "lost by now", existing: lease(time.Minute, 60), entry: member(lost, time.Minute, 60), want: lease(time.Minute, 60), kept: true},
		{name: "another TTL", existing: lease(time.Minute, 60), entry: member(connected, time.Minute, 30), want: lease(time.Minute, 30)},
		{name: "no TTL", existing: lease(time.Minute, 60), entry: member(connected, time.Minute, 0), want: lease(time.Minute, 0)},
		{name: "still no TTL", existing: lease(time.Minute, 0), entry: member(connected, time.Minute, 0), want: lease(time.Minute, 0), kept: true},
		{name: "another holder", existing: func() *coordinationv1.Lease {
			l := lease(0, 60)
			l.Spec.HolderIdentity = nil
			return l
		}(), entry: member(connected, time.Hour, 60), want: lease(time.Hour, 60)},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.existing.DeepCopy()
			got := desired(test.existing, test.entry, "mcs-system")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
			if kept := got != nil && got == test.existing; kept != test.kept {
				t.Errorf("got kept %t, want %t", kept, test.kept)
			}
			if diff := cmp.Diff(before, test.existing); diff != "" {
				t.Errorf("the cached object was changed: %s", diff)
			}
		})
	}
}

func TestForeignMetadataOfALeaseIsPreserved(t *testing.T) {
	existing := lease(0, 60)
	existing.Labels["team"], existing.ResourceVersion = "platform", "7"
	got := desired(existing, member(clustersetv1alpha1.MemberConnected, time.Hour, 60), "mcs-system")
	if got.Labels["team"] != "platform" || got.ResourceVersion != "7" {
		t.Errorf("%+v", got.ObjectMeta)
	}
}

func TestOnlyLabeledLeasesWithThePrefixAreManaged(t *testing.T) {
	for _, test := range []struct {
		name   string
		labels map[string]string
		want   bool
	}{
		{"member-east", map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, true},
		{"member-east", nil, false},
		{"member-", map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, false},
		{"mcs-controller", map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, false},
	} {
		if got := isMemberLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: test.labels}}); got != test.want {
			t.Errorf("%s %v: got %t", test.name, test.labels, got)
		}
	}
}
