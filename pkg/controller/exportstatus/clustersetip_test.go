// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

// R129: nothing is allocated before every member has been heard, as far as it can
// be; one that cannot be is not waited for for ever.
func TestNothingIsAllocatedBeforeMembersAreHeard(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	member := func(state clustersetv1alpha1.MemberState, synced bool, age time.Duration) *clustersetv1alpha1.Member {
		return &clustersetv1alpha1.Member{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status:     clustersetv1alpha1.MemberStatus{State: state, Synced: synced, TTLSeconds: 60},
		}
	}
	for _, test := range []struct {
		name   string
		member *clustersetv1alpha1.Member
		want   bool
		wait   time.Duration
	}{
		{"heard", member(clustersetv1alpha1.MemberConnected, true, 0), true, 0},
		{"being read", member(clustersetv1alpha1.MemberConnected, false, time.Hour), false, time.Minute},
		{"new, and not reached yet", member(clustersetv1alpha1.MemberConnecting, false, 20*time.Second), false, 40 * time.Second},
		{"never reached", member(clustersetv1alpha1.MemberConnecting, false, time.Hour), true, 0},
		{"silent, and remembered", member(clustersetv1alpha1.MemberStale, false, time.Hour), true, 0},
		{"lost", member(clustersetv1alpha1.MemberLost, false, time.Hour), true, 0},
		{"kept out", member(clustersetv1alpha1.MemberRefused, false, 0), true, 0},
	} {
		got, wait := settled([]*clustersetv1alpha1.Member{member(clustersetv1alpha1.MemberLocal, true, 0), test.member}, now)
		if got != test.want || wait != test.wait {
			t.Errorf("%s: settled %t, wait %s", test.name, got, wait)
		}
	}
}

// Of two clusters that allocate at the same time the older export's address
// stands, but an export that had to wait for one does not displace others.
func TestDecisionIsAsOldAsTheExportUnlessItHadToWait(t *testing.T) {
	key, now := types.NamespacedName{Namespace: "shop", Name: "web"}, time.Now()
	at := func(ago time.Duration) []clustersetip.Export {
		return []clustersetip.Export{{Cluster: "other", At: now.Add(-time.Hour)}, {Cluster: "self", At: now.Add(-ago)}}
	}
	ledger := newLedger()
	if got := ledger.since(key, "self", at(5*time.Second), now); !got.Equal(now.Add(-5 * time.Second)) {
		t.Errorf("a new export decides since %s", got)
	}
	if got := ledger.since(key, "self", at(time.Hour), now); !got.Equal(now) {
		t.Errorf("an old export decides since %s", got)
	}
	ledger.wait(key, true)
	if got := ledger.since(key, "self", at(5*time.Second), now); !got.Equal(now) {
		t.Errorf("one that had to wait decides since %s", got)
	}
}

func TestClusterWithoutAPartSaysSo(t *testing.T) {
	self := &clustersetv1alpha1.Member{}
	if problem := cannotAllocate(self); problem == nil || problem.Reason != "NoClusterSetIPRange" {
		t.Errorf("no part: %+v", problem)
	}
	self.Status.Conditions = []metav1.Condition{{Type: "ClusterSetIP", Status: metav1.ConditionFalse, Reason: "Overlaps", Message: "with b"}}
	if problem := cannotAllocate(self); problem == nil || problem.Reason != "ClusterSetIPRangeOverlaps" {
		t.Errorf("an overlapping part: %+v", problem)
	}
	self.Status.Conditions[0].Status = metav1.ConditionTrue
	if problem := cannotAllocate(self); problem != nil {
		t.Errorf("a part of its own: %+v", problem)
	}
}

// R128: what was written a moment ago counts, although the caches do not show it
// yet: an address must not be lost because whoever told it has just withdrawn.
func TestDecisionThatIsNotShownYetIsKept(t *testing.T) {
	joined := metav1.NewTime(epoch)
	local := self("set")
	local.Status.IDClaimedAt = &joined
	held := clustersetip.NewDecision("gone", []string{"243.1.0.1"}, epoch)
	written := newExport()
	export.SetDecision(written, held, joined.Time)
	asks := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.UseClusterSetIP = true }
	c := &Controller{
		exported: cache.NewIndexer(cache.MetaNamespaceKeyFunc, exportedIndexers()), clock: testingclock.NewFakePassiveClock(epoch), ledger: newLedger(),
	}
	for name, exports := range map[string][]*clustersetv1alpha1.ExportedService{
		"alone":                               {exported("here", "export", 1, asks)},
		"an older one has not decided either": {exported("here", "export", 1, asks), exported("east", "x", 0, asks)},
	} {
		got, err := c.decide(types.NamespacedName{Namespace: "shop", Name: "web"}, written, facts{service: newService(), self: local, exported: exports, members: []*clustersetv1alpha1.Member{local}})
		if err != nil || !clustersetip.Equal(got.held, held) {
			t.Errorf("%s: it holds to %+v (%v), want %+v", name, got.held, err, held)
		}
	}
}

// R128, R129: a service that comes back gets the address that it had, unless another
// holds it by now: what was decided in an earlier membership keeps nobody from it.
func TestAddressOfAnEarlierMembershipIsFree(t *testing.T) {
	const had = "243.1.0.1" // the part has no other address
	joined := metav1.NewTime(epoch)
	local := self("set")
	local.Status.IDClaimedAt = &joined
	local.Status.ClusterSetIPCIDRs = []string{had + "/32"}
	local.Status.Conditions = []metav1.Condition{{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionTrue}}
	asks := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.UseClusterSetIP = true }
	record := func(name string, joinedAt time.Time) *multiclusterxv1beta1.ServiceExport {
		written := newExport()
		written.Name = name
		export.SetDecision(written, clustersetip.NewDecision("here", []string{had}, epoch), joinedAt)
		return written
	}
	for name, test := range map[string]struct {
		own  *multiclusterxv1beta1.ServiceExport
		free bool
	}{
		"its own, of an earlier membership":       {record("web", epoch.Add(-time.Hour)), true},
		"another's, of an earlier membership":     {record("other", epoch.Add(-time.Hour)), true},
		"another's, which nobody has told so far": {record("other", epoch), false},
	} {
		own := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byIP: indexByIP})
		if err := own.Add(test.own); err != nil {
			t.Fatal(err)
		}
		c := &Controller{
			exported: cache.NewIndexer(cache.MetaNamespaceKeyFunc, exportedIndexers()), own: own,
			clock: testingclock.NewFakePassiveClock(epoch), ledger: newLedger(),
		}
		known := facts{
			service: newService(), self: local, members: []*clustersetv1alpha1.Member{local},
			exported: []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks)},
		}
		got, err := c.decide(types.NamespacedName{Namespace: "shop", Name: "web"}, newExport(), known)
		if err != nil || slices.Equal(got.ips(), []string{had}) != test.free {
			t.Errorf("%s: it gets %v (%v)", name, got.ips(), err)
		}
	}
}
