// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package liveness derives the state of a member from the time of its last
// successful probe.
package liveness

import (
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	// StaleAfter is how long a member may be silent before it counts as stale:
	// three probes, so that a single failed probe changes nothing.
	StaleAfter = 15 * time.Second
	// DefaultTTL is how long a member may be silent before it counts as lost.
	DefaultTTL = time.Minute
	// MinTTL is the minimum TTL: every lost member was stale before.
	MinTTL = 2 * StaleAfter
)

// State returns the state of a member that was last seen at a time.
func State(now, lastSeen time.Time, ttl time.Duration) clusterset.MemberState {
	switch age := now.Sub(lastSeen); {
	case lastSeen.IsZero():
		return clusterset.MemberConnecting
	case age >= ttl:
		return clusterset.MemberLost
	case age >= StaleAfter:
		return clusterset.MemberStale
	}
	return clusterset.MemberConnected
}

// Severity orders states from best to worst. It is negative for states that a
// member cannot be in.
func Severity(state clusterset.MemberState) int {
	return slices.Index([]clusterset.MemberState{
		clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost, clusterset.MemberConnecting, clusterset.MemberRefused,
	}, state)
}

// Worse returns the worse of two states.
func Worse(a, b clusterset.MemberState) clusterset.MemberState {
	if Severity(a) > Severity(b) {
		return a
	}
	return b
}
