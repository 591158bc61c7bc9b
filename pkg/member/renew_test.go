// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
			if !slices.Equal(held.tokens, []string{test.token}) {
				t.Errorf("the next feed would start with %q", held.tokens)
			}
			if now := b.feed.(*fakeFeed).tokens; test.probed && !slices.Equal(now, held.tokens) {
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
	if got := w.peers["member-b"]; got.receiver != nil || !slices.Equal(got.tokens, []string{"other"}) {
		t.Errorf("feed %v, tokens %q", got.receiver, got.tokens)
	}
}

// renewedFor returns the Secret with the credential that was renewed from a member Secret.
func renewedFor(member *corev1.Secret, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: clusterset.RenewedSecretName(member.Name)}, Type: clusterset.RenewedSecretType,
		Data: map[string][]byte{secret.Parse(member).Credential: []byte(token)},
	}
}

// R386: a renewed credential is used with what it was renewed from, whichever of the two
// Secrets is seen first, and without another feed.
func TestRenewedCredentialIsUsedWithItsMemberSecret(t *testing.T) {
	bootstrap, again := secretFor("b", membertest.ValidKubeconfig()), secretFor("b", membertest.Kubeconfig(membertest.Cluster, "token: again"))
	elsewhere := secretFor("b", membertest.Kubeconfig("server: https://c.example", "token: secret"))
	renewed, renewedAgain := renewedFor(bootstrap, "renewed"), renewedFor(again, "renewed-again")
	for _, test := range []struct {
		name string
		seen []*corev1.Secret
		want []string
	}{
		{"in order", []*corev1.Secret{bootstrap, renewed}, []string{"renewed", "secret"}},
		{"the other way", []*corev1.Secret{renewed, bootstrap}, []string{"renewed", "secret"}},
		{"applied again", []*corev1.Secret{bootstrap, renewed, bootstrap}, []string{"renewed", "secret"}},
		{"joined again", []*corev1.Secret{bootstrap, renewed, again}, []string{"again"}},
		{"renewed again", []*corev1.Secret{bootstrap, renewed, again, renewedAgain}, []string{"renewed-again", "again"}},
		{"renewed again, seen first", []*corev1.Secret{bootstrap, renewed, renewedAgain, again}, []string{"renewed-again", "again"}},
		{"another server", []*corev1.Secret{bootstrap, renewed, elsewhere}, []string{"secret"}},
		{"another server, seen late", []*corev1.Secret{elsewhere, renewed}, []string{"secret"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, nil)
			var b *receiver
			for _, seen := range test.seen {
				w.upsertSecret(t.Context(), seen)
				w.upsertRenewed(t.Context(), seen)
				if p := w.peers["member-b"]; p != nil && b == nil {
					b = w.connect(p)
				}
			}
			if got := w.peers["member-b"].tokens; !slices.Equal(got, test.want) {
				t.Errorf("got tokens %q, want %q", got, test.want)
			}
			w.removeRenewed(t.Context(), test.seen[1])
			w.removeRenewed(t.Context(), renewed)
			if got := w.peers["member-b"].tokens; len(got) != 1 || len(w.renewed) > 0 {
				t.Errorf("got tokens %q after the renewed credential was deleted", got)
			}
		})
	}
}

// What is not a renewed credential, by its type or name, is none, and its end has no effect.
func TestOtherSecretsAreNotRenewedCredentials(t *testing.T) {
	member := secretFor("b", membertest.ValidKubeconfig())
	renewed := renewedFor(member, "renewed")
	otherType, otherName := renewed.DeepCopy(), renewed.DeepCopy()
	otherType.Type, otherName.Name = corev1.SecretTypeOpaque, member.Name
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), member)
	for _, other := range []*corev1.Secret{otherType, otherName} {
		w.upsertRenewed(t.Context(), other)
		if got := w.peers["member-b"].tokens; len(got) != 1 {
			t.Errorf("got tokens %q", got)
		}
	}
	w.upsertRenewed(t.Context(), renewed)
	for _, other := range []*corev1.Secret{otherType, otherName} {
		w.removeRenewed(t.Context(), other)
		if got := w.peers["member-b"].tokens; len(got) != 2 {
			t.Errorf("got tokens %q", got)
		}
	}
}

// R386, R387: the feed goes on with the token that the member accepts.
func TestMemberIsReadWithTheTokenThatItAccepts(t *testing.T) {
	for name, tokens := range map[string]struct{ declared, renewed string }{
		"the declared token has expired": {"expired", "token-1"}, "the renewed token is rejected": {"token-1", "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			server := membertest.NewServer(t, "b")
			member := secretFor("b", server.Kubeconfig(tokens.declared))
			member.Namespace = "mcs-system"
			r := start(t, newHost(), member, renewedFor(member, tokens.renewed))
			eventually(t, "the member to be connected", func() bool {
				entry := r.Entry("b")
				return entry != nil && entry.Status.State == clusterset.MemberConnected
			})
		})
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
