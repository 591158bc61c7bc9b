// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
)

// Relay is a snapshot of a cluster that a hub relays.
type Relay struct {
	// ClusterID is that of the cluster, and Hub that of the hub.
	ClusterID, Hub string
	// Path and State are those of the route to the cluster.
	Path  []string
	State clusterset.MemberState
	// Entry is the hub's entry of the cluster. Hubs may write anything into it.
	Entry *clusterset.Member
	// LastSeen is when the hub saw the cluster.
	LastSeen time.Time
	// TTL and LostPolicy are those of the hub.
	TTL        time.Duration
	LostPolicy clusterset.LostPolicy
	// Exports and Endpoints are how much of the cluster's exports is held, and Complete is
	// whether the feed of the hub is.
	Exports, Endpoints int32
	Complete           bool
	// ReachedElsewhere is set if the hub does not see the cluster, but another replica does.
	ReachedElsewhere bool
	Allocation       *metav1.Condition
	// Previous are the conditions of the entry before, for their transition times.
	Previous []metav1.Condition
}

// Relayed returns the entry of a cluster that a hub relays. Of what the hub says, it
// has only what is listed here, all of which was validated: an entry that the hub
// makes up cannot mislead who reads it, nor the controllers that rely on it.
func Relayed(r Relay, now time.Time) *clusterset.Member {
	reported := &r.Entry.Status
	entry := &clusterset.Member{ObjectMeta: metav1.ObjectMeta{Name: r.ClusterID, Labels: map[string]string{managedByLabel: managedBy}}}
	entry.Status = clusterset.MemberStatus{
		ClusterID: r.ClusterID, ClusterUID: reported.ClusterUID, ClusterSet: reported.ClusterSet, IDClaimedAt: reported.IDClaimedAt,
		KubernetesVersion: reported.KubernetesVersion, State: r.State, Path: r.Path, LastSeen: Timestamp(r.LastSeen), TTLSeconds: int32(r.TTL / time.Second), LostPolicy: r.LostPolicy,
		Exports: r.Exports, Endpoints: r.Endpoints, Synced: reported.Synced && r.Complete && !r.ReachedElsewhere,
	}
	if _, err := clustersetip.ParseCIDRs(reported.ClusterSetIPCIDRs); err == nil {
		entry.Status.ClusterSetIPCIDRs = reported.ClusterSetIPCIDRs
	}
	conditions := &entry.Status.Conditions
	for _, conditionType := range []string{clusterset.MemberReachable, clusterset.MemberSynced, clusterset.MemberExportAges} {
		if condition := r.reported(conditionType); condition != nil {
			r.set(conditions, *condition, now)
		}
	}
	if r.Allocation != nil {
		r.set(conditions, *r.Allocation, now)
	}
	return entry
}

// relayedReasons are the reasons of conditions that a hub may report.
var relayedReasons = map[string]sets.Set[string]{
	clusterset.MemberReachable: requestReasons.Union(sets.New("Reachable", acceptance.ReasonInvalidSecret)),
	clusterset.MemberSynced: requestReasons.Union(sets.New("Synced", "Reading", "UnconfirmedRemoval", clusterset.ReasonUnrecorded, clusterset.ReasonOutdated,
		clusterset.ReasonInvalidObjects, clusterset.ReasonTooManyExports, clusterset.ReasonResponseTooLarge)),
	clusterset.MemberExportAges: sets.New("Plausible", clusterset.ReasonBackdated, clusterset.ReasonNoJoinTime),
}

// requestReasons are those of failed requests.
var requestReasons = sets.New("Unreachable", "Unauthorized", "Forbidden", "NotInstalled", "Unavailable", "Refused", "Unreadable")

// reported returns a condition of the hub, nil if the hub does not report it. The reason
// is one that is known here, and the message does not repeat that of the hub.
func (r Relay) reported(conditionType string) *metav1.Condition {
	if conditionType == clusterset.MemberSynced && r.ReachedElsewhere {
		return &metav1.Condition{
			Type: conditionType, Status: metav1.ConditionUnknown, Reason: clusterset.ReasonReachedElsewhere,
			Message: fmt.Sprintf("hub %q does not reach the cluster, but another replica of mcs-apiserver does without the hub, and may know newer exports; what is imported from the cluster stays as it is: check the network of this Pod", r.Hub),
		}
	}
	found := meta.FindStatusCondition(r.Entry.Status.Conditions, conditionType)
	if found == nil {
		return nil
	}
	condition := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionUnknown, Reason: acceptance.ReasonUnknown,
		Message: fmt.Sprintf("reported by hub %q: see Member %q in that cluster", r.Hub, r.ClusterID),
	}
	if found.Status == metav1.ConditionTrue || found.Status == metav1.ConditionFalse {
		condition.Status = found.Status
	}
	if relayedReasons[conditionType].Has(found.Reason) {
		condition.Reason = found.Reason
	}
	return &condition
}

// set adds a condition, since when it has the status that it has.
func (r Relay) set(conditions *[]metav1.Condition, condition metav1.Condition, now time.Time) {
	if before := meta.FindStatusCondition(r.Previous, condition.Type); before != nil {
		*conditions = append(*conditions, *before)
	}
	setCondition(conditions, now, condition)
}
