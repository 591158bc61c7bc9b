// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// endpointsReachable tells what connections to the endpoints of a member found, and what
// follows for them. It is nil while there is nothing to report: the member responds, and
// its endpoints can be asked or need not be.
func endpointsReachable(p Peer) *metav1.Condition {
	look := p.Look
	silent := p.State == clusterset.MemberStale || p.State == clusterset.MemberUnavailable || p.State == clusterset.MemberLost
	condition := &metav1.Condition{Type: clusterset.MemberEndpointsReachable, Status: metav1.ConditionUnknown}
	if silent && !look.IsPresent() {
		if !p.Expired {
			return nil
		}
		condition.Reason, condition.Message = clusterset.ReasonEndpointsNotAsked, "endpoints of the member have not been asked since it was last seen; mcs-controller asks them while it leads"
		return condition
	}
	if !silent {
		if p.State != clusterset.MemberConnected || look == nil || look.Problem != liveness.EverythingAnswers && look.Problem != liveness.NothingAnswers {
			return nil
		}
	}
	switch {
	case look.Problem == liveness.NoVantagePoint:
		condition.Reason, condition.Message = clusterset.ReasonNoVantagePoint, "endpoints of the member do not answer, but neither do the Kubernetes API or exported endpoints of this cluster: nothing is withdrawn"
	case look.Problem != "":
		condition.Reason, condition.Message = clusterset.ReasonEndpointsCannotBeAsked, fmt.Sprintf("%s: when the member is silent, its TTL of %s alone decides", explain(look.Problem), p.TTL)
	case look.Answers > 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, clusterset.ReasonEndpointsAnswer, verdicts(p)
	case look.Pending > 0:
		condition.Reason, condition.Message = clusterset.ReasonEndpointsNotAsked, verdicts(p)
	case look.Silent > 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, clusterset.ReasonEndpointsSilent, verdicts(p)
	default:
		condition.Reason, condition.Message = clusterset.ReasonEndpointsCannotBeAsked, verdicts(p)
	}
	return condition
}

// explain returns why endpoints cannot be asked.
func explain(problem liveness.Problem) string {
	switch problem {
	case liveness.NoAllowedCIDRs:
		return fmt.Sprintf("endpoints of the member are not asked, because its Secret has no %s", clusterset.MemberSecretAllowedCIDRs)
	case liveness.EverythingAnswers:
		return "connections to endpoints say nothing, because a connection to an address that nobody has succeeds; exclude the Pod of mcs-apiserver from the service mesh or egress gateway"
	case liveness.NothingAnswers:
		return "connections to endpoints say nothing, because none has succeeded while the member responded; let the Pod of mcs-apiserver connect to the Pods of the member"
	}
	return fmt.Sprintf("connections to endpoints say nothing (%s)", problem)
}

// verdicts returns what was found for how many Services, and what follows.
func verdicts(p Peer) string {
	look := p.Look
	text := fmt.Sprintf("endpoints of %d services answer, those of %d do not", look.Answers, look.Silent)
	if look.Unaskable > 0 {
		text += fmt.Sprintf(", %d have no TCP endpoint that can be asked", look.Unaskable)
	}
	if look.Pending > 0 {
		text += fmt.Sprintf(", %d are still to be asked", look.Pending)
	}
	until := p.LastSeen.Add(p.TTL + liveness.MaxStale).UTC().Format(time.RFC3339)
	switch {
	case !p.Expired:
		return text + fmt.Sprintf("; all are kept until the member has been silent for its TTL of %s", p.TTL)
	case p.LostPolicy == clusterset.LostPolicyKeep:
		return text + "; all are kept, because the lost policy is Keep"
	case look.Keeps() && p.State == clusterset.MemberLost:
		return text + fmt.Sprintf("; they are not kept for longer than until %s, because addresses are used again", until)
	}
	text += fmt.Sprintf("; those that answer are kept until %s at most, those that do not are withdrawn", until)
	if p.LostPolicy == clusterset.LostPolicyKeepLast {
		text += " unless they are the last ready endpoints of an import"
	}
	return text
}
