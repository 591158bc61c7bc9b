// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// byHand is a cluster with a membership for a peer as docs/clustersets.md makes it
// by hand: nothing is labelled, and the Secret goes by another name.
func byHand(t *testing.T, context, peer string, more ...*corev1.Secret) *Cluster {
	t.Helper()
	kubeconfig, err := kubeconfigFor(peer, accessTo(peer), "token")
	if err != nil {
		t.Fatal(err)
	}
	made := newAdmission("mcs-system", peer)
	for _, part := range []metav1.Object{made.account, made.clusterBinding, made.role, made.binding} {
		part.SetLabels(nil)
	}
	s := newSite(context, context, made.account, made.clusterBinding, made.role, made.binding)
	host, _ := s.fakes()
	for _, secret := range append(more, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "by-gitops"}, Type: clusterset.MemberSecretType,
		Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte(peer + "\n"), clusterset.MemberSecretKubeconfig: kubeconfig},
	}) {
		if err := host.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestMembershipsMadeByHandCount(t *testing.T) {
	sites := []*Cluster{byHand(t, "east", "west"), byHand(t, "west", "east")}
	want := []plan.Step{{Context: "east", Action: plan.Claim, Value: "production"}, {Context: "west", Action: plan.Claim, Value: "production"}}
	if diff := cmp.Diff(want, planned(t, sites, nil)); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

func TestNothingOfAMembershipMadeByHandIsLeftBehind(t *testing.T) {
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "another"}, Type: clusterset.MemberSecretType, Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("west")}}
	sites := []*Cluster{byHand(t, "east", "west", other), byHand(t, "west", "east")}
	planned(t, sites, nil) // to find out how they are
	leave, err := plan.Leave(sites[0].Found, Observed(sites[1:]))
	if err != nil {
		t.Fatal(err)
	}
	if err := NewExecution(sites, quiet()).Run(t.Context(), leave.Steps); err != nil {
		t.Fatal(err)
	}
	for name := range state(t, sites) {
		if !strings.HasSuffix(name, " clusterclaims id.k8s.io") {
			t.Errorf("%s is left", name)
		}
	}
}

// A Secret is updated where it is, and what is there for something else is not.
func TestSecretsMadeByHandAreUpdated(t *testing.T) {
	sites := []*Cluster{byHand(t, "east", "west"), byHand(t, "west", "east")}
	planned(t, sites, nil)
	step := plan.Step{Context: "east", Action: plan.AddMembers, Peers: []string{"west"}}
	before := state(t, sites)
	e := NewExecution(sites, quiet())
	if err := e.Run(t.Context(), []plan.Step{step}); err != nil {
		t.Fatal(err)
	}
	after := state(t, sites)
	if _, made := after["east secrets member-west"]; made || cmp.Equal(before["east secrets by-gitops"], after["east secrets by-gitops"]) {
		t.Errorf("there is another Secret (%t), or that which was there was not updated", made)
	}
	if err := e.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	expectState(t, before, state(t, sites))

	host, _ := sites[0].fakes()
	if err := host.Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-north"}, Type: clusterset.MemberSecretType, Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("south")},
	}); err != nil {
		t.Fatal(err)
	}
	sites = append(sites, newSite("north", "north", newAdmission("mcs-system", "east").account))
	planned(t, sites, nil)
	before = state(t, sites)
	step.Peers = []string{"north"}
	expect.Error(t, NewExecution(sites, quiet()).Run(t.Context(), []plan.Step{step}), `the Secret "member-north" in the namespace "mcs-system" is there for something else: give it another name`)
	expectState(t, before, state(t, sites))
}

// Of several Secrets for a member, the one that join makes is the one that it updates.
func TestSecretOfTheUsualNameComesFirst(t *testing.T) {
	usual := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-west"}, Type: clusterset.MemberSecretType, Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("west")}}
	s := byHand(t, "east", "west", usual)
	planned(t, []*Cluster{s, newSite("west", "west")}, nil)
	if diff := cmp.Diff([]string{"member-west", "by-gitops"}, s.secrets["west"]); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	if got := s.Found.Members["west"]; got != (plan.Member{}) { // as the usual one says
		t.Errorf("got %+v", got)
	}
}

func TestCredentialsThatMembersRefuseAreFound(t *testing.T) {
	for reason, want := range map[string]bool{"Unauthorized": true, "Forbidden": true, "Unreachable": false} {
		s := byHand(t, "east", "west")
		s.MCS = mcsfake.NewSimpleClientset(clustertest.NewMember("west", clustersetv1alpha1.MemberLost, clustertest.Condition(clusterset.MemberReachable, metav1.ConditionFalse, reason, "")))
		planned(t, []*Cluster{s, newSite("west", "west")}, map[string]string{"east": "east"})
		if got := s.Found.Members["west"].Refuses; got != want {
			t.Errorf("%s: it refuses: %t", reason, got)
		}
	}
}

func TestPartsOfTheIPsAreFound(t *testing.T) {
	withPart := func(name string, state clustersetv1alpha1.MemberState, cidr string) *clustersetv1alpha1.Member {
		member := clustertest.NewMember(name, state)
		member.Status.ClusterUID, member.Status.ClusterSetIPRanges, member.Status.ClusterSetIPCIDRs = types.UID("uid-"+name), []string{"243.0.0.0/8"}, []string{cidr}
		return member
	}
	claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterSetIPCIDRClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "243.9.0.0/16, fd00::/112"}}
	s := newSite("east", "")
	s.Found, s.MCS = unseen("east"), mcsfake.NewSimpleClientset(claim, withPart("east", clustersetv1alpha1.MemberLocal, "243.1.0.0/16"), withPart("west", clustersetv1alpha1.MemberRefused, "243.2.0.0/16"))
	for _, err := range []error{s.findClaims(t.Context()), s.findMembers(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := unseen("east")
	want.Ranges, want.CIDRs, want.Claimed = []string{"243.0.0.0/8"}, []string{"243.1.0.0/16"}, []string{"243.9.0.0/16", "fd00::/112"}
	want.Taken = map[types.UID][]string{"uid-east": {"243.1.0.0/16"}, "uid-west": {"243.2.0.0/16"}}
	if diff := cmp.Diff(want, s.Found); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	s.MCS = mcsfake.NewSimpleClientset()
	if err := s.findMembers(t.Context()); err != nil || !s.Found.Unlisted {
		t.Errorf("a cluster that is no member of its own counts as one (%v)", err)
	}
}
