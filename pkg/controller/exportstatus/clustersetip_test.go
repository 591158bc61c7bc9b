// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

// R129: nothing is allocated before every member has been heard, as far as it can
// be; nobody is waited for for ever.
func TestNothingIsAllocatedBeforeMembersAreHeard(t *testing.T) {
	now := epoch
	member := func(state clustersetv1alpha1.MemberState, synced bool, age time.Duration, conditions ...metav1.Condition) *clustersetv1alpha1.Member {
		return &clustersetv1alpha1.Member{
			ObjectMeta: metav1.ObjectMeta{Name: "b", CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status:     clustersetv1alpha1.MemberStatus{State: state, Synced: synced, TTLSeconds: 60, Conditions: conditions},
		}
	}
	changed := func(ago time.Duration) metav1.Condition {
		return metav1.Condition{Type: clusterset.MemberSynced, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
	for _, test := range []struct {
		name   string
		member *clustersetv1alpha1.Member
		wait   time.Duration
	}{
		{"heard", member(clustersetv1alpha1.MemberConnected, true, 0), 0},
		{"being read", member(clustersetv1alpha1.MemberConnected, false, time.Hour, changed(10*time.Second)), 50 * time.Second},
		{"being read, and nobody knows since when", member(clustersetv1alpha1.MemberConnected, false, 20*time.Second), 40 * time.Second},
		{"being read for an hour", member(clustersetv1alpha1.MemberConnected, false, 2*time.Hour, changed(time.Hour)), 0},
		{"new, and not reached yet", member(clustersetv1alpha1.MemberConnecting, false, 20*time.Second), 40 * time.Second},
		{"never reached", member(clustersetv1alpha1.MemberConnecting, false, time.Hour), 0},
		{"silent, and remembered", member(clustersetv1alpha1.MemberStale, false, time.Hour), 0},
		{"lost", member(clustersetv1alpha1.MemberLost, false, time.Hour), 0},
		{"kept out", member(clustersetv1alpha1.MemberRefused, false, 0), 0},
	} {
		name, until := unheard([]*clustersetv1alpha1.Member{member(clustersetv1alpha1.MemberLocal, true, 0), test.member}, now)
		switch {
		case test.wait == 0 && name != "":
			t.Errorf("%s: waits for %q until %s", test.name, name, until)
		case test.wait > 0 && (name != "b" || until.Sub(now) != test.wait):
			t.Errorf("%s: waits for %q for %s, want %s", test.name, name, until.Sub(now), test.wait)
		}
	}
	// Of several the longest counts, and always the same one.
	short, long, other := member(clustersetv1alpha1.MemberConnecting, false, 20*time.Second), member(clustersetv1alpha1.MemberConnecting, false, 0), member(clustersetv1alpha1.MemberConnecting, false, 0)
	other.Name = "a"
	for _, members := range [][]*clustersetv1alpha1.Member{{short, long, other}, {other, long, short}} {
		if name, until := unheard(members, now); name != "a" || until.Sub(now) != time.Minute {
			t.Errorf("waits for %q for %s", name, until.Sub(now))
		}
	}
}

const had = "243.1.0.1"

var (
	web, other = types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "other"}
	later      = epoch.Add(time.Hour)
)

func asks(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.UseClusterSetIP = true }

func holds(decision *clustersetip.Decision) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(spec *clustersetv1alpha1.ExportedServiceSpec) {
		spec.ClusterSetIP = &clustersetv1alpha1.ClusterSetIPDecision{IPs: decision.IPs, DecidedBy: decision.DecidedBy, Since: decision.Since}
	}
}

// allocator is this cluster, which joined at epoch and has a part of one address.
func allocator() *clustersetv1alpha1.Member {
	joined := metav1.NewTime(epoch)
	local := self("set")
	local.Status.IDClaimedAt = &joined
	local.Status.ClusterSetIPCIDRs = []string{had + "/32"}
	local.Status.Conditions = []metav1.Condition{{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionTrue}}
	return local
}

// deciding is a controller that nothing runs in, an hour after epoch.
func deciding(t *testing.T) (*Controller, *testingclock.FakePassiveClock) {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(later)
	c := &Controller{
		exported: cache.NewIndexer(cache.MetaNamespaceKeyFunc, exportedIndexers()), own: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byIP: indexByIP}),
		clock: clock, ledger: newLedger(), queue: loop.NewQueue("test"),
	}
	t.Cleanup(c.queue.ShutDown)
	return c, clock
}

// decideFor decides about an export of this cluster that holds to nothing yet.
func decideFor(t *testing.T, c *Controller, key types.NamespacedName) decision {
	t.Helper()
	local := allocator()
	exports := []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks)}
	got, err := c.decide(key, newExport(), facts{service: newService(), self: local, exported: exports, members: []*clustersetv1alpha1.Member{local}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func isPending(got decision, wait time.Duration) bool {
	return got.held == nil && got.wait == wait && got.problem != nil && got.problem.Reason == reasonClusterSetIPPending
}

// R128, R129: an address that was held a moment ago is not given to another service
// before the news have got around, and that is not taken for exhaustion. The
// service that had it may have it again.
func TestAddressRestsBeforeAnotherServiceGetsIt(t *testing.T) {
	east := exported("east", "x", 0, holds(clustersetip.NewDecision("east", []string{had}, epoch)))
	west := exported("west", "y", 0, holds(clustersetip.NewDecision("east", []string{had}, epoch)))
	without := exported("west", "y", 0)
	c, clock := deciding(t)
	show := func(object *clustersetv1alpha1.ExportedService) {
		t.Helper()
		before, _, err := c.exported.Get(object)
		if err == nil {
			err = c.exported.Update(object)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.exportedChanged(before, object)
	}
	show(east)
	show(west)
	if got := decideFor(t, c, other); got.problem == nil || got.problem.Reason != "ClusterSetIPExhausted" {
		t.Errorf("while it is held: %+v", got)
	}
	clock.SetTime(later.Add(time.Hour))
	if err := c.exported.Delete(east); err != nil {
		t.Fatal(err)
	}
	c.exportedChanged(east, nil)
	if got := decideFor(t, c, other); got.problem == nil || got.problem.Reason != "ClusterSetIPExhausted" {
		t.Errorf("while one still holds it: %+v", got)
	}
	clock.SetTime(later.Add(2 * time.Hour))
	// The cache is ahead of the events.
	if err := c.exported.Update(without); err != nil {
		t.Fatal(err)
	}
	if got := decideFor(t, c, other); !isPending(got, clustersetip.PropagationDelay) {
		t.Errorf("before the event comes: %+v", got)
	}
	c.exportedChanged(west, without)
	clock.SetTime(later.Add(2*time.Hour + time.Second))
	if got := decideFor(t, c, other); !isPending(got, clustersetip.PropagationDelay-time.Second) {
		t.Errorf("a second after it was given up: %+v %+v", got, got.problem)
	}
	if got := decideFor(t, c, web); !slices.Equal(got.ips(), []string{had}) {
		t.Errorf("the same service gets %v", got.ips())
	}
	// So it does when this cluster itself has decided and goes back.
	c.ledger.release(web, nil, c.clock.Now())
	if got := decideFor(t, c, other); !isPending(got, clustersetip.PropagationDelay) {
		t.Errorf("when it is given back: %+v", got)
	}
	clock.SetTime(later.Add(2*time.Hour + time.Second + clustersetip.PropagationDelay))
	if got := decideFor(t, c, other); !slices.Equal(got.ips(), []string{had}) {
		t.Errorf("when everybody has heard: %+v %+v", got, got.problem)
	}
}

// R128: so it does when this cluster itself gives up what it adopted, although nobody
// has told it back that it did.
func TestAddressOfAnOwnExportRests(t *testing.T) {
	c, clock := deciding(t)
	adopted := newExport()
	export.RecordDecision(adopted, clustersetip.NewDecision("east", []string{had}, epoch), epoch)
	c.ownChanged(nil, adopted)
	c.ownChanged(adopted, nil)
	if got := decideFor(t, c, other); !isPending(got, clustersetip.PropagationDelay) {
		t.Errorf("when it is gone: %+v", got)
	}
	clock.SetTime(later.Add(clustersetip.PropagationDelay))
	if got := decideFor(t, c, other); !slices.Equal(got.ips(), []string{had}) {
		t.Errorf("when everybody has heard: %+v", got)
	}
	if c.queue.Len() != 1 {
		t.Errorf("%d exports are looked at again", c.queue.Len())
	}
}

// R129: who has just started or joined may not have heard which addresses are in use.
func TestNothingIsAllocatedRightAfterStartOrJoin(t *testing.T) {
	for name, test := range map[string]struct {
		started, now time.Duration // since the cluster joined
		wait         time.Duration
	}{
		"just joined":             {-time.Hour, time.Second, clustersetip.PropagationDelay - time.Second},
		"just started":            {time.Hour, time.Hour + 2*time.Second, clustersetip.PropagationDelay - 2*time.Second},
		"started and joined":      {time.Second, 2 * time.Second, clustersetip.PropagationDelay - time.Second},
		"long enough after both":  {time.Hour, time.Hour + clustersetip.PropagationDelay, 0},
		"joined while it is down": {0, clustersetip.PropagationDelay, 0},
	} {
		c, clock := deciding(t)
		c.ledger.start(epoch.Add(test.started))
		clock.SetTime(epoch.Add(test.now))
		switch got := decideFor(t, c, web); {
		case test.wait > 0 && !isPending(got, test.wait):
			t.Errorf("%s: %+v %+v", name, got, got.problem)
		case test.wait == 0 && got.held == nil:
			t.Errorf("%s: %+v %+v", name, got, got.problem)
		}
	}
}

// R128: the older export's address stands if two clusters export at the same moment,
// but an export that had to wait for one does not displace others.
func TestDecisionIsAsOldAsTheExportUnlessItHadToWait(t *testing.T) {
	exportedAt := epoch.Add(time.Minute)
	for waited, want := range map[bool]time.Duration{false: 0, true: 5 * time.Second} {
		c, clock := deciding(t)
		clock.SetTime(exportedAt.Add(5 * time.Second))
		c.ledger.wait(web, waited)
		if got := decideFor(t, c, web).held; got == nil || got.Since.Sub(exportedAt) != want {
			t.Errorf("waited %t: it decides %+v", waited, got)
		}
	}
}

// An export that waits says for whom. One that needs no IP does not wait to be ready.
func TestWaitingExportSaysForWhat(t *testing.T) {
	reading := &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "slow", CreationTimestamp: metav1.NewTime(later.Add(-20 * time.Second))},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: "slow", State: clustersetv1alpha1.MemberConnected, TTLSeconds: 60},
	}
	local := allocator()
	own, plain := exported("here", "export", 1, asks), exported("here", "export", 1)
	v6 := newService(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })
	for _, test := range []struct {
		name    string
		service *corev1.Service
		members []*clustersetv1alpha1.Member
		exports []*clustersetv1alpha1.ExportedService
		reason  string
		parts   []string
		wait    time.Duration
	}{
		{"a member is being read", newService(), []*clustersetv1alpha1.Member{local, reading}, []*clustersetv1alpha1.ExportedService{own},
			"ClusterSetIPPending", []string{`member "slow"`, "2026-01-01T01:00:40Z", "nothing has to be done"}, 40 * time.Second},
		{"a member is being read, but nobody wants an IP", newService(), []*clustersetv1alpha1.Member{local, reading}, []*clustersetv1alpha1.ExportedService{plain}, "", nil, 40 * time.Second},
		{"the first has not decided", newService(), []*clustersetv1alpha1.Member{local}, []*clustersetv1alpha1.ExportedService{own, exported("east", "x", 0, asks)},
			"ClusterSetIPPending", []string{`cluster "east"`, "its ServiceExport says"}, 0},
		{"a family without addresses", v6, []*clustersetv1alpha1.Member{local}, []*clustersetv1alpha1.ExportedService{own},
			"NoClusterSetIP", []string{"IPv6", "--clusterset-ip-range", "--clusterset-ip-cidr", multicluster.UseClusterSetIPAnnotation + "=false"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := deciding(t)
			got, err := c.decide(web, newExport(), facts{service: test.service, self: local, exported: test.exports, members: test.members})
			if err != nil || got.held != nil || got.wait != test.wait || (got.problem == nil) != (test.reason == "") {
				t.Fatalf("%+v (%v)", got, err)
			}
			if got.problem == nil {
				return
			}
			for _, part := range test.parts {
				if got.problem.Reason != test.reason || !strings.Contains(got.problem.Message, part) {
					t.Errorf("%+v, want %s with %q", got.problem, test.reason, part)
				}
			}
		})
	}
}

// R128: a lost member that has not allocated may never do so, so that the next is the
// first. What it has decided counts, and that it wants none, since imports show that.
func TestUndecidedExportOfALostMemberIsNotWaitedFor(t *testing.T) {
	decided := clustersetip.NewDecision("east", []string{"243.7.0.1"}, epoch)
	for name, test := range map[string]struct {
		state clustersetv1alpha1.MemberState
		first *clustersetv1alpha1.ExportedService
		want  string // who decided on what
	}{
		"in touch":              {clustersetv1alpha1.MemberConnected, exported("east", "x", 0, asks), "nobody"},
		"silent for a moment":   {clustersetv1alpha1.MemberStale, exported("east", "x", 0, asks), "nobody"},
		"lost":                  {clustersetv1alpha1.MemberLost, exported("east", "x", 0, asks), "here [243.1.0.1]"},
		"lost, and has decided": {clustersetv1alpha1.MemberLost, exported("east", "x", 0, asks, holds(decided)), "east [243.7.0.1]"},
		"lost, and wants none":  {clustersetv1alpha1.MemberLost, exported("east", "x", 0), "east []"},
	} {
		c, _ := deciding(t)
		local := allocator()
		members := []*clustersetv1alpha1.Member{local, {
			ObjectMeta: metav1.ObjectMeta{Name: "to-east"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "east", State: test.state, Synced: true},
		}}
		got, err := c.decide(web, newExport(), facts{service: newService(), self: local, members: members,
			exported: []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks), test.first}})
		decision := "nobody"
		if got.held != nil {
			decision = fmt.Sprint(got.held.DecidedBy, " ", got.held.IPs)
		}
		if err != nil || decision != test.want {
			t.Errorf("%s: decided by %s (%v), want %s", name, decision, err, test.want)
		}
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
	held := clustersetip.NewDecision("gone", []string{had}, epoch)
	younger := clustersetip.NewDecision("here", []string{"243.1.0.2"}, epoch.Add(time.Minute))
	written := newExport()
	export.RecordDecision(written, held, epoch)
	for name, exports := range map[string][]*clustersetv1alpha1.ExportedService{
		"alone":                               {exported("here", "export", 1, asks)},
		"an older one has not decided either": {exported("here", "export", 1, asks), exported("east", "x", 0, asks)},
		"what it held to before is shown":     {exported("here", "export", 1, asks, holds(younger))},
		"and another holds to that as well":   {exported("here", "export", 1, asks, holds(younger)), exported("east", "x", 0, asks, holds(younger))},
	} {
		c, _ := deciding(t)
		local := allocator()
		got, err := c.decide(web, written, facts{service: newService(), self: local, exported: exports, members: []*clustersetv1alpha1.Member{local}})
		if err != nil || !clustersetip.Equal(got.held, held) {
			t.Errorf("%s: it holds to %+v (%v), want %+v", name, got.held, err, held)
		}
	}
}

// R128, R129: a service that comes back gets the address that it had, unless another
// holds it by now: what was decided in an earlier membership keeps nobody from it.
func TestAddressOfAnEarlierMembershipIsFree(t *testing.T) {
	record := func(name string, joinedAt time.Time) *multiclusterxv1beta1.ServiceExport {
		written := newExport()
		written.Name = name
		export.RecordDecision(written, clustersetip.NewDecision("here", []string{had}, epoch), joinedAt)
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
		c, _ := deciding(t)
		if err := c.own.Add(test.own); err != nil {
			t.Fatal(err)
		}
		if got := decideFor(t, c, web); slices.Equal(got.ips(), []string{had}) != test.free {
			t.Errorf("%s: it gets %v", name, got.ips())
		}
	}
}
