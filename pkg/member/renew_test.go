// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

// bearers are a member and the tokens that it is asked with.
type bearers struct {
	*memberServer
	mu    sync.Mutex
	heard []string
}

func newBearers(t *testing.T, id string) *bearers {
	t.Helper()
	inner, b := newMemberServer(t, id), &bearers{}
	b.memberServer = answering(t, func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.heard = append(b.heard, r.Header.Get("Authorization"))
		b.mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	return b
}

// last is what the last request came with, as soon as it has been answered.
func (b *bearers) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard[len(b.heard)-1]
}

func TestRequestsAreMadeWithTheTokenOfTheMoment(t *testing.T) {
	server := newBearers(t, "b")
	said := parseSecret(secretOf("b", server.kubeconfig("token-1")))
	f, err := newFeed(newWorld(t, nil).Registry, &peer{spec: said}, said)
	must(t, err)
	for _, test := range []struct{ token, want string }{
		{"token-1", "Bearer token-1"},
		{"token-2", "Bearer token-2"},
		{"token-1", "Bearer token-1"},
		{"", ""}, // a certificate will do
	} {
		f.setToken(test.token)
		_, err := f.client.ClusterSetV1alpha1().Members().List(t.Context(), metav1.ListOptions{})
		if (err == nil) != (test.token != "") {
			t.Errorf("with token %q: %v", test.token, err)
		}
		if got := server.last(); got != test.want {
			t.Errorf("with token %q it is asked by %q, want %q", test.token, got, test.want)
		}
	}
}

// The member may have refused the old token for long.
func TestRenewedTokenIsTriedAtOnce(t *testing.T) {
	for _, test := range []struct {
		name, token string
		probed      bool
	}{
		{"another token", "other", true},
		{"the same token", "secret", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.setSecret(t.Context(), secretOf("b", goodKubeconfig))
			held := w.peers["member-b"]
			b := w.connect(held)
			w.setSecret(t.Context(), secretOf("b", kubeconfig(goodCluster, "token: "+test.token)))
			if w.peers["member-b"] != held || held.feed != b {
				t.Error("another token made another member, or another connection")
			}
			if probed := len(b.hurry) > 0; probed != test.probed {
				t.Errorf("probed at once: %t, want %t", probed, test.probed)
			}
			if held.spec.token != test.token {
				t.Errorf("the next connection would be made with %q", held.spec.token)
			}
			if now := b.token.Load(); test.probed && (now == nil || *now != test.token) {
				t.Errorf("the connection goes on with %v", now)
			}
		})
	}
}

// Nothing is read yet, or any more: the next connection has the token.
func TestTokenIsRenewedWithoutAConnection(t *testing.T) {
	w := newWorld(t, nil)
	w.setSecret(t.Context(), secretOf("b", goodKubeconfig))
	w.setSecret(t.Context(), secretOf("b", kubeconfig(goodCluster, "token: other")))
	if got := w.peers["member-b"]; got.feed != nil || got.spec.token != "other" {
		t.Errorf("feed %v, token %q", got.feed, got.spec.token)
	}
}

func claimAt(name, value string, at time.Time) *multiclusterv1.ClusterClaim {
	return &multiclusterv1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at)}, Spec: multiclusterv1.ClusterClaimSpec{Value: value},
	}
}

// R101: whoever joined first has the id, whenever the id was made.
func TestIDIsClaimedSinceTheClusterIsInTheClusterSet(t *testing.T) {
	early, late := epoch, epoch.Add(time.Hour)
	at := func(at time.Time) *multiclusterv1.ClusterClaim { return claimAt("", "", at) }
	for _, test := range []struct {
		name           string
		id, clusterSet *multiclusterv1.ClusterClaim
		want           time.Time
	}{
		{"no claims", nil, nil, time.Time{}},
		{"in no ClusterSet", at(early), nil, early},
		{"without an id", nil, at(early), early},
		{"first the id", at(early), at(late), late},
		{"first the ClusterSet", at(late), at(early), late},
		{"both at once", at(early), at(early), early},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ClaimedAt(test.id, test.clusterSet); !got.Equal(test.want) {
				t.Errorf("claimed since %s, want %s", got, test.want)
			}
		})
	}
}

// R101: an old cluster that joins late does not displace a member.
func TestLateJoinerWithAnOldIDIsKeptOut(t *testing.T) {
	w := newWorld(t, nil)
	for _, cluster := range []struct {
		secret       string
		uid          types.UID
		made, joined time.Time
	}{
		{"old", "uid-old", epoch, epoch.Add(2 * time.Hour)},
		{"young", "uid-young", epoch.Add(time.Hour), epoch.Add(time.Hour)},
	} {
		f := w.add("b", func(s *spec) { s.secret = cluster.secret })
		must(t, (&claimStore{feed: f}).Replace([]any{
			claimAt(multicluster.ClusterIDClaim, "b", cluster.made), claimAt(multicluster.ClusterSetClaim, "set", cluster.joined),
		}, ""))
		w.answers(f, own("b", withUID(cluster.uid)))
	}
	expectCondition(t, w.Entry("secret.old"), clusterset.MemberAccepted, metav1.ConditionFalse, reasonDuplicateID, `the older claim, that of "young", stands`)
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, metav1.ConditionTrue, reasonAccepted, "")
}
