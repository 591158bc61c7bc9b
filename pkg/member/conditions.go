// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// maxMessage is how long the message of a condition may be.
const maxMessage = 1000

// conditions brings the conditions of a peer up to date.
func (r *Registry) conditions(peer *peer) {
	accepted := metav1.Condition{Type: clusterset.MemberAccepted, Status: metav1.ConditionFalse, Reason: peer.verdict.reason, Message: peer.verdict.message}
	switch {
	case peer.verdict.accepted:
		accepted.Status = metav1.ConditionTrue
	case !peer.verdict.refused():
		accepted.Status = metav1.ConditionUnknown
		if peer.claimsError != nil {
			accepted.Reason, accepted.Message = explain(peer.claimsError)
		}
	}
	r.setCondition(&peer.conditions, accepted)
	r.setCondition(&peer.conditions, reachable(peer))
	r.setCondition(&peer.conditions, synced(peer))
	r.setCondition(&peer.conditions, r.mutual(peer))
	own := part{peer.spec.id, peer.claimedAt, peer.cidrs}
	r.setOrRemove(&peer.conditions, clusterset.MemberClusterSetIP, own.condition(r.parts, own.outside(r.config.Ranges)))
}

// setOrRemove is for conditions that are not always there.
func (r *Registry) setOrRemove(conditions *[]metav1.Condition, conditionType string, condition *metav1.Condition) {
	if condition == nil {
		meta.RemoveStatusCondition(conditions, conditionType)
		return
	}
	r.setCondition(conditions, *condition)
}

func (r *Registry) setCondition(conditions *[]metav1.Condition, condition metav1.Condition) {
	condition.LastTransitionTime = metav1.NewTime(r.config.Clock.Now()).Rfc3339Copy()
	if condition.Reason == "" {
		condition.Reason = reasonUnknown
	}
	// Much of it is what other clusters say.
	condition.Message = truncate.Characters(condition.Message, maxMessage)
	meta.SetStatusCondition(conditions, condition)
}

func reachable(peer *peer) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberReachable, Status: metav1.ConditionFalse}
	switch {
	case peer.spec.problem != nil:
		condition.Reason, condition.Message = reasonInvalidSecret, "its Secret cannot be used"
	case peer.probeError != nil:
		condition.Reason, condition.Message = explain(peer.probeError)
	case peer.feed == nil || peer.lastSeen.IsZero() || peer.entry == nil && peer.claims == nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, reasonUnknown, "it has not answered yet"
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Answers", "it answers"
	}
	return condition
}

// unreadable says whether an answer came that is none. The client has no type
// of error for what it cannot decode, only the words of its decoder.
func unreadable(err error) bool {
	text := err.Error()
	return errors.Is(err, errNotUnderstood) || strings.Contains(text, "json: cannot unmarshal") || strings.Contains(text, "invalid character")
}

// explain finds a reason for a failure and says what to do about it.
func explain(err error) (reason, message string) {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return "Unauthorized", "its kube-apiserver does not accept the credential of the Secret: renew it, as `kubectl mcs join` does"
	case apierrors.IsForbidden(err):
		return "Forbidden", fmt.Sprintf("the credential of the Secret lacks rights there: bind it to the ClusterRole mcs-apiserver:peer (%v)", err)
	case apierrors.IsNotFound(err):
		return "NotInstalled", "it does not serve " + clusterset.GroupName + ": install mcs-apiserver there, or correct the server in the kubeconfig"
	case unreadable(err):
		return "Unreadable", fmt.Sprintf("what it answers cannot be read: %v", err)
	case errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError:
		return "Unavailable", fmt.Sprintf("its API is not available: %v", err)
	case errors.As(err, &status):
		return "Refused", fmt.Sprintf("its API refuses to answer: %v", err)
	}
	return "Unreachable", fmt.Sprintf("no answer: %v", err)
}

// synced tells whether everything that the member exports is known and taken.
func synced(peer *peer) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberSynced, Status: metav1.ConditionFalse}
	for kind := range kinds {
		err := peer.feedErrors[kind]
		var tooMany overLimitError
		switch {
		case errors.As(err, &tooMany):
			condition.Reason, condition.Message = "TooManyExports", err.Error()
			return condition
		case err != nil:
			condition.Reason, condition.Message = explain(err)
			return condition
		}
	}
	switch problem, count := firstRejected(peer); {
	case count > 0:
		condition.Reason = "InvalidObjects"
		condition.Message = fmt.Sprintf("%d objects are not taken, or not whole, the first: %s", count, problem)
	case peer.synced != [kinds]bool{true, true}:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, "Reading", "not everything has been read yet since this server started or the Secret changed"
	case !peer.isSynced():
		condition.Reason, condition.Message = "EmptyAnswer", "it shows no exports where it had some, and does not confirm that it has none: what was known stays"
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Synced", "all that it exports is known"
	}
	return condition
}

// firstRejected describes one of the objects that are not taken, always the
// same one of the same, and counts them.
func firstRejected(peer *peer) (string, int) {
	first, count := "", 0
	for kind := range kinds {
		count += len(peer.rejected[kind])
		if first != "" || len(peer.rejected[kind]) == 0 {
			continue
		}
		var id types.NamespacedName
		for other := range peer.rejected[kind] {
			if id.Name == "" || other.String() < id.String() {
				id = other
			}
		}
		first = fmt.Sprintf("%s %s: %v", kind, id, peer.rejected[kind][id])
	}
	return first, count
}

// namesakes are the ids by which a hub knows another cluster than this one does,
// each with whom it knows.
func (r *Registry) namesakes(hub *peer) []string {
	known := map[string]types.UID{r.identity.ID: r.identity.UID}
	for _, peer := range r.peers {
		if peer.verdict.accepted && peer != hub {
			known[peer.spec.id] = peer.uid
		}
	}
	var namesakes []string
	for _, id := range slices.Sorted(maps.Keys(hub.relayed)) {
		status := &hub.relayed[id].Status
		uid, here := known[id]
		if here && uid != "" && status.ClusterUID != "" && status.ClusterUID != uid &&
			status.ClusterSet == r.identity.ClusterSet && status.State != clusterset.MemberRefused {
			namesakes = append(namesakes, fmt.Sprintf("%q (UID %s)", id, status.ClusterUID))
		}
	}
	return namesakes
}

// mutual compares whom the member lists with whom this cluster lists.
func (r *Registry) mutual(peer *peer) metav1.Condition {
	condition := metav1.Condition{Type: clusterset.MemberMutual, Status: metav1.ConditionUnknown, Reason: reasonUnknown, Message: "it has not said yet who its members are"}
	if peer.entry == nil || !peer.verdict.accepted {
		return condition
	}
	theirs := sets.New(peer.entry.Status.Peers...)
	unknown := sets.List(theirs.Difference(r.listed()).Delete(r.identity.ID))
	namesakes := r.namesakes(peer)
	switch {
	case len(namesakes) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, reasonDuplicateID
		condition.Message = fmt.Sprintf("by these ids it knows other clusters than this cluster does: %s; of each two, whoever joined last has to take another id", strings.Join(namesakes, ", "))
	case !theirs.Has(r.identity.ID):
		condition.Status, condition.Reason = metav1.ConditionFalse, "NotListed"
		condition.Message = fmt.Sprintf("it does not list this cluster, %q, as a member: create a Secret for it there", r.identity.ID)
	case len(unknown) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterset.ReasonListsOthers
		condition.Message = fmt.Sprintf("it lists %s, which this cluster does not: create Secrets for them here", strings.Join(unknown, ", "))
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Mutual", "it lists this cluster and no one who is unknown here"
	}
	return condition
}
