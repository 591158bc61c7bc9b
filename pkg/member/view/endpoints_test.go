// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// R307: the condition EndpointsReachable says what was found, and what follows from it.
func TestEndpointsReachable(t *testing.T) {
	seen := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := func(look liveness.Look) *liveness.Look {
		look.At = seen.Add(30 * time.Second)
		return &look
	}
	const connected, stale, lost = clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost
	for _, test := range []struct {
		name    string
		state   clusterset.MemberState
		expired bool
		policy  clusterset.LostPolicy
		look    *liveness.Look
		// want is empty if there is no condition.
		status  metav1.ConditionStatus
		want    string
		message string
	}{
		{name: "responds", state: connected},
		{name: "responds, endpoints answer", state: connected, look: found(liveness.Look{Sample: true, Answers: 1})},
		{name: "responds, endpoints are not asked", state: connected, look: found(liveness.Look{Sample: true, Problem: liveness.NoAllowedCIDRs})},
		{name: "responds, everything answers", state: connected, look: found(liveness.Look{Sample: true, Problem: liveness.EverythingAnswers}), status: "Unknown", want: "EndpointsCannotBeAsked", message: "its TTL of 1m0s alone decides"},
		{name: "responds, nothing answers", state: connected, look: found(liveness.Look{Sample: true, Problem: liveness.NothingAnswers}), status: "Unknown", want: "EndpointsCannotBeAsked", message: "none has succeeded"},
		{name: "refused", state: clusterset.MemberRefused, look: found(liveness.Look{Answers: 1})},
		{name: "silent, not asked yet", state: stale, look: found(liveness.Look{Sample: true, Answers: 1})},
		{name: "silent", state: stale, look: found(liveness.Look{Answers: 2, Silent: 1}), status: "True", want: "EndpointsAnswer", message: "all are kept until the member has been silent for its TTL of 1m0s"},
		{name: "expired, never asked", state: lost, expired: true, status: "Unknown", want: "EndpointsNotAsked", message: "have not been asked"},
		{name: "expired, asked before", state: lost, expired: true, look: found(liveness.Look{Past: true, Answers: 1}), status: "Unknown", want: "EndpointsNotAsked"},
		{name: "half answer", state: stale, expired: true, look: found(liveness.Look{Answers: 2, Silent: 3, Unaskable: 1, Pending: 4}), status: "True", want: "EndpointsAnswer",
			message: "endpoints of 2 services answer, those of 3 do not, 1 have no TCP endpoint that can be asked, 4 are still to be asked; those that answer are kept until 2026-01-01T01:01:00Z at most, those that do not are withdrawn"},
		{name: "last ones", state: stale, expired: true, policy: clusterset.LostPolicyKeepLast, look: found(liveness.Look{Silent: 3, Answers: 1}), status: "True", want: "EndpointsAnswer", message: "unless they are the last ready endpoints"},
		{name: "kept", state: lost, expired: true, policy: clusterset.LostPolicyKeep, look: found(liveness.Look{Silent: 3}), status: "False", want: "EndpointsSilent", message: "lost policy is Keep"},
		{name: "none answers", state: lost, expired: true, look: found(liveness.Look{Silent: 3}), status: "False", want: "EndpointsSilent", message: "are withdrawn"},
		{name: "overdue", state: lost, expired: true, look: found(liveness.Look{Answers: 3}), status: "True", want: "EndpointsAnswer", message: "not kept for longer"},
		{name: "being asked", state: stale, expired: true, look: found(liveness.Look{Pending: 3}), status: "Unknown", want: "EndpointsNotAsked", message: "3 are still to be asked"},
		{name: "UDP only", state: lost, expired: true, look: found(liveness.Look{Unaskable: 3}), status: "Unknown", want: "EndpointsCannotBeAsked", message: "3 have no TCP endpoint"},
		{name: "no CIDRs", state: lost, expired: true, look: found(liveness.Look{Unaskable: 3, Problem: liveness.NoAllowedCIDRs}), status: "Unknown", want: "EndpointsCannotBeAsked", message: "allowed-cidrs"},
		{name: "this cluster is the problem", state: stale, expired: true, look: found(liveness.Look{Pending: 3, Problem: liveness.NoVantagePoint}), status: "Unknown", want: "NoVantagePoint", message: "nothing is withdrawn"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := endpointsReachable(Peer{State: test.state, Expired: test.expired, LostPolicy: test.policy, Look: test.look, LastSeen: seen, TTL: time.Minute})
			switch {
			case test.want == "" && got != nil:
				t.Errorf("%+v", got)
			case test.want != "" && (got == nil || got.Reason != test.want || got.Status != test.status || !strings.Contains(got.Message, test.message)):
				t.Errorf("got %+v, want %s %s with %q", got, test.status, test.want, test.message)
			}
		})
	}
}
