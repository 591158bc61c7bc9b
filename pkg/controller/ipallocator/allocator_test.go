// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newExport() *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "export"}}
}

func newService(changes ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, change := range changes {
		change(service)
	}
	return service
}

// exported returns the service as a cluster exported it so many minutes after epoch.
func exported(cluster string, uid types.UID, minute int, changes ...func(*clustersetv1alpha1.ExportedServiceSpec)) *clustersetv1alpha1.ExportedService {
	at := metav1.NewTime(epoch.Add(time.Duration(minute) * time.Minute))
	result := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web." + cluster, UID: uid},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: "web", Type: clustersetv1alpha1.ClusterSetIP, ExportedAt: at,
		},
	}
	for _, change := range changes {
		change(&result.Spec)
	}
	return result
}

// R426: of a cluster that a hub relays, an entry that is named after its Secret is not used yet.
func TestMemberThatIsNamedAfterItsSecretDoesNotCount(t *testing.T) {
	entry := func(name string, state clustersetv1alpha1.MemberState, cidrs ...string) *clustersetv1alpha1.Member {
		return &clustersetv1alpha1.Member{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     clustersetv1alpha1.MemberStatus{ClusterID: "east", State: state, ClusterSetIPCIDRs: cidrs, Synced: true},
		}
	}
	used, unused := entry("east", clustersetv1alpha1.MemberConnected, "243.7.0.0/16"), entry("secret.member-east", clustersetv1alpha1.MemberLost)
	decided := clustersetip.NewDecision("east", []string{"243.7.0.1"}, epoch)
	for _, members := range [][]*clustersetv1alpha1.Member{{used, unused}, {unused, used}} {
		if !Allocations(members).Believes(decided) {
			t.Error("the allocation CIDR of the entry that is used does not count")
		}
		request := Request{Self: localMember(), Members: members, Exported: []*clustersetv1alpha1.ExportedService{exported("east", "x", 0, asks)}}
		if got := exportsOf(request); len(got) != 1 {
			t.Errorf("%d exports count, want that of a cluster that its hub reaches", len(got))
		}
	}
}

// R129: allocation waits until the exports of every reachable member are known, for
// the TTL of the member at most.
func TestAllocationWaitsForUnsyncedMembers(t *testing.T) {
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
		{"synced", member(clustersetv1alpha1.MemberConnected, true, 0), 0},
		{"being read", member(clustersetv1alpha1.MemberConnected, false, time.Hour, changed(10*time.Second)), 50 * time.Second},
		{"being read, start unknown", member(clustersetv1alpha1.MemberConnected, false, 20*time.Second), 40 * time.Second},
		{"being read for an hour", member(clustersetv1alpha1.MemberConnected, false, 2*time.Hour, changed(time.Hour)), 0},
		{"new, not reached yet", member(clustersetv1alpha1.MemberConnecting, false, 20*time.Second), 40 * time.Second},
		{"never reached", member(clustersetv1alpha1.MemberConnecting, false, time.Hour), 0},
		{"stale, exports remembered", member(clustersetv1alpha1.MemberStale, false, time.Hour), 0},
		{"lost", member(clustersetv1alpha1.MemberLost, false, time.Hour), 0},
		{"refused", member(clustersetv1alpha1.MemberRefused, false, 0), 0},
	} {
		members := []*clustersetv1alpha1.Member{member(clustersetv1alpha1.MemberLocal, true, 0), test.member}
		members[0].Name = "a"
		name, until := unsyncedMember(members, new(unsynced).since(members, now), now)
		switch {
		case test.wait == 0 && name != "":
			t.Errorf("%s: waits for %q until %s, want no wait", test.name, name, until)
		case test.wait > 0 && (name != "b" || until.Sub(now) != test.wait):
			t.Errorf("%s: waits for %q for %s, want %s", test.name, name, until.Sub(now), test.wait)
		}
	}
	// Of several members the longest wait counts; ties are broken by name.
	shorter, long, other := member(clustersetv1alpha1.MemberConnecting, false, 20*time.Second), member(clustersetv1alpha1.MemberConnecting, false, 0), member(clustersetv1alpha1.MemberConnecting, false, 0)
	shorter.Name, other.Name = "c", "a"
	for _, members := range [][]*clustersetv1alpha1.Member{{shorter, long, other}, {other, long, shorter}} {
		if name, until := unsyncedMember(members, new(unsynced).since(members, now), now); name != "a" || until.Sub(now) != time.Minute {
			t.Errorf("waits for %q for %s, want a for 1m", name, until.Sub(now))
		}
	}
}

// R129: a member that begins to be read again and again is waited for once.
func TestAllocationWaitsOnceForAMemberThatIsNeverSynced(t *testing.T) {
	var seen unsynced
	at := func(after time.Duration, status metav1.ConditionStatus, synced bool) string {
		now := epoch.Add(after)
		members := []*clustersetv1alpha1.Member{{
			ObjectMeta: metav1.ObjectMeta{Name: "b", CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour))},
			Status: clustersetv1alpha1.MemberStatus{State: clustersetv1alpha1.MemberConnected, Synced: synced, TTLSeconds: 60, Conditions: []metav1.Condition{
				{Type: clusterset.MemberSynced, Status: status, LastTransitionTime: metav1.NewTime(now)}, // changed just now
			}},
		}}
		name, _ := unsyncedMember(members, seen.since(members, now), now)
		return name
	}
	for i, step := range []struct {
		after  time.Duration
		status metav1.ConditionStatus
		synced bool
		want   string
	}{
		{0, metav1.ConditionUnknown, false, "b"},
		{30 * time.Second, metav1.ConditionFalse, false, "b"},
		{59 * time.Second, metav1.ConditionUnknown, false, "b"},
		{60 * time.Second, metav1.ConditionFalse, false, ""},
		{10 * time.Minute, metav1.ConditionUnknown, false, ""},
		{11 * time.Minute, metav1.ConditionTrue, true, ""},
		{12 * time.Minute, metav1.ConditionUnknown, false, "b"}, // it was read meanwhile
	} {
		if got := at(step.after, step.status, step.synced); got != step.want {
			t.Errorf("step %d: waits for %q, want %q", i, got, step.want)
		}
	}
}

const address = "243.1.0.1"

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

// localMember returns this cluster, which joined at epoch and has an allocation CIDR
// of one address.
func localMember() *clustersetv1alpha1.Member {
	joined := metav1.NewTime(epoch)
	return &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "here"},
		Status: clustersetv1alpha1.MemberStatus{
			ClusterID: "here", ClusterSet: "set", State: clustersetv1alpha1.MemberLocal, IDClaimedAt: &joined,
			ClusterSetIPCIDRs: []string{address + "/32"},
			Conditions:        []metav1.Condition{{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionTrue}},
		},
	}
}

// newAllocator returns an allocator with empty caches, an hour after epoch, and the
// keys that it requeues.
func newAllocator(t *testing.T) (*Allocator, *testingclock.FakePassiveClock, sets.Set[types.NamespacedName]) {
	t.Helper()
	clock, requeued := testingclock.NewFakePassiveClock(later), sets.New[types.NamespacedName]()
	return New(clock, cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()), cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()),
		func(types.NamespacedName) *corev1.Service { return nil }, func() clustersetip.Allocations { return Allocations([]*clustersetv1alpha1.Member{localMember()}) }, func(key types.NamespacedName) { requeued.Insert(key) }), clock, requeued
}

func evaluate(t *testing.T, a *Allocator, request Request) Result {
	t.Helper()
	request.Self, request.JoinedAt = localMember(), epoch
	request.Members = append(request.Members, request.Self)
	result, err := a.evaluate(request)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// evaluateUndecided evaluates an export of this cluster that has no decision yet.
func evaluateUndecided(t *testing.T, a *Allocator, key types.NamespacedName) Result {
	t.Helper()
	return evaluate(t, a, Request{
		Key: key, Export: newExport(), Service: newService(), Exported: []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks)},
	})
}

func isPending(got Result, retryAfter time.Duration) bool {
	return got.Decision == nil && got.RetryAfter == retryAfter && got.Problem != nil && got.Problem.Reason == ReasonPending
}

// R128, R129: a released address is not allocated to another service before the
// propagation delay has passed, and that does not count as exhaustion. The service
// that held the address may get it back at once.
func TestReleasedAddressIsQuarantined(t *testing.T) {
	east := exported("east", "x", 0, holds(clustersetip.NewDecision("here", []string{address}, epoch)))
	west := exported("west", "y", 0, holds(clustersetip.NewDecision("here", []string{address}, epoch)))
	without := exported("west", "y", 0)
	a, clock, _ := newAllocator(t)
	show := func(object *clustersetv1alpha1.ExportedService) {
		t.Helper()
		before, _, err := a.exported.Get(object)
		if err == nil {
			err = a.exported.Update(object)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.ObserveExported(before, object)
	}
	show(east)
	show(west)
	if got := evaluateUndecided(t, a, other); got.Problem == nil || got.Problem.Reason != "ClusterSetIPExhausted" {
		t.Errorf("address held by two clusters: got %+v, want exhausted", got)
	}
	clock.SetTime(later.Add(time.Hour))
	if err := a.exported.Delete(east); err != nil {
		t.Fatal(err)
	}
	a.ObserveExported(east, nil)
	if got := evaluateUndecided(t, a, other); got.Problem == nil || got.Problem.Reason != "ClusterSetIPExhausted" {
		t.Errorf("address held by one cluster: got %+v, want exhausted", got)
	}
	clock.SetTime(later.Add(2 * time.Hour))
	// The cache is ahead of the events.
	if err := a.exported.Update(without); err != nil {
		t.Fatal(err)
	}
	if got := evaluateUndecided(t, a, other); !isPending(got, clustersetip.PropagationDelay) {
		t.Errorf("address released, event not received yet: got %+v, want pending", got)
	}
	a.ObserveExported(west, without)
	clock.SetTime(later.Add(2*time.Hour + time.Second))
	if got := evaluateUndecided(t, a, other); !isPending(got, clustersetip.PropagationDelay-time.Second) {
		t.Errorf("a second after the release: got %+v %+v, want pending", got, got.Problem)
	}
	if got := evaluateUndecided(t, a, web); !slices.Equal(got.ips(), []string{address}) {
		t.Errorf("the same service gets %v, want its former address", got.ips())
	}
	// The same holds for an address that this cluster reserved and released.
	a.Release(web)
	if got := evaluateUndecided(t, a, other); !isPending(got, clustersetip.PropagationDelay) {
		t.Errorf("reservation released: got %+v, want pending", got)
	}
	clock.SetTime(later.Add(2*time.Hour + time.Second + clustersetip.PropagationDelay))
	if got := evaluateUndecided(t, a, other); !slices.Equal(got.ips(), []string{address}) {
		t.Errorf("after the propagation delay: got %+v %+v, want the address", got, got.Problem)
	}
}

// R128: an address that an export of this cluster adopted and gave up is quarantined,
// also if the feed never showed that the export held it.
func TestReleasedAddressOfOwnExportIsQuarantined(t *testing.T) {
	a, clock, requeued := newAllocator(t)
	a.reservations.setWaiting(other, true)
	adopted := newExport()
	export.RecordDecision(adopted, clustersetip.NewDecision("east", []string{address}, epoch), epoch)
	a.ObserveOwn(nil, adopted)
	if requeued.Len() > 0 {
		t.Errorf("requeued %v although no address was released", requeued)
	}
	a.ObserveOwn(adopted, nil)
	if got := evaluateUndecided(t, a, other); !isPending(got, clustersetip.PropagationDelay) {
		t.Errorf("export deleted: got %+v, want pending", got)
	}
	clock.SetTime(later.Add(clustersetip.PropagationDelay))
	if got := evaluateUndecided(t, a, other); !slices.Equal(got.ips(), []string{address}) {
		t.Errorf("after the propagation delay: got %+v, want the address", got)
	}
	if !requeued.Equal(sets.New(other)) {
		t.Errorf("requeued %v, want the waiting export", requeued)
	}
}

// R129: a cluster that just joined, or whose controller just started, may not know all
// addresses in use yet.
func TestAllocationWaitsAfterStartAndJoin(t *testing.T) {
	for name, test := range map[string]struct {
		started, now time.Duration // since the cluster joined
		wait         time.Duration
	}{
		"just joined":            {-time.Hour, time.Second, clustersetip.PropagationDelay - time.Second},
		"just started":           {time.Hour, time.Hour + 2*time.Second, clustersetip.PropagationDelay - 2*time.Second},
		"started and joined":     {time.Second, 2 * time.Second, clustersetip.PropagationDelay - time.Second},
		"long enough after both": {time.Hour, time.Hour + clustersetip.PropagationDelay, 0},
		"joined while down":      {0, clustersetip.PropagationDelay, 0},
	} {
		a, clock, _ := newAllocator(t)
		a.reservations.start(epoch.Add(test.started))
		clock.SetTime(epoch.Add(test.now))
		switch got := evaluateUndecided(t, a, web); {
		case test.wait > 0 && !isPending(got, test.wait):
			t.Errorf("%s: got %+v %+v, want pending for %s", name, got, got.Problem, test.wait)
		case test.wait == 0 && got.Decision == nil:
			t.Errorf("%s: got %+v %+v, want an address", name, got, got.Problem)
		}
	}
}

// R128: when two clusters export at the same moment, the address of the older export
// stands, but an export that had to wait does not displace others.
func TestDecisionIsAsOldAsTheExportUnlessItWaited(t *testing.T) {
	exportedAt := epoch.Add(time.Minute)
	for waited, want := range map[bool]time.Duration{false: 0, true: 5 * time.Second} {
		a, clock, _ := newAllocator(t)
		clock.SetTime(exportedAt.Add(5 * time.Second))
		a.reservations.setWaiting(web, waited)
		if got := evaluateUndecided(t, a, web).Decision; got == nil || got.Since.Sub(exportedAt) != want {
			t.Errorf("waited %t: got decision %+v, want it %s younger than the export", waited, got, want)
		}
	}
}

// A pending export names what it waits for. An export that requests no address does
// not wait to become ready.
func TestPendingExportNamesItsReason(t *testing.T) {
	reading := &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "slow", CreationTimestamp: metav1.NewTime(later.Add(-20 * time.Second))},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: "slow", State: clustersetv1alpha1.MemberConnected, TTLSeconds: 60},
	}
	own, plain := exported("here", "export", 1, asks), exported("here", "export", 1)
	ahead := clustersetip.NewDecision("east", []string{"243.7.0.1"}, later.Add(10*time.Minute)) // R286
	v6 := newService(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })
	for _, test := range []struct {
		name       string
		service    *corev1.Service
		members    []*clustersetv1alpha1.Member
		exports    []*clustersetv1alpha1.ExportedService
		reason     string
		parts      []string
		retryAfter time.Duration
	}{
		{"a member is being read", newService(), []*clustersetv1alpha1.Member{reading}, []*clustersetv1alpha1.ExportedService{own},
			ReasonPending, []string{`member "slow"`, "2026-01-01T01:00:40Z", "no action is required"}, 40 * time.Second},
		{"a member is being read, no address requested", newService(), []*clustersetv1alpha1.Member{reading}, []*clustersetv1alpha1.ExportedService{plain}, "", nil, 40 * time.Second},
		{"the founding export is undecided", newService(), nil, []*clustersetv1alpha1.ExportedService{own, exported("east", "x", 0, asks)},
			ReasonPending, []string{`cluster "east"`, "see the Ready condition of its ServiceExport"}, 0},
		{"the address was allocated in the future", newService(), nil, []*clustersetv1alpha1.ExportedService{own, exported("east", "x", 0, asks, holds(ahead))},
			ReasonPending, []string{`cluster "east"`, "synchronize the clocks"}, 5 * time.Minute},
		{"the address was allocated in the future, a member is being read", newService(), []*clustersetv1alpha1.Member{reading},
			[]*clustersetv1alpha1.ExportedService{own, exported("east", "x", 0, asks, holds(ahead))}, ReasonPending, []string{`member "slow"`}, 40 * time.Second},
		{"the address was allocated in the future, none of this cluster is available", v6, nil, []*clustersetv1alpha1.ExportedService{own, exported("east", "x", 2, asks, holds(ahead))},
			"NoClusterSetIP", []string{"IPv6"}, 5 * time.Minute},
		{"an IP family without allocation CIDR", v6, nil, []*clustersetv1alpha1.ExportedService{own},
			"NoClusterSetIP", []string{"IPv6", "--clusterset-ip-range", "--clusterset-ip-cidr", multicluster.UseClusterSetIPAnnotation + "=false"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, _, _ := newAllocator(t)
			got := evaluate(t, a, Request{Key: web, Export: newExport(), Service: test.service, Exported: test.exports, Members: test.members})
			if got.Decision != nil || got.RetryAfter != test.retryAfter || (got.Problem == nil) != (test.reason == "") {
				t.Fatalf("got %+v %+v", got, got.Problem)
			}
			if got.Problem == nil {
				return
			}
			for _, part := range test.parts {
				if got.Problem.Reason != test.reason || !strings.Contains(got.Problem.Message, part) {
					t.Errorf("got %+v, want reason %s and message with %q", got.Problem, test.reason, part)
				}
			}
		})
	}
}

// R128: a lost member with an undecided export may never allocate, so that the next
// export becomes the founding one. Its decision counts, and so does that it requests
// no address, since imports show that.
func TestUndecidedExportOfLostMemberIsIgnored(t *testing.T) {
	decided := clustersetip.NewDecision("east", []string{"243.7.0.1"}, epoch)
	for name, test := range map[string]struct {
		state clustersetv1alpha1.MemberState
		first *clustersetv1alpha1.ExportedService
		want  string // deciding cluster and addresses
	}{
		"connected":                   {clustersetv1alpha1.MemberConnected, exported("east", "x", 0, asks), "undecided"},
		"stale":                       {clustersetv1alpha1.MemberStale, exported("east", "x", 0, asks), "undecided"},
		"lost, undecided":             {clustersetv1alpha1.MemberLost, exported("east", "x", 0, asks), "here [243.1.0.1]"},
		"lost, decided":               {clustersetv1alpha1.MemberLost, exported("east", "x", 0, asks, holds(decided)), "east [243.7.0.1]"},
		"lost, requesting no address": {clustersetv1alpha1.MemberLost, exported("east", "x", 0), "east []"},
	} {
		a, _, _ := newAllocator(t)
		got := evaluate(t, a, Request{
			Key: web, Export: newExport(), Service: newService(),
			Exported: []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks), test.first},
			Members: []*clustersetv1alpha1.Member{{
				ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "east", State: test.state, Synced: true},
			}},
		})
		decision := "undecided"
		if got.Decision != nil {
			decision = fmt.Sprint(got.Decision.DecidedBy, " ", got.Decision.IPs)
		}
		if decision != test.want {
			t.Errorf("%s: got %s, want %s", name, decision, test.want)
		}
	}
}

func TestClusterWithoutAllocationCIDRReportsIt(t *testing.T) {
	self := &clustersetv1alpha1.Member{}
	if problem := cannotAllocate(self); problem == nil || problem.Reason != "NoClusterSetIPRange" {
		t.Errorf("no allocation CIDR: got %+v", problem)
	}
	self.Status.Conditions = []metav1.Condition{{Type: "ClusterSetIP", Status: metav1.ConditionFalse, Reason: "Overlaps", Message: "with b"}}
	if problem := cannotAllocate(self); problem == nil || problem.Reason != "ClusterSetIPRangeOverlaps" {
		t.Errorf("overlapping allocation CIDR: got %+v", problem)
	}
	self.Status.Conditions[0].Status = metav1.ConditionTrue
	if problem := cannotAllocate(self); problem != nil {
		t.Errorf("valid allocation CIDR: got %+v", problem)
	}
}

// R128: a decision that was just recorded counts although the feed does not show it
// yet: the address must not be lost because the export that it was adopted from has
// just been withdrawn.
func TestRecordedDecisionIsKeptBeforeTheFeedShowsIt(t *testing.T) {
	recorded := clustersetip.NewDecision("gone", []string{address}, epoch)
	younger := clustersetip.NewDecision("here", []string{"243.1.0.2"}, epoch.Add(time.Minute))
	written := newExport()
	export.RecordDecision(written, recorded, epoch)
	for name, exports := range map[string][]*clustersetv1alpha1.ExportedService{
		"only export":                              {exported("here", "export", 1, asks)},
		"an older export is undecided":             {exported("here", "export", 1, asks), exported("east", "x", 0, asks)},
		"the feed shows its former decision":       {exported("here", "export", 1, asks, holds(younger))},
		"another export holds its former decision": {exported("here", "export", 1, asks, holds(younger)), exported("east", "x", 0, asks, holds(younger))},
	} {
		a, _, _ := newAllocator(t)
		got := evaluate(t, a, Request{Key: web, Export: written, Service: newService(), Exported: exports})
		if !clustersetip.Equal(got.Decision, recorded) {
			t.Errorf("%s: got decision %+v, want %+v", name, got.Decision, recorded)
		}
	}
}

// R128, R129: a service that is exported again gets its former address unless another
// service holds it: a decision of an earlier membership does not block the address.
func TestAddressOfEarlierMembershipIsAvailable(t *testing.T) {
	record := func(name string, joinedAt time.Time) *multiclusterxv1beta1.ServiceExport {
		written := newExport()
		written.Name = name
		export.RecordDecision(written, clustersetip.NewDecision("here", []string{address}, epoch), joinedAt)
		return written
	}
	for name, test := range map[string]struct {
		own       *multiclusterxv1beta1.ServiceExport
		available bool
	}{
		"same service, earlier membership":         {record("web", epoch.Add(-time.Hour)), true},
		"another service, earlier membership":      {record("other", epoch.Add(-time.Hour)), true},
		"another service, not shown by a feed yet": {record("other", epoch), false},
	} {
		a, _, _ := newAllocator(t)
		if err := a.own.Add(test.own); err != nil {
			t.Fatal(err)
		}
		if got := evaluateUndecided(t, a, web); slices.Equal(got.ips(), []string{address}) != test.available {
			t.Errorf("%s: got %v", name, got.ips())
		}
	}
}

// R248, R287: what an expelled cluster decided, or this cluster adopted from it, is decided
// anew.
func TestDecisionOfExpelledClusterIsGivenUp(t *testing.T) {
	const forged = "243.9.0.9"
	own := exported("here", "export", 1, asks) // mcs-apiserver shows no such decision
	for decidedBy, adoptedFrom := range map[string][]string{"mallory": nil, "unknown": {"east", "mallory"}} {
		decision := clustersetip.NewDecision(decidedBy, []string{forged}, epoch)
		decision.AdoptedFrom = adoptedFrom
		written := newExport()
		export.RecordDecision(written, decision, epoch)
		for reason, want := range map[string]string{clusterset.ReasonExpelled: address, "WrongClusterSet": forged} {
			a, _, _ := newAllocator(t)
			members := []*clustersetv1alpha1.Member{{Status: clustersetv1alpha1.MemberStatus{ClusterID: "mallory", Conditions: []metav1.Condition{
				{Type: clusterset.MemberAccepted, Status: metav1.ConditionFalse, Reason: reason},
			}}}}
			got := evaluate(t, a, Request{Key: web, Export: written, Service: newService(), Exported: []*clustersetv1alpha1.ExportedService{own}, Members: members})
			if !slices.Equal(got.ips(), []string{want}) {
				t.Errorf("decision of %s, member with reason %s: got %+v, want %s", decidedBy, reason, got, want)
			}
		}
	}
}

// R244, R245: a member does not change an address that is recorded, and does not block
// the addresses of another one.
func TestForgedDecisionsDoNotTakeAddresses(t *testing.T) {
	recorded := clustersetip.NewDecision("here", []string{address}, epoch)
	forged := clustersetip.NewDecision("mallory", []string{address}, epoch.Add(-time.Hour))
	written := newExport()
	export.RecordDecision(written, recorded, epoch)
	own, foreign := exported("here", "export", 1, asks, holds(recorded)), exported("mallory", "x", 0, asks, holds(forged))
	foreign.Namespace = other.Namespace
	foreign.Spec.Service, foreign.Name = other.Name, other.Name+".mallory"
	members := []*clustersetv1alpha1.Member{{Status: clustersetv1alpha1.MemberStatus{ClusterID: "mallory", ClusterSetIPCIDRs: []string{"243.9.0.0/16"}}}}
	newContested := func() *Allocator {
		a, _, _ := newAllocator(t)
		for _, object := range []*clustersetv1alpha1.ExportedService{own, foreign} {
			if err := a.exported.Add(object); err != nil {
				t.Fatal(err)
			}
		}
		return a
	}
	request := Request{Key: web, Export: written, Service: newService(), Exported: []*clustersetv1alpha1.ExportedService{own}, Members: members}
	if got := evaluate(t, newContested(), request); !clustersetip.Equal(got.Decision, recorded) {
		t.Errorf("the address of another service is forged: got %+v, want %+v", got, recorded)
	}
	request.Exported = append(request.Exported, exported("mallory", "y", 0, asks, holds(clustersetip.NewDecision("mallory", []string{"243.9.0.9"}, epoch.Add(-time.Hour)))))
	if got := evaluate(t, newContested(), request); !clustersetip.Equal(got.Decision, recorded) {
		t.Errorf("another address is forged: got %+v, want %+v", got, recorded)
	}
	a := newContested()
	if err := a.exported.Delete(own); err != nil {
		t.Fatal(err)
	}
	request.Export, request.Exported = newExport(), []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks)}
	if got := evaluate(t, a, request); !slices.Equal(got.ips(), []string{address}) {
		t.Errorf("an address that is not in use is forged: got %+v, want %s", got, address)
	}
}

// observed adds exports of other clusters, as the feed shows them.
func observed(t *testing.T, a *Allocator, objects ...*clustersetv1alpha1.ExportedService) {
	t.Helper()
	for _, object := range objects {
		if err := a.exported.Add(object); err != nil {
			t.Fatal(err)
		}
		a.ObserveExported(nil, object)
	}
}

// of returns an export as that of another service.
func of(service types.NamespacedName, exported *clustersetv1alpha1.ExportedService) *clustersetv1alpha1.ExportedService {
	exported.Namespace, exported.Name, exported.Spec.Service = service.Namespace, service.Name+"."+exported.Spec.Cluster, service.Name
	return exported
}

// R245: decisions that are not believed do not block an address, neither while they exist
// nor when they are withdrawn.
func TestDisbelievedDecisionsDoNotQuarantineAddresses(t *testing.T) {
	for decidedBy, blocks := range map[string]bool{"mallory": false, "ghost": false, "here": true} {
		forged := of(other, exported("mallory", "x", 0, asks, holds(clustersetip.NewDecision(decidedBy, []string{address}, epoch))))
		for _, withdrawn := range []bool{false, true} {
			a, _, _ := newAllocator(t)
			observed(t, a, forged)
			if withdrawn {
				if err := a.exported.Delete(forged); err != nil {
					t.Fatal(err)
				}
				a.ObserveExported(forged, nil)
			}
			if got := evaluateUndecided(t, a, web); slices.Equal(got.ips(), []string{address}) == blocks {
				t.Errorf("decision of %s, withdrawn %t: got %+v %+v, want blocked: %t", decidedBy, withdrawn, got, got.Problem, blocks)
			}
		}
	}
}

// R245: a decision stops blocking an address when it is not believed any longer, because
// the member that is said to have made it got another allocation CIDR.
func TestDecisionStopsBlockingWhenItIsNotBelieved(t *testing.T) {
	a, clock, _ := newAllocator(t)
	members := a.allocations
	a.allocations = func() clustersetip.Allocations { return clustersetip.Allocations{} }
	observed(t, a, of(other, exported("mallory", "x", 0, asks, holds(clustersetip.NewDecision("ghost", []string{address}, epoch)))))
	if got := evaluateUndecided(t, a, web); got.Decision != nil {
		t.Errorf("believed: got %v", got.Decision)
	}
	a.allocations = members
	a.MembersChanged()
	clock.SetTime(later.Add(clustersetip.PropagationDelay))
	if got := evaluateUndecided(t, a, web); !slices.Equal(got.ips(), []string{address}) {
		t.Errorf("not believed any longer: got %+v %+v, want the address", got, got.Problem)
	}
}

// R285: an address that this cluster has just allocated is not taken for another service
// in its name, neither by an older decision nor before its own feed shows the allocation.
func TestAllocatedAddressIsNotTakenInTheNameOfThisCluster(t *testing.T) {
	a, _, _ := newAllocator(t)
	allocated := evaluateUndecided(t, a, web).Decision
	forged := of(other, exported("mallory", "x", 0, asks, holds(clustersetip.NewDecision("here", []string{address}, epoch.Add(-time.Hour)))))
	observed(t, a, forged)
	mine := newExport()
	mine.Name = other.Name
	request := Request{Key: other, Export: mine, Service: newService(), Exported: []*clustersetv1alpha1.ExportedService{of(other, exported("here", "y", 1, asks)), forged}}
	if got := evaluate(t, a, request); got.Decision != nil {
		t.Errorf("the feed does not show the allocation yet: the other service gets %v", got.Decision)
	}
	written := newExport()
	export.RecordDecision(written, allocated, epoch)
	shown := exported("here", "export", 1, asks, holds(allocated))
	observed(t, a, shown)
	if err := a.own.Add(written); err != nil {
		t.Fatal(err)
	}
	for _, started := range []bool{true, false} { // with and without the reservation
		if !started {
			a.reservations = newReservations()
		}
		if got := evaluate(t, a, request); got.Decision != nil {
			t.Errorf("reserved %t: the other service gets %v", started, got.Decision)
		}
		got := evaluate(t, a, Request{Key: web, Export: written, Service: newService(), Exported: []*clustersetv1alpha1.ExportedService{shown}})
		if !clustersetip.Equal(got.Decision, allocated) {
			t.Errorf("reserved %t: got %+v, want %+v", started, got.Decision, allocated)
		}
	}
}

// Most services have no shared ClusterSet IP.
func TestServicesWithoutAddressesCostNothing(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers())
	allocator := New(testingclock.NewFakePassiveClock(later), indexer, indexer, nil,
		func() clustersetip.Allocations {
			t.Error("allocation CIDRs of all members were read")
			return clustersetip.Allocations{}
		},
		func(key types.NamespacedName) { t.Errorf("%s was requeued", key) })
	for _, change := range [][2]any{{nil, exported("b", "uid", 1)}, {exported("b", "uid", 1), exported("b", "uid", 2)}, {exported("b", "uid", 2), nil}} {
		allocator.ObserveExported(change[0], change[1])
	}
}

// R289: what one address in many services of a member costs does not grow with their
// number: each of them is looked at when it arrives, and none is reconciled.
func TestAddressInManyServicesRequeuesOnlyExportsOfThisCluster(t *testing.T) {
	const services = 5000
	a, _, requeued := newAllocator(t)
	recorded := clustersetip.NewDecision("here", []string{address}, epoch)
	written := newExport()
	export.RecordDecision(written, recorded, epoch)
	if err := a.own.Add(written); err != nil {
		t.Fatal(err)
	}
	count := 0
	a.requeue = func(key types.NamespacedName) { count++; requeued.Insert(key) }
	var forged []*clustersetv1alpha1.ExportedService
	for number := range services {
		name := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("service-%d", number)}
		forged = append(forged, of(name, exported("mallory", "x", 0, asks, holds(clustersetip.NewDecision("here", []string{address}, epoch.Add(-time.Hour))))))
	}
	observed(t, a, forged...)
	for _, object := range forged {
		a.ObserveExported(object, object)
		if err := a.exported.Delete(object); err != nil {
			t.Fatal(err)
		}
		a.ObserveExported(object, nil)
	}
	if !requeued.Equal(sets.New(web)) || count != 2*services {
		t.Errorf("%d exports are requeued %d times, want %s with each change", requeued.Len(), count, web)
	}
	if len(a.reservations.held) > 0 {
		t.Errorf("%d addresses are held by services that were withdrawn", len(a.reservations.held))
	}
}

// The informer of the host may show that a Service is gone before the feed of this
// cluster withdraws its export.
func TestExportOfDeletedServiceIsNotAllocated(t *testing.T) {
	for name, service := range map[string]*corev1.Service{
		"deleted":      nil,
		"ExternalName": newService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
	} {
		a, _, _ := newAllocator(t)
		got, err := a.Assign(Request{
			Key: web, Export: newExport(), Service: service, Self: localMember(), JoinedAt: epoch,
			Exported: []*clustersetv1alpha1.ExportedService{exported("here", "export", 1, asks)},
		})
		if err != nil || got.Decision != nil || got.Problem == nil {
			t.Errorf("Service %s: got %+v (%v), want no address", name, got, err)
		}
		if got := evaluateUndecided(t, a, other); !slices.Equal(got.ips(), []string{address}) {
			t.Errorf("Service %s: another service gets %v, want the address", name, got.ips())
		}
	}
}
