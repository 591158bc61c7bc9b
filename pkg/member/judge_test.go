// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// applicant is a cluster b that fits.
func applicant(secret string, changes ...func(*candidate)) candidate {
	c := candidate{
		spec:       &spec{secret: secret, id: "b", created: metav1.NewTime(epoch)},
		claims:     &claims{id: "b", clusterSet: "set", idClaimedAt: epoch},
		clusterUID: "uid-b",
		claimedAt:  epoch,
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func TestVerdictOnOneCluster(t *testing.T) {
	claiming := func(told claims) func(*candidate) {
		return func(c *candidate) { c.claims, c.claimedAt = &told, told.idClaimedAt }
	}
	unasked := func(c *candidate) { c.claims, c.clusterUID, c.claimedAt = nil, "", time.Time{} }
	remembered := func(c *candidate) { c.claims, c.remembered = nil, true }
	named := func(id string) func(*candidate) { return func(c *candidate) { c.id = id } }
	uid := func(uid types.UID) func(*candidate) { return func(c *candidate) { c.clusterUID = uid } }
	for _, test := range []struct {
		name    string
		self    Identity
		changes []func(*candidate)
		reason  string
		message string
	}{
		{name: "a member", self: me, reason: reasonAccepted, message: "its claims are those of a member"},
		{name: "a Secret that cannot be used", self: me, changes: []func(*candidate){func(c *candidate) { c.problem = errors.New("no kubeconfig") }},
			reason: reasonInvalidSecret, message: `Secret "s" cannot be used: no kubeconfig`},
		{name: "no ClusterSet here", self: Identity{ID: "a"}, reason: reasonNoClusterSet, message: "clusterset.k8s.io"},
		{name: "no id here", self: Identity{ClusterSet: "set"}, reason: reasonNoClusterSet, message: "id.k8s.io"},
		{name: "remembered, in no ClusterSet here", self: Identity{ID: "a"}, changes: []func(*candidate){remembered}, reason: reasonNoClusterSet},
		{name: "wrong id", self: me, changes: []func(*candidate){claiming(claims{id: "c", clusterSet: "set"})},
			reason: reasonWrongClusterID, message: `claim id.k8s.io is "c": correct the Secret's cluster-id`},
		{name: "wrong ClusterSet", self: me, changes: []func(*candidate){claiming(claims{id: "b", clusterSet: "other"})},
			reason: reasonWrongClusterSet, message: `is "other" and that of this cluster is "set"`},
		{name: "no ClusterSet there", self: me, changes: []func(*candidate){claiming(claims{id: "b"})}, reason: reasonWrongClusterSet},
		{name: "this very cluster", self: me, changes: []func(*candidate){uid("uid-a")}, reason: reasonSelf, message: "leads to this very cluster: delete it"},
		{name: "this very cluster, with its id", self: me, changes: []func(*candidate){named("a"), claiming(claims{id: "a", clusterSet: "set"}), uid("uid-a")}, reason: reasonSelf},
		// R101: told apart by their UIDs, both are kept out of each other, and
		// both are told whose claim is older.
		{name: "our id, younger", self: me, changes: []func(*candidate){named("a"), claiming(claims{id: "a", clusterSet: "set", idClaimedAt: epoch.Add(time.Hour)})},
			reason: reasonDuplicateID, message: "the older claim is that of this cluster: give the other another id"},
		{name: "our id, older", self: me, changes: []func(*candidate){named("a"), claiming(claims{id: "a", clusterSet: "set", idClaimedAt: epoch.Add(-time.Hour)})},
			reason: reasonDuplicateID, message: "the older claim is that of the other: give this cluster another id"},
		{name: "our id, equally old, with a smaller UID", self: me, changes: []func(*candidate){named("a"), claiming(claims{id: "a", clusterSet: "set", idClaimedAt: epoch}), uid("uid-0")},
			reason: reasonDuplicateID, message: "the older claim is that of the other: give this cluster another id"},
		{name: "our id, equally old, with a greater UID", self: me, changes: []func(*candidate){named("a"), claiming(claims{id: "a", clusterSet: "set", idClaimedAt: epoch}), uid("uid-z")},
			reason: reasonDuplicateID, message: "the older claim is that of this cluster: give the other another id"},
		{name: "unknown", self: me, changes: []func(*candidate){unasked}, reason: reasonUnknown},
		{name: "claims known, and not whose they are", self: me, changes: []func(*candidate){uid("")}, reason: reasonUnknown},
		{name: "remembered", self: me, changes: []func(*candidate){remembered}, reason: reasonAccepted, message: "has not been asked yet"},
		{name: "remembered, with an id that is now ours", self: me, changes: []func(*candidate){remembered, named("a")}, reason: reasonUnknown},
		{name: "remembered, and says otherwise", self: me, changes: []func(*candidate){remembered, claiming(claims{id: "b", clusterSet: "other"})}, reason: reasonWrongClusterSet},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := applicant("s", test.changes...)
			got := judge(test.self, []candidate{c})[c.spec]
			if got.reason != test.reason || got.accepted != (test.reason == reasonAccepted) || !strings.Contains(got.message, test.message) {
				t.Errorf("got %+v, want %s and %q", got, test.reason, test.message)
			}
			if got.refused() != (test.reason != reasonAccepted && test.reason != reasonUnknown) {
				t.Errorf("%s is taken for a refusal: %v", got.reason, got.refused())
			}
		})
	}
}

// R101: of two clusters with one id the older claim stays.
func TestVerdictOnRivals(t *testing.T) {
	claimedAt := func(uid types.UID, at time.Time) func(*candidate) {
		return func(c *candidate) {
			c.clusterUID, c.claims, c.claimedAt = uid, &claims{id: "b", clusterSet: "set", idClaimedAt: at}, at
		}
	}
	rememberedSince := func(uid types.UID, at time.Time) func(*candidate) {
		return func(c *candidate) { c.clusterUID, c.claims, c.remembered, c.claimedAt = uid, nil, true, at }
	}
	created := func(at time.Time) func(*candidate) {
		return func(c *candidate) { c.created = metav1.NewTime(at) }
	}
	for _, test := range []struct {
		name string
		// holder stays, and other is refused.
		holder, other candidate
		reason        string
	}{
		{"two clusters", applicant("z", claimedAt("uid-1", epoch)), applicant("a", claimedAt("uid-2", epoch.Add(time.Second))), reasonDuplicateID},
		{"two clusters, equally old", applicant("z", claimedAt("uid-1", epoch)), applicant("a", claimedAt("uid-2", epoch)), reasonDuplicateID},
		{"two Secrets", applicant("z"), applicant("a", created(epoch.Add(time.Second))), reasonDuplicateSecrets},
		{"two Secrets, equally old", applicant("a"), applicant("z"), reasonDuplicateSecrets},
		{"the older has not been asked since a restart", applicant("z", rememberedSince("uid-1", epoch)), applicant("a", claimedAt("uid-2", epoch.Add(time.Second))), reasonDuplicateID},
		{"the younger has not been asked since a restart", applicant("z", claimedAt("uid-1", epoch)), applicant("a", rememberedSince("uid-2", epoch.Add(time.Second))), reasonDuplicateID},
		{"one was remembered by a release that did not know since when", applicant("z", claimedAt("uid-1", epoch.Add(time.Hour))), applicant("a", rememberedSince("uid-2", time.Time{})), reasonDuplicateID},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, order := range [][]candidate{{test.holder, test.other}, {test.other, test.holder}} {
				verdicts := judge(me, order)
				if !verdicts[test.holder.spec].accepted {
					t.Errorf("the holder is out: %+v", verdicts[test.holder.spec])
				}
				got := verdicts[test.other.spec]
				if got.accepted || got.reason != test.reason || !strings.Contains(got.message, test.holder.secret) || !strings.Contains(got.message, test.other.secret) {
					t.Errorf("the other got %+v, want %s, naming both Secrets", got, test.reason)
				}
			}
		})
	}
}

// R102: an id may be used in another ClusterSet.
func TestRefusedClusterIsNoRival(t *testing.T) {
	elsewhere := applicant("older", func(c *candidate) {
		c.clusterUID, c.claims = "uid-2", &claims{id: "b", clusterSet: "other", idClaimedAt: epoch.Add(-time.Hour)}
	})
	member := applicant("member")
	if got := judge(me, []candidate{elsewhere, member})[member.spec]; !got.accepted {
		t.Errorf("a cluster of another ClusterSet keeps a member out: %+v", got)
	}
}
