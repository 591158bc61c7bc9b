// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// The member may have rejected the old token for a long time.
func TestRenewedTokenIsUsedAtOnce(t *testing.T) {
	for _, test := range []struct {
		name, token string
		probed      bool
	}{
		{"another token", "other", true},
		{"the same token", "secret", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, nil)
			w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
			held := w.peers["member-b"]
			b := w.connect(held)
			w.upsertSecret(t.Context(), secretFor("b", membertest.Kubeconfig(membertest.Cluster, "token: "+test.token)))
			if w.peers["member-b"] != held || held.receiver != b {
				t.Error("another token started another feed")
			}
			if probed := b.feed.ProbePending(); probed != test.probed {
				t.Errorf("probed at once: %t, want %t", probed, test.probed)
			}
			if held.spec.Token != test.token {
				t.Errorf("the next feed would start with %q", held.spec.Token)
			}
			if now := b.feed.(*fakeFeed).token; test.probed && now != test.token {
				t.Errorf("the feed continues with %v", now)
			}
		})
	}
}

// Without a running feed, the next one gets the token.
func TestTokenIsRenewedWithoutAFeed(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	w.upsertSecret(t.Context(), secretFor("b", membertest.Kubeconfig(membertest.Cluster, "token: other")))
	if got := w.peers["member-b"]; got.receiver != nil || got.spec.Token != "other" {
		t.Errorf("feed %v, token %q", got.receiver, got.spec.Token)
	}
}

// R101: an old cluster that joins late does not displace a member.
func TestLateJoinerWithAnOldIDIsRefused(t *testing.T) {
	w := newFixture(t, nil)
	for _, cluster := range []struct {
		secret       string
		uid          types.UID
		made, joined time.Time
	}{
		{"old", "uid-old", epoch, epoch.Add(2 * time.Hour)},
		{"young", "uid-young", epoch.Add(time.Hour), epoch.Add(time.Hour)},
	} {
		f := w.add("b", func(s *secret.Spec) { s.Name = cluster.secret })
		f.ClaimsRead(identity.NewClaims(
			membertest.ClusterClaim(multicluster.ClusterIDClaim, "b", cluster.made), membertest.ClusterClaim(multicluster.ClusterSetClaim, "set", cluster.joined)))
		w.probe(f, ownEntry("b", withUID(cluster.uid)))
	}
	expectCondition(t, w.Entry("secret.old"), clusterset.MemberAccepted, metav1.ConditionFalse, acceptance.ReasonDuplicateID, `the older claim, that of Secret "young", takes precedence`)
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, metav1.ConditionTrue, acceptance.ReasonAccepted, "")
}
