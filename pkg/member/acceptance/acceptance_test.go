// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package acceptance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	me    = identity.Cluster{ID: "a", ClusterSet: "set", IDClaimedAt: epoch, UID: "uid-a", Since: epoch}
)

// newCandidate returns a cluster b that is a member.
func newCandidate(secret string, changes ...func(*Candidate)) Candidate {
	c := Candidate{
		Secret: secret, SecretCreated: epoch, ClusterID: "b",
		Claims:     &identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch},
		ClusterUID: "uid-b",
		ClaimedAt:  epoch,
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func TestEvaluateOneCluster(t *testing.T) {
	claiming := func(claims identity.Claims) func(*Candidate) {
		return func(c *Candidate) { c.Claims, c.ClaimedAt = &claims, claims.ClaimedAt }
	}
	unread := func(c *Candidate) { c.Claims, c.ClusterUID, c.ClaimedAt = nil, "", time.Time{} }
	remembered := func(c *Candidate) { c.Claims, c.Remembered = nil, true }
	named := func(id string) func(*Candidate) { return func(c *Candidate) { c.ClusterID = id } }
	uid := func(uid types.UID) func(*Candidate) { return func(c *Candidate) { c.ClusterUID = uid } }
	for _, test := range []struct {
		name    string
		self    identity.Cluster
		changes []func(*Candidate)
		reason  string
		message string
	}{
		{name: "a member", self: me, reason: ReasonAccepted, message: "cluster ID and ClusterSet match this membership"},
		{name: "invalid Secret", self: me, changes: []func(*Candidate){func(c *Candidate) { c.Problem = errors.New("no kubeconfig") }},
			reason: ReasonInvalidSecret, message: `Secret "s" is invalid: no kubeconfig`},
		{name: "this cluster is not in a ClusterSet", self: identity.Cluster{ID: "a"}, reason: ReasonNoClusterSet, message: "clusterset.k8s.io"},
		{name: "this cluster has no ID", self: identity.Cluster{ClusterSet: "set"}, reason: ReasonNoClusterSet, message: "id.k8s.io"},
		{name: "remembered, but this cluster is not in a ClusterSet", self: identity.Cluster{ID: "a"}, changes: []func(*Candidate){remembered}, reason: ReasonNoClusterSet},
		{name: "wrong ID", self: me, changes: []func(*Candidate){claiming(identity.Claims{ID: "c", ClusterSet: "set"})},
			reason: ReasonWrongClusterID, message: `leads to a cluster whose ClusterClaim id.k8s.io is "c": correct cluster-id in the Secret`},
		{name: "wrong ClusterSet", self: me, changes: []func(*Candidate){claiming(identity.Claims{ID: "b", ClusterSet: "other"})},
			reason: ReasonWrongClusterSet, message: `ClusterClaim clusterset.k8s.io is "other" in cluster "b" and "set" in this cluster`},
		{name: "the cluster is not in a ClusterSet", self: me, changes: []func(*Candidate){claiming(identity.Claims{ID: "b"})}, reason: ReasonWrongClusterSet},
		{name: "this cluster itself", self: me, changes: []func(*Candidate){uid("uid-a")}, reason: ReasonSelf, message: "leads to this cluster itself: delete the Secret"},
		{name: "this cluster itself, with its ID", self: me, changes: []func(*Candidate){named("a"), claiming(identity.Claims{ID: "a", ClusterSet: "set"}), uid("uid-a")}, reason: ReasonSelf},
		// R101: clusters are distinguished by UID. Each refuses the other, and both
		// report whose claim is older.
		{name: "ID of this cluster, younger claim", self: me, changes: []func(*Candidate){named("a"), claiming(identity.Claims{ID: "a", ClusterSet: "set", ClaimedAt: epoch.Add(time.Hour)})},
			reason: ReasonDuplicateID, message: "the claim of this cluster is older: give the other cluster another ID"},
		{name: "ID of this cluster, older claim", self: me, changes: []func(*Candidate){named("a"), claiming(identity.Claims{ID: "a", ClusterSet: "set", ClaimedAt: epoch.Add(-time.Hour)})},
			reason: ReasonDuplicateID, message: "the claim of the other cluster is older: give this cluster another ID"},
		{name: "ID of this cluster, same age, smaller UID", self: me, changes: []func(*Candidate){named("a"), claiming(identity.Claims{ID: "a", ClusterSet: "set", ClaimedAt: epoch}), uid("uid-0")},
			reason: ReasonDuplicateID, message: "the claim of the other cluster is older: give this cluster another ID"},
		{name: "ID of this cluster, same age, greater UID", self: me, changes: []func(*Candidate){named("a"), claiming(identity.Claims{ID: "a", ClusterSet: "set", ClaimedAt: epoch}), uid("uid-z")},
			reason: ReasonDuplicateID, message: "the claim of this cluster is older: give the other cluster another ID"},
		{name: "unknown", self: me, changes: []func(*Candidate){unread}, reason: ReasonUnknown},
		{name: "claims without a UID", self: me, changes: []func(*Candidate){uid("")}, reason: ReasonUnknown},
		{name: "remembered", self: me, changes: []func(*Candidate){remembered}, reason: ReasonAccepted, message: "not verified yet"},
		{name: "remembered, with the present ID of this cluster", self: me, changes: []func(*Candidate){remembered, named("a")}, reason: ReasonUnknown},
		{name: "remembered, but claims changed", self: me, changes: []func(*Candidate){remembered, claiming(identity.Claims{ID: "b", ClusterSet: "other"})}, reason: ReasonWrongClusterSet},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCandidate("s", test.changes...)
			got := Evaluate(test.self, []Candidate{c})[c.Secret]
			if got.Reason != test.reason || got.Accepted != (test.reason == ReasonAccepted) || !strings.Contains(got.Message, test.message) {
				t.Errorf("got %+v, want %s and %q", got, test.reason, test.message)
			}
			if got.Refused() != (test.reason != ReasonAccepted && test.reason != ReasonUnknown) {
				t.Errorf("%s counts as refused: %v", got.Reason, got.Refused())
			}
		})
	}
}

// R101: of two clusters with one ID, the older claim takes precedence.
func TestOldestClaimKeepsTheID(t *testing.T) {
	claimedAt := func(uid types.UID, at time.Time) func(*Candidate) {
		return func(c *Candidate) {
			c.ClusterUID, c.Claims, c.ClaimedAt = uid, &identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: at}, at
		}
	}
	rememberedSince := func(uid types.UID, at time.Time) func(*Candidate) {
		return func(c *Candidate) { c.ClusterUID, c.Claims, c.Remembered, c.ClaimedAt = uid, nil, true, at }
	}
	created := func(at time.Time) func(*Candidate) {
		return func(c *Candidate) { c.SecretCreated = at }
	}
	for _, test := range []struct {
		name string
		// holder keeps the ID, and other is refused.
		holder, other Candidate
		reason        string
	}{
		{"two clusters", newCandidate("z", claimedAt("uid-1", epoch)), newCandidate("a", claimedAt("uid-2", epoch.Add(time.Second))), ReasonDuplicateID},
		{"two clusters of the same age", newCandidate("z", claimedAt("uid-1", epoch)), newCandidate("a", claimedAt("uid-2", epoch)), ReasonDuplicateID},
		{"two Secrets", newCandidate("z"), newCandidate("a", created(epoch.Add(time.Second))), ReasonDuplicateSecrets},
		{"two Secrets of the same age", newCandidate("a"), newCandidate("z"), ReasonDuplicateSecrets},
		{"the older has not been read since a restart", newCandidate("z", rememberedSince("uid-1", epoch)), newCandidate("a", claimedAt("uid-2", epoch.Add(time.Second))), ReasonDuplicateID},
		{"the younger has not been read since a restart", newCandidate("z", claimedAt("uid-1", epoch)), newCandidate("a", rememberedSince("uid-2", epoch.Add(time.Second))), ReasonDuplicateID},
		{"one was recorded by a release without claim times", newCandidate("z", claimedAt("uid-1", epoch.Add(time.Hour))), newCandidate("a", rememberedSince("uid-2", time.Time{})), ReasonDuplicateID},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, order := range [][]Candidate{{test.holder, test.other}, {test.other, test.holder}} {
				results := Evaluate(me, order)
				if !results[test.holder.Secret].Accepted {
					t.Errorf("the holder is refused: %+v", results[test.holder.Secret])
				}
				got := results[test.other.Secret]
				if got.Accepted || got.Reason != test.reason || !strings.Contains(got.Message, test.holder.Secret) || !strings.Contains(got.Message, test.other.Secret) {
					t.Errorf("the other got %+v, want %s, naming both Secrets", got, test.reason)
				}
			}
		})
	}
}

// R102: an ID may be used in another ClusterSet.
func TestRefusedClusterDoesNotCompeteForTheID(t *testing.T) {
	elsewhere := newCandidate("older", func(c *Candidate) {
		c.ClusterUID, c.Claims = "uid-2", &identity.Claims{ID: "b", ClusterSet: "other", ClaimedAt: epoch.Add(-time.Hour)}
	})
	member := newCandidate("member")
	if got := Evaluate(me, []Candidate{elsewhere, member})[member.Secret]; !got.Accepted {
		t.Errorf("a cluster of another ClusterSet displaced a member: %+v", got)
	}
}
