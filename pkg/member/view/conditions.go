// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// MaxMessage limits the message of a condition, in characters: parts of it come
// from other clusters.
const MaxMessage = 1000

// setOrRemove sets a condition that an entry does not always have.
func setOrRemove(conditions *[]metav1.Condition, now time.Time, conditionType string, condition *metav1.Condition) {
	if condition == nil {
		meta.RemoveStatusCondition(conditions, conditionType)
		return
	}
	setCondition(conditions, now, *condition)
}

func setCondition(conditions *[]metav1.Condition, now time.Time, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	if condition.Reason == "" {
		condition.Reason = acceptance.ReasonUnknown
	}
	condition.Message = truncate.Message(condition.Message, MaxMessage)
	meta.SetStatusCondition(conditions, condition)
}

func accepted(p Peer) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberAccepted, Status: metav1.ConditionFalse, Reason: p.Acceptance.Reason, Message: p.Acceptance.Message}
	switch {
	case p.Acceptance.Accepted:
		condition.Status = metav1.ConditionTrue
	case !p.Acceptance.Refused():
		condition.Status = metav1.ConditionUnknown
		if p.Feed.ClaimsError != nil {
			condition.Reason, condition.Message = response.Explain(p.Feed.ClaimsError)
		}
	}
	return condition
}

func reachable(p Peer) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberReachable, Status: metav1.ConditionFalse}
	switch {
	case p.SecretProblem != nil:
		condition.Reason, condition.Message = acceptance.ReasonInvalidSecret, fmt.Sprintf("member is not contacted: its Secret is invalid: %v", p.SecretProblem)
	case p.Feed.ProbeError != nil:
		condition.Reason, condition.Message = response.Explain(p.Feed.ProbeError)
		if p.SeenElsewhere {
			condition.Message += "; another replica of mcs-apiserver has seen it since, and what this one knows may be outdated: check the network of its Pod"
		}
	case !p.Feed.Running || p.LastSeen.IsZero() || p.Entry == nil && p.Claims == nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, acceptance.ReasonUnknown, "no response from the member yet"
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Reachable", "member is reachable"
	}
	return condition
}

// synced tells whether everything that the member exports now is known and admitted.
func synced(p Peer) metav1.Condition {
	condition := read(p.Feed)
	if p.Outdated && !p.Feed.Unrecorded {
		message := "this replica of mcs-apiserver has not read all exports of the member since any replica last saw it; what is imported from the member stays as it is until then"
		if condition.Status == metav1.ConditionFalse {
			message += ": " + condition.Message
		}
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, clusterset.ReasonOutdated, message
	}
	return condition
}

// read tells whether everything that the feed of a member has read is all and admitted.
func read(feed Feed) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberSynced, Status: metav1.ConditionFalse}
	if feed.Unrecorded {
		condition.Status, condition.Reason = metav1.ConditionUnknown, clusterset.ReasonUnrecorded
		condition.Message = "not everything that the member exported before this server started is recorded: derived Services and imported EndpointSlices stay as they are until the member is read, for up to its TTL"
		return condition
	}
	for kind := range exports.Kinds {
		if err := feed.ReadErrors[kind]; err != nil {
			condition.Reason, condition.Message = response.Explain(err)
			return condition
		}
	}
	rejected, first := feed.RefusedEntries, feed.FirstEntry
	for kind := range exports.Kinds {
		rejected += feed.Rejected[kind].Len()
		first = cmp.Or(first, feed.Rejected[kind].First())
	}
	switch {
	case rejected > 0:
		condition.Reason = clusterset.ReasonInvalidObjects
		condition.Message = fmt.Sprintf("%d objects are rejected or admitted only in part (%s), the first: %s", rejected, describe(feed.Refusals()), first)
	case feed.Listed != [exports.Kinds]bool{true, true}:
		condition.Status, condition.Reason = metav1.ConditionUnknown, "Reading"
		condition.Message = "exports of the member have not been read completely since this server started or the Secret changed"
	case feed.Unconfirmed > 0:
		condition.Reason = "UnconfirmedRemoval"
		condition.Message = fmt.Sprintf("%d objects that were not listed are kept until the member confirms that they are gone", feed.Unconfirmed)
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Synced", "all exports of the member are known"
	}
	return condition
}

// Refusals returns how many objects are refused, by reason. A reason that ends the
// reading of a member counts as 1.
func (f Feed) Refusals() map[string]int {
	counts := map[string]int{}
	if f.RefusedEntries > 0 {
		counts[response.ReasonInvalidMember] = f.RefusedEntries
	}
	for kind := range exports.Kinds {
		f.Rejected[kind].AddTo(counts)
		if reason, ok := response.Limit(f.ReadErrors[kind]); ok {
			counts[reason] = 1
		}
	}
	return counts
}

// describe lists reasons with their counts.
func describe(counts map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", reason, counts[reason]))
	}
	return strings.Join(parts, ", ")
}

// exportAges tells whether the ages of the member's exports, which decide about
// precedence, can be trusted.
func exportAges(p Peer) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberExportAges, Status: metav1.ConditionTrue, Reason: "Plausible"}
	switch {
	case p.Backdated.Len() > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterset.ReasonBackdated
		condition.Message = fmt.Sprintf("%d exports are new, but claim to be older, and take precedence accordingly; the first: %s. "+
			"That is normal if the Service was created after its ServiceExport, or if that lists this cluster only now; otherwise check the clock of the member, and whether somebody else controls it. This ends when they are withdrawn",
			p.Backdated.Len(), p.Backdated.First())
	case p.JoinedAt.IsZero():
		condition.Status, condition.Reason = metav1.ConditionUnknown, clusterset.ReasonNoJoinTime
		condition.Message = fmt.Sprintf("Secret of the member does not say when it joined, so that its exports are as old as the member claims: run kubectl mcs join with this cluster and the member, or add %s to the Secret",
			clusterset.MemberSecretJoinedAt)
	default:
		condition.Message = fmt.Sprintf("exports of the member count from %s at the earliest, when it joined", p.JoinedAt.UTC().Format(time.RFC3339))
	}
	return condition
}

// Listing is the set of clusters that are members here, directly or through a hub.
type Listing struct {
	Self identity.Cluster
	IDs  sets.Set[string]
	// Sorted are the IDs in order.
	Sorted []string
	// UIDs are those of the accepted members and of this cluster, by ID.
	UIDs map[string]types.UID
}

// Equal reports whether two listings are the same.
func (l *Listing) Equal(other *Listing) bool {
	return l.Self == other.Self && l.IDs.Equal(other.IDs) && maps.Equal(l.UIDs, other.UIDs)
}

// Mutual compares the clusters that a member lists with those that this cluster
// lists. relayed are the other entries of a hub.
func Mutual(listing *Listing, accepted bool, entry *clusterset.Member, relayed map[string]*clusterset.Member) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberMutual, Status: metav1.ConditionUnknown, Reason: acceptance.ReasonUnknown, Message: "peer list not received yet"}
	if entry == nil || !accepted {
		return condition
	}
	var unknown []string
	listed := false
	for _, id := range entry.Status.Peers {
		switch {
		case id == listing.Self.ID:
			listed = true
		case !listing.IDs.Has(id):
			unknown = append(unknown, id)
		}
	}
	slices.Sort(unknown)
	namesakes := namesakes(listing, relayed)
	switch {
	case len(namesakes) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, acceptance.ReasonDuplicateID
		condition.Message = fmt.Sprintf("member and this cluster know different clusters by the same ID: %s; give the cluster of each pair that joined last another ID", strings.Join(namesakes, ", "))
	case !listed:
		condition.Status, condition.Reason = metav1.ConditionFalse, "NotListed"
		condition.Message = fmt.Sprintf("member does not list this cluster, %q: run kubectl mcs join with this cluster and the member; or invite the member (kubectl mcs invite %s), which accepts; or create a Secret for this cluster there",
			listing.Self.ID, entry.Status.ClusterID)
	case len(unknown) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterset.ReasonListsOthers
		condition.Message = fmt.Sprintf("member lists clusters that are not members here: %s; run kubectl mcs join with all clusters, exchange invitations with them (kubectl mcs invite), or create Secrets for them in this cluster; "+
			"or, if the member is a hub for them, list them in %s of its Secret here, and bind service account %s there to ClusterRole mcs-apiserver:relay",
			strings.Join(slices.Compact(unknown), ", "), clusterset.MemberSecretRelayFor, clusterset.PeerAccountName(listing.Self.ID))
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Mutual", "both clusters list each other and agree on all other members"
	}
	return condition
}

// namesakes returns the IDs by which a hub knows another cluster than this one
// does, each with the UID of the hub's.
func namesakes(listing *Listing, relayed map[string]*clusterset.Member) []string {
	var namesakes []string
	for _, id := range slices.Sorted(maps.Keys(relayed)) {
		status := &relayed[id].Status
		uid, known := listing.UIDs[id]
		if known && uid != "" && status.ClusterUID != "" && status.ClusterUID != uid &&
			status.ClusterSet == listing.Self.ClusterSet && status.State != clusterset.MemberRefused {
			namesakes = append(namesakes, fmt.Sprintf("%q (UID %s)", id, status.ClusterUID))
		}
	}
	return namesakes
}
