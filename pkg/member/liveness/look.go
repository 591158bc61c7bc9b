// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// MaxStale is how much longer than its TTL the endpoints of a silent member are kept
// because they answer. Addresses are used again, and then something else answers.
const MaxStale = time.Hour

// Finding is what connections to the endpoints of a Service of a silent member found.
type Finding string

const (
	// Pending means that nothing is known yet: what is imported stays as it is.
	Pending Finding = "Pending"
	// Answers means that an endpoint accepted a connection.
	Answers Finding = "Answers"
	// Silent means that no endpoint accepted a connection.
	Silent Finding = "Silent"
	// Unaskable means that connections cannot tell, so that the TTL alone decides.
	Unaskable Finding = "Unaskable"
)

// Problem is why connections to the endpoints of a member cannot tell whether they
// are alive.
type Problem string

const (
	// NoAllowedCIDRs means that the member Secret does not say which addresses the
	// member may have: the member could make this cluster connect to any.
	NoAllowedCIDRs Problem = "NoAllowedCIDRs"
	// EverythingAnswers means that an address that nobody has accepts connections.
	EverythingAnswers Problem = "EverythingAnswers"
	// NothingAnswers means that no endpoint has ever accepted a connection, not even
	// while the member responded.
	NothingAnswers Problem = "NothingAnswers"
	// NoVantagePoint means that this cluster's own API or endpoints do not answer
	// either: nothing is withdrawn.
	NoVantagePoint Problem = "NoVantagePoint"
)

// Look is what connections to the endpoints of a member found, as the replicas share it.
type Look struct {
	// At is when this was first found.
	At time.Time `json:"at"`
	// Silence identifies the silence of the member in which this was found: it is when the
	// member was last seen, as its Lease said then. Past is set if the Lease says something
	// else now. Clocks may be wrong, so that At does not tell.
	Silence time.Time `json:"silence,omitzero"`
	Past    bool      `json:"-"`
	// Sample is set if the member responded, and only a few endpoints were asked.
	Sample bool `json:"sample,omitempty"`
	// Answers, Silent, Unaskable and Pending are numbers of Services.
	Answers   int `json:"answers,omitempty"`
	Silent    int `json:"silent,omitempty"`
	Unaskable int `json:"unaskable,omitempty"`
	Pending   int `json:"pending,omitempty"`
	// Services are those that answer, as namespace/name, sorted, as many as there is
	// room for.
	Services []string `json:"services,omitempty"`
	Problem  Problem  `json:"problem,omitempty"`
}

// Same reports whether two looks found the same, whenever that was in a silence.
func (l *Look) Same(other *Look) bool {
	if l == nil || other == nil {
		return l == other
	}
	return l.Sample == other.Sample && l.Past == other.Past && l.Answers == other.Answers && l.Silent == other.Silent && l.Unaskable == other.Unaskable &&
		l.Pending == other.Pending && l.Problem == other.Problem && slices.Equal(l.Services, other.Services)
}

// Overdue reports whether a member has been silent for so long that its endpoints are not
// kept, even if they answer.
func Overdue(now, lastSeen time.Time, ttl time.Duration) bool {
	return now.Sub(lastSeen) >= ttl+MaxStale
}

// IsPresent reports whether a look is one at the present silence of a member.
func (l *Look) IsPresent() bool { return l != nil && !l.Sample && !l.Past }

// Keeps reports whether any endpoints of a member are kept although it has been silent for
// its TTL.
func (l *Look) Keeps() bool {
	return l != nil && (l.Answers > 0 || l.Pending > 0 || l.Problem == NoVantagePoint)
}

// KeepsService reports whether the endpoints of a Service are. It does if that is not
// known.
func (l *Look) KeepsService(service string) bool {
	if !l.Keeps() {
		return false
	}
	_, listed := slices.BinarySearch(l.Services, service)
	return listed || l.Pending > 0 || l.Answers > len(l.Services) || l.Problem == NoVantagePoint
}

// Shown returns the state that is shown of a member: a member is lost only if it has been
// silent for its TTL and its endpoints do not answer either. unavailable is set if the
// Kubernetes API of the member responds, but not the one of mcs-apiserver.
func Shown(state clusterset.MemberState, unavailable bool, look *Look) clusterset.MemberState {
	silent := state == clusterset.MemberStale || state == clusterset.MemberLost && look.Keeps()
	switch {
	case silent && unavailable:
		return clusterset.MemberUnavailable
	case silent:
		return clusterset.MemberStale
	}
	return state
}

// ShownFor is like Shown for one Service that the member exports.
func ShownFor(service string, state clusterset.MemberState, look *Look) clusterset.MemberState {
	if state == clusterset.MemberLost && look.KeepsService(service) {
		return clusterset.MemberStale
	}
	return state
}
