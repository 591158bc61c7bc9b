// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package liveness derives the state of a member from the time of its last
// successful probe, and from what connections to its endpoints found.
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

// State returns the state of a member, judged by its silence alone. This replica last saw
// it at a time, and any replica at another. A member that only other replicas reach is stale
// here: it is alive, but what is known of it may be outdated. Which of the two times is the
// later one does not matter, so that they may be of different clocks.
func State(now, here, anywhere time.Time, ttl time.Duration) clusterset.MemberState {
	switch {
	case here.IsZero() && anywhere.IsZero():
		return clusterset.MemberConnecting
	case now.Sub(here) >= ttl && now.Sub(anywhere) >= ttl:
		return clusterset.MemberLost
	case now.Sub(here) >= StaleAfter:
		return clusterset.MemberStale
	}
	return clusterset.MemberConnected
}

// Severity orders states from best to worst. It is negative for states that a
// member cannot be in.
func Severity(state clusterset.MemberState) int {
	return slices.Index([]clusterset.MemberState{
		clusterset.MemberConnected, clusterset.MemberUnavailable, clusterset.MemberStale, clusterset.MemberLost, clusterset.MemberConnecting, clusterset.MemberRefused,
	}, state)
}

// Worse returns the worse of two states.
func Worse(a, b clusterset.MemberState) clusterset.MemberState {
	if Severity(a) > Severity(b) {
		return a
	}
	return b
}
