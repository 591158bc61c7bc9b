// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipallocator assigns shared ClusterSet IPs to the services that this
// cluster exports: it adopts the decision of another cluster, or allocates an
// address of this cluster's allocation CIDR. The rules that all clusters follow
// are those of package clustersetip; this package applies them to what the caches
// of this process show.
package ipallocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// ReasonPending is the reason of an export that waits for its shared ClusterSet IP.
const ReasonPending = "ClusterSetIPPending"

// Allocator assigns shared ClusterSet IPs. It is safe for concurrent use.
type Allocator struct {
	clock clock.PassiveClock
	// exported are the ExportedServices of all clusters, own the ServiceExports of
	// this cluster, both indexed by AddIndexers.
	exported, own cache.Indexer
	// derived returns the derived Service of a service, nil if there is none.
	derived func(types.NamespacedName) *corev1.Service
	// allocations returns the allocation CIDRs of all members.
	allocations func() clustersetip.Allocations
	// requeue reconciles an export again.
	requeue      func(types.NamespacedName)
	reservations *reservations
	unsynced     unsynced
}

// New returns an allocator that reads the ExportedServices of all clusters and
// the ServiceExports of this cluster from indexers with the [Indexers]. It calls
// requeue, which must not block, for each export whose assignment may have changed.
// derived returns the derived Service of a service in this cluster, nil if there is
// none, and allocations the allocation CIDRs of all members.
func New(clock clock.PassiveClock, exported, own cache.Indexer, derived func(types.NamespacedName) *corev1.Service, allocations func() clustersetip.Allocations, requeue func(types.NamespacedName)) *Allocator {
	return &Allocator{clock: clock, exported: exported, own: own, derived: derived, allocations: allocations, requeue: requeue, reservations: newReservations()}
}

// Request is an export of this cluster and the state that its address depends on.
type Request struct {
	Key    types.NamespacedName
	Export *multiclusterxv1beta1.ServiceExport
	// Service is the exported Service, nil if it does not exist.
	Service *corev1.Service
	// Self is the Member of this cluster.
	Self *clustersetv1alpha1.Member
	// JoinedAt is when this cluster joined its ClusterSet.
	JoinedAt time.Time
	// Exported are the exports of the service in all clusters.
	Exported []*clustersetv1alpha1.ExportedService
	Members  []*clustersetv1alpha1.Member
}

// Result is what an export should record.
type Result struct {
	// Decision is the decision to record, nil for none.
	Decision *clusterset.ClusterSetIPDecision
	// Problem is why the export has no address although it requests one.
	Problem *export.Problem
	// RetryAfter is when to reconcile the export again if no event does so earlier.
	RetryAfter time.Duration
}

// pending returns the result for an export whose address is not decided yet.
func pending(retryAfter time.Duration, format string, args ...any) Result {
	return Result{
		Problem:    &export.Problem{Reason: ReasonPending, Message: "shared ClusterSet IP is pending: " + fmt.Sprintf(format, args...)},
		RetryAfter: retryAfter,
	}
}

// waits reports whether the export waits for something.
func (r Result) waits() bool { return r.Problem != nil || r.RetryAfter > 0 }

func (r Result) ips() []string {
	if r.Decision == nil {
		return nil
	}
	return r.Decision.IPs
}

// Start records that the caches have synced. Addresses are allocated only after
// the propagation delay has passed since then.
func (a *Allocator) Start() { a.reservations.start(a.clock.Now()) }

// Assign returns the decision that an export should record, and reserves the
// addresses of that decision. The caller writes the export and then calls Recorded.
func (a *Allocator) Assign(request Request) (Result, error) {
	result, err := a.evaluate(request)
	if err != nil {
		return Result{}, err
	}
	if result.waits() {
		a.reservations.setWaiting(request.Key, true)
	}
	a.release(request.Key, result.ips())
	return result, nil
}

// Recorded ends the wait of an export whose result has been written. Until then
// the export may have to be evaluated again, as one that had to wait.
func (a *Allocator) Recorded(key types.NamespacedName, result Result) {
	if !result.waits() {
		a.reservations.setWaiting(key, false)
	}
}

// Release releases the addresses reserved for an export that is not served to
// other clusters.
func (a *Allocator) Release(key types.NamespacedName) { a.release(key, nil) }

// Forget releases everything that is kept for a deleted export.
func (a *Allocator) Forget(key types.NamespacedName) {
	a.reservations.setWaiting(key, false)
	a.release(key, nil)
}

// release releases the reserved addresses of an export other than those to keep,
// and requeues the exports that may be waiting for them.
func (a *Allocator) release(key types.NamespacedName, keep []string) {
	if a.reservations.release(key, keep, a.clock.Now()) {
		a.RequeueWaiting()
	}
}

// RequeueWaiting requeues all exports that wait for something.
func (a *Allocator) RequeueWaiting() {
	for _, key := range a.reservations.allWaiting() {
		a.requeue(key)
	}
}

func (a *Allocator) evaluate(request Request) (Result, error) {
	now := a.clock.Now()
	allocations := Allocations(request.Members)
	localTo := func(key types.NamespacedName) clustersetip.Local {
		return clustersetip.NewLocal(request.Self.Status.ClusterID, a.derived(key), allocations, now)
	}
	exports := a.standing(request.Key, exportsOf(request), localTo)
	result, err := a.decide(request, exports, localTo)
	if _, wait := clustersetip.Awaited(localTo(request.Key), exports); wait > 0 && result.Decision == nil && (result.RetryAfter == 0 || wait < result.RetryAfter) {
		result.RetryAfter = wait
	}
	return result, err
}

// decide returns what an export should record, given the standing exports of its service.
func (a *Allocator) decide(request Request, exports []clustersetip.Export, localTo localTo) (Result, error) {
	local := localTo(request.Key)
	now := local.Now
	unsynced, until := unsyncedMember(request.Members, a.unsynced.since(request.Members, now), now)
	action := clustersetip.Decide(local, exports, unsynced == "")
	switch {
	case action.Record != nil:
		return Result{Decision: action.Record}, nil
	case action.Allocate:
		return a.allocate(request, exports, localTo)
	case clustersetip.InForce(local, exports) != nil:
		// The decision for no address takes effect at once and is only recorded later.
		return Result{RetryAfter: until.Sub(now)}, nil
	case unsynced != "":
		return pending(until.Sub(now), "the exports of member %q have not been read completely; allocation continues by %s at the latest, no action is required",
			unsynced, until.UTC().Format(time.RFC3339)), nil
	}
	if cluster, _ := clustersetip.Awaited(local, exports); cluster != "" {
		return pending(0, "cluster %q says that the address was allocated in the future; it is used as soon as that is possible, "+
			"synchronize the clocks of both clusters", cluster), nil
	}
	return pending(0, "waiting for cluster %q, which has the founding export, to allocate the address; see the Ready condition of its ServiceExport", action.WaitFor), nil
}

// Expelled reports whether a member is expelled.
func Expelled(member *clustersetv1alpha1.Member) bool {
	accepted := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberAccepted)
	return accepted != nil && accepted.Reason == clusterset.ReasonExpelled
}

// isNamed reports whether a member is the one that is used of its cluster. Members that are
// named after their Secrets are not, or not yet.
func isNamed(member *clustersetv1alpha1.Member) bool { return member.Name == member.Status.ClusterID }

// Allocations returns the allocation CIDRs of all members that may allocate.
func Allocations(members []*clustersetv1alpha1.Member) clustersetip.Allocations {
	cidrs := map[string][]string{}
	for _, member := range members {
		if usable, accepted := allocationOf(member); accepted && isNamed(member) {
			cidrs[member.Status.ClusterID] = usable
		}
	}
	return clustersetip.NewAllocations(cidrs)
}

// SameAllocation reports whether a change of a member leaves the [Allocations] as they are.
func SameAllocation(old, member *clustersetv1alpha1.Member) bool {
	before, wasAccepted := allocationOf(old)
	after, isAccepted := allocationOf(member)
	return old.Status.ClusterID == member.Status.ClusterID && wasAccepted == isAccepted && slices.Equal(before, after)
}

// allocationOf returns the allocation CIDRs of a member, none if it may not allocate, and
// whether the member is accepted.
func allocationOf(member *clustersetv1alpha1.Member) (cidrs []string, accepted bool) {
	switch {
	case meta.IsStatusConditionFalse(member.Status.Conditions, clusterset.MemberAccepted):
		return nil, false
	case meta.IsStatusConditionFalse(member.Status.Conditions, clusterset.MemberClusterSetIP):
		return nil, true
	}
	return member.Status.ClusterSetIPCIDRs, true
}

// exportsOf returns the exports of a service. For this cluster, the recorded
// decision counts: the feed may lag behind. It does not count if a cluster is
// expelled that made it or that it was heard through. The undecided export of a member
// that has been silent for its TTL is left out, since that member may never allocate, and so are
// exports that some clusters do not see. An export that requests no address stays: its decision takes effect without being recorded.
func exportsOf(request Request) []clustersetip.Export {
	lost, expelled := sets.New[string](), sets.New[string]()
	for _, member := range request.Members {
		if Expelled(member) {
			expelled.Insert(member.Status.ClusterID)
		}
		if isNamed(member) && (member.Status.State == clustersetv1alpha1.MemberLost || member.Status.Expired) {
			lost.Insert(member.Status.ClusterID)
		}
	}
	var exports []clustersetip.Export
	for _, exported := range request.Exported {
		current := merge.FromV1alpha1(exported).IP
		switch {
		case current.Cluster == request.Self.Status.ClusterID:
			if current.Decision = export.RecordedDecision(request.Export, request.JoinedAt); clustersetip.DependsOn(current.Decision, expelled) {
				current.Decision = nil
			}
		case current.Abstains, current.Decision == nil && current.Wants && lost.Has(current.Cluster):
			continue
		}
		exports = append(exports, current)
	}
	return exports
}

// unsynced is when members were first seen with exports that are still being read, by name. Their
// conditions do not tell: a member that begins again and again changes them every time.
type unsynced struct {
	mu    sync.Mutex
	first map[string]time.Time
}

// since returns since when each member has been seen unsynced, and forgets all others.
func (u *unsynced) since(members []*clustersetv1alpha1.Member, now time.Time) map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	first := map[string]time.Time{}
	for _, member := range members {
		if since, unsynced := unsyncedSince(member); unsynced {
			first[member.Name] = earlier(since, now)
			if before, known := u.first[member.Name]; known {
				first[member.Name] = earlier(first[member.Name], before)
			}
		}
	}
	u.first = first
	return first
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// unsyncedSince returns since when the exports of a member are being read, and whether they are.
// Those of an unreachable member are remembered unless they have never been read.
func unsyncedSince(member *clustersetv1alpha1.Member) (since time.Time, unsynced bool) {
	switch {
	case member.Status.State == clustersetv1alpha1.MemberConnecting:
		return member.CreationTimestamp.Time, true
	case member.Status.State == clustersetv1alpha1.MemberConnected && !member.Status.Synced:
		if synced := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberSynced); synced != nil {
			return synced.LastTransitionTime.Time, true
		}
		return member.CreationTimestamp.Time, true
	}
	return time.Time{}, false
}

// unsyncedMember returns the member whose exports are still being read, and the
// time until which to wait for them. Of several members, it returns the one to
// wait for longest. No member is waited for longer than its TTL.
func unsyncedMember(members []*clustersetv1alpha1.Member, since map[string]time.Time, now time.Time) (name string, until time.Time) {
	for _, member := range members {
		first, unsynced := since[member.Name]
		if !unsynced {
			continue
		}
		limit := first.Add(time.Duration(member.Status.TTLSeconds) * time.Second)
		if limit.After(now) && (limit.After(until) || limit.Equal(until) && member.Name < name) {
			name, until = member.Name, limit
		}
	}
	return name, until
}

// allocate allocates addresses of this cluster's allocation CIDR.
func (a *Allocator) allocate(request Request, exports []clustersetip.Export, localTo localTo) (Result, error) {
	if invalid := export.Check(request.Key.Namespace, request.Key.Name, request.Service); invalid != nil {
		// The feed of this cluster has not caught up with the Service yet. The
		// export keeps waiting; its conditions name the invalid Service.
		return pending(0, "%s", invalid.Message), nil
	}
	if problem := cannotAllocate(request.Self); problem != nil {
		return Result{Problem: problem}, nil
	}
	cidrs, err := clustersetip.ParseCIDRs(request.Self.Status.ClusterSetIPCIDRs)
	if err != nil {
		return Result{}, err
	}
	a.reservations.mu.Lock()
	defer a.reservations.mu.Unlock()
	now := a.clock.Now()
	if until := latest(a.reservations.started, request.JoinedAt).Add(clustersetip.PropagationDelay); now.Before(until) {
		return pending(until.Sub(now), "this cluster joined or mcs-controller started recently; "+
			"allocation continues at %s, when all addresses in use are known, no action is required", until.UTC().Format(time.RFC3339)), nil
	}
	var wait time.Duration // until the first quarantined address becomes available
	ips, err := clustersetip.NewPool(cidrs).Allocate(request.Key.String(), request.Service.Spec.IPFamilies, func(address netip.Addr) bool {
		if a.inUseLocked(address, request.Key, request.JoinedAt, localTo) {
			return true
		}
		remaining := a.reservations.quarantine.Wait(address, request.Key.String(), now)
		if remaining > 0 && (wait == 0 || remaining < wait) {
			wait = remaining
		}
		return remaining > 0
	})
	if err != nil {
		return allocationFailure(err, wait), nil
	}
	for _, ip := range ips {
		a.reservations.reserveLocked(netip.MustParseAddr(ip), request.Key)
	}
	self := request.Self.Status.ClusterID
	own := slices.IndexFunc(exports, func(export clustersetip.Export) bool { return export.Cluster == self }) // only an exporter allocates
	since := clustersetip.Since(exports[own].At, now, a.reservations.waiting.Has(request.Key))
	return Result{Decision: clustersetip.NewDecision(self, ips, since)}, nil
}

// allocationFailure returns the result of a failed allocation. wait is when a
// quarantined address becomes available, zero if there is none.
func allocationFailure(err error, wait time.Duration) Result {
	var exhausted *clustersetip.ExhaustedError
	switch {
	case errors.As(err, &exhausted) && wait > 0:
		return pending(wait, "the remaining addresses of allocation CIDR %s were released recently and become available within %s, no action is required",
			exhausted.CIDR, clustersetip.PropagationDelay)
	case errors.As(err, &exhausted):
		return Result{Problem: &export.Problem{Reason: "ClusterSetIPExhausted", Message: fmt.Sprintf(
			"allocation CIDR %s of this cluster is exhausted; assign a larger one (ClusterClaim %s, or the flag --clusterset-ip-cidr of mcs-apiserver) or withdraw other exports", exhausted.CIDR, multicluster.ClusterSetIPCIDRClaim)}}
	}
	return Result{Problem: &export.Problem{Reason: "NoClusterSetIP", Message: fmt.Sprintf(
		"%v; add a CIDR of that IP family to the ClusterSet IP range (the flag --clusterset-ip-range of mcs-apiserver in all clusters) and to the allocation CIDRs of this cluster (ClusterClaim %s, or the flag --clusterset-ip-cidr), "+
			"or opt out with annotation %s=false", err, multicluster.ClusterSetIPCIDRClaim, multicluster.UseClusterSetIPAnnotation)}}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cannotAllocate returns why a cluster cannot allocate addresses, nil if it can.
func cannotAllocate(self *clustersetv1alpha1.Member) *export.Problem {
	condition := meta.FindStatusCondition(self.Status.Conditions, clusterset.MemberClusterSetIP)
	switch {
	case condition == nil:
		return &export.Problem{Reason: "NoClusterSetIPRange", Message: fmt.Sprintf(
			"export requests a shared ClusterSet IP, but this cluster has no allocation CIDR; run `kubectl mcs join` with all clusters to assign one, "+
				"since other clusters may have recorded that it has none, or opt out with annotation %s=false", multicluster.UseClusterSetIPAnnotation)}
	case condition.Status != metav1.ConditionTrue:
		return &export.Problem{Reason: "ClusterSetIPRange" + condition.Reason,
			Message: "export requests a shared ClusterSet IP, but none can be allocated: " + condition.Message}
	}
	return nil
}
