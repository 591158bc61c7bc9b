// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// withManualMembership returns a cluster with a membership that was not created by
// join: objects have no labels, and the Secret has another name.
func withManualMembership(t *testing.T, context, peer string, more ...*corev1.Secret) *Cluster {
	t.Helper()
	byHand, err := plan.NewMemberSecret("mcs-system", plan.Membership{ID: peer, Access: testAccess(peer), Token: "token", Secret: "by-gitops"})
	if err != nil {
		t.Fatal(err)
	}
	byHand.Labels, byHand.Data[clusterset.MemberSecretClusterID] = nil, []byte(peer+"\n")
	made := plan.NewPeerAccess("mcs-system", peer)
	for _, part := range []metav1.Object{made.Account, made.ClusterBinding, made.Role, made.Binding} {
		part.SetLabels(nil)
	}
	s := newCluster(context, context, made.Account, made.ClusterBinding, made.Role, made.Binding)
	host, _ := s.fakes()
	for _, secret := range append(more, byHand) {
		if err := host.Tracker().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestManualMembershipIsObserved(t *testing.T) {
	clusters := []*Cluster{withManualMembership(t, "east", "west"), withManualMembership(t, "west", "east")}
	want := []plan.Step{
		{Context: "east", Action: plan.JoinClusterSet, Value: "production"}, {Context: "west", Action: plan.JoinClusterSet, Value: "production"},
		{Context: "east", Action: plan.RecordJoinTimes, Peers: []string{"west"}}, {Context: "west", Action: plan.RecordJoinTimes, Peers: []string{"east"}},
	}
	if diff := cmp.Diff(want, planned(t, clusters, nil)); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}

func TestLeaveDeletesManualMembership(t *testing.T) {
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "another"}, Type: clusterset.MemberSecretType, Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("west")}}
	clusters := []*Cluster{withManualMembership(t, "east", "west", other), withManualMembership(t, "west", "east")}
	planned(t, clusters, nil) // to observe their current state
	leave, err := plan.Leave(clusters[0].Observed, Observed(clusters[1:]))
	if err != nil {
		t.Fatal(err)
	}
	if err := NewExecution(clusters, discardProgress()).Run(t.Context(), leave.Steps); err != nil {
		t.Fatal(err)
	}
	for name := range state(t, clusters) {
		if !strings.HasSuffix(name, " clusterclaims id.k8s.io") {
			t.Errorf("%s still exists", name)
		}
	}
}

// A member Secret is updated under its own name. A Secret with another content is
// not overwritten.
func TestManualSecretIsUpdated(t *testing.T) {
	clusters := []*Cluster{withManualMembership(t, "east", "west"), withManualMembership(t, "west", "east")}
	planned(t, clusters, nil)
	step := plan.Step{Context: "east", Action: plan.AddMembers, Peers: []string{"west"}}
	before := state(t, clusters)
	e := NewExecution(clusters, discardProgress())
	if err := e.Run(t.Context(), []plan.Step{step}); err != nil {
		t.Fatal(err)
	}
	after := state(t, clusters)
	if _, made := after["east secrets member-west"]; made || cmp.Equal(before["east secrets by-gitops"], after["east secrets by-gitops"]) {
		t.Errorf("Secret was not updated (another one created: %t)", made)
	}
	if err := e.rollBackAll(t.Context()); err != nil {
		t.Error(err)
	}
	expectState(t, before, state(t, clusters))

	host, _ := clusters[0].fakes()
	if err := host.Tracker().Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-north"}, Type: clusterset.MemberSecretType, Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("south")},
	}); err != nil {
		t.Fatal(err)
	}
	clusters = append(clusters, newCluster("north", "north", plan.NewPeerAccess("mcs-system", "east").Account))
	planned(t, clusters, nil)
	before = state(t, clusters)
	step.Peers = []string{"north"}
	expect.Error(t, NewExecution(clusters, discardProgress()).Run(t.Context(), []plan.Step{step}), `name conflict: Secret "member-north" in namespace "mcs-system" is not the member Secret of "north"; rename or delete it`)
	expectState(t, before, state(t, clusters))
}

// If a member has several Secrets, join updates the one with the default name.
func TestSecretWithDefaultNameComesFirst(t *testing.T) {
	standard := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-west"}, Type: clusterset.MemberSecretType, Data: map[string][]byte{clusterset.MemberSecretClusterID: []byte("west")}}
	s := withManualMembership(t, "east", "west", standard)
	planned(t, []*Cluster{s, newCluster("west", "west")}, nil)
	if diff := cmp.Diff([]string{"member-west", "by-gitops"}, s.memberSecrets["west"]); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
	want := plan.Member{Secret: types.NamespacedName{Namespace: "mcs-system", Name: "member-west"}} // the content of the default one
	if diff := cmp.Diff(want, s.Observed.Members["west"]); diff != "" {
		t.Errorf("unexpected member (-want +got):\n%s", diff)
	}
}

func TestRejectedCredentialsAreObserved(t *testing.T) {
	for reason, want := range map[string]bool{"Unauthorized": true, "Forbidden": true, "Unreachable": false} {
		s := withManualMembership(t, "east", "west")
		s.MCS = mcsfake.NewSimpleClientset(clustertest.NewMember("west", clustersetv1alpha1.MemberLost, clustertest.Condition(clusterset.MemberReachable, metav1.ConditionFalse, reason, "")))
		planned(t, []*Cluster{s, newCluster("west", "west")}, map[string]string{"east": "east"})
		if got := s.Observed.Members["west"].Rejected; got != want {
			t.Errorf("%s: rejected is %t, want %t", reason, got, want)
		}
	}
}

// R298: claims that are refused for any reason do not count.
func TestAllocationCIDRsAreObserved(t *testing.T) {
	withCIDR := func(name string, state clustersetv1alpha1.MemberState, cidr string, changes ...func(*clustersetv1alpha1.MemberStatus)) *clustersetv1alpha1.Member {
		member := clustertest.NewMember(name, state, changes...)
		member.Status.ClusterUID, member.Status.ClusterSetIPRanges, member.Status.ClusterSetIPCIDRs = types.UID("uid-"+name), []string{"243.0.0.0/8"}, []string{cidr}
		return member
	}
	relayed := func(status *clustersetv1alpha1.MemberStatus) { status.Path = []string{status.ClusterID, "hub"} }
	claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterSetIPCIDRClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "243.9.0.0/16, fd00::/112"}}
	s := newCluster("east", "")
	s.Observed, s.MCS = newObserved("east"), mcsfake.NewSimpleClientset(claim,
		withCIDR("east", clustersetv1alpha1.MemberLocal, "243.1.0.0/16", clustertest.Condition(clusterset.MemberClusterSetIP, metav1.ConditionFalse, "Overlaps", "")),
		withCIDR("west", clustersetv1alpha1.MemberLost, "243.2.0.0/16"),
		// A member cannot prevent others from joining with what is not believed.
		withCIDR("overlapping", clustersetv1alpha1.MemberStale, "243.0.0.0/8", clustertest.Condition(clusterset.MemberClusterSetIP, metav1.ConditionFalse, "Overlaps", "")),
		withCIDR("relayed", clustersetv1alpha1.MemberConnected, "243.4.0.0/16", clustertest.Condition(clusterset.MemberClusterSetIP, metav1.ConditionTrue, "Contested", ""), relayed),
		withCIDR("lying", clustersetv1alpha1.MemberConnected, "243.0.0.0/8", clustertest.Condition(clusterset.MemberClusterSetIP, metav1.ConditionFalse, "Overlaps", ""), relayed),
		withCIDR("refused", clustersetv1alpha1.MemberRefused, "243.0.0.0/8"),
		withCIDR("connecting", clustersetv1alpha1.MemberConnecting, "243.0.0.0/8"),
		withCIDR("unassigned", clustersetv1alpha1.MemberConnected, "243.0.0.0/8", clustertest.Condition(clusterset.MemberClusterSetIP, metav1.ConditionFalse, clusterset.ReasonNotAssigned, "")),
		withCIDR("recorded", clustersetv1alpha1.MemberConnected, "243.0.0.0/8"),
	)
	recorded := map[string]plan.Member{"recorded": {AllocationCIDRs: "243.3.0.0/16"}}
	s.Observed.Members = recorded
	for _, err := range []error{s.observeClaims(t.Context()), s.observeMembers(t.Context())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := newObserved("east")
	want.Ranges, want.CIDRs, want.Claimed = []string{"243.0.0.0/8"}, []string{"243.1.0.0/16"}, []string{"243.9.0.0/16", "fd00::/112"}
	want.Members, want.Connected = recorded, map[string]bool{"unassigned": true, "recorded": true, "relayed": true, "lying": true}
	want.Known = map[string]types.UID{"west": "uid-west", "overlapping": "uid-overlapping", "unassigned": "uid-unassigned", "recorded": "uid-recorded", "relayed": "uid-relayed", "lying": "uid-lying"}
	want.Relayed = map[string]string{"relayed": "hub", "lying": "hub"}
	want.Taken = map[types.UID][]string{"uid-west": {"243.2.0.0/16"}, "uid-relayed": {"243.4.0.0/16"}}
	if diff := cmp.Diff(want, s.Observed); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
	s.MCS = mcsfake.NewSimpleClientset()
	if err := s.observeMembers(t.Context()); err != nil || !s.Observed.Unlisted {
		t.Errorf("cluster without an entry of its own is not unlisted (%v)", err)
	}
}

// R298: the allocation CIDRs of a member are taken as long as it is accepted, whether it
// responds or not.
func TestClaimsOfAllAcceptedMembersCount(t *testing.T) {
	for state, want := range map[clustersetv1alpha1.MemberState]bool{
		clustersetv1alpha1.MemberLocal: false, clustersetv1alpha1.MemberConnecting: false, clustersetv1alpha1.MemberRefused: false,
		clustersetv1alpha1.MemberConnected: true, clustersetv1alpha1.MemberUnavailable: true, clustersetv1alpha1.MemberStale: true, clustersetv1alpha1.MemberLost: true,
	} {
		if got := claimCounts(&clustertest.NewMember("west", state).Status); got != want {
			t.Errorf("claims of a member that is %s count: %v, want %v", state, got, want)
		}
		refused := clustertest.NewMember("west", state, clustertest.Condition(clusterset.MemberClusterSetIP, metav1.ConditionFalse, "Overlaps", ""))
		if claimCounts(&refused.Status) {
			t.Errorf("refused claims of a member that is %s count", state)
		}
	}
}

// R420: the networks of this cluster are those of its nodes and Services. Users need not be
// allowed to read them, but it is known whether they are.
func TestNetworksAreObserved(t *testing.T) {
	for _, test := range []struct {
		name   string
		denied error
		want   plan.Cluster
	}{
		{"allowed", nil, plan.Cluster{PodCIDRs: []string{"10.2.0.0/24", "fd00:2::/64"}, ServiceCIDRs: []string{"10.96.0.0/12"}}},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil), plan.Cluster{NodesHidden: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			west := newCluster("west", "west", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.2.0.0/24", "fd00:2::/64"}}},
				&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}})
			react([]*Cluster{west}, func(string, clienttesting.Action) error { return test.denied })
			for _, observe := range []func(context.Context) error{west.observePodCIDRs, west.observeServiceCIDRs} {
				if err := observe(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, west.Observed); diff != "" {
				t.Errorf("unexpected networks (-want +got):\n%s", diff)
			}
		})
	}
}

// The cluster that is named because it occupies an IP is not one that adopted it from that.
func TestExporterThatDecidedAnIPIsNamed(t *testing.T) {
	export := func(cluster string, adoptedFrom ...string) (service clustersetv1alpha1.ExportedService) {
		service.Spec.Cluster = cluster
		service.Spec.ClusterSetIP = &clustersetv1alpha1.ClusterSetIPDecision{IPs: []string{"243.0.0.1"}, AdoptedFrom: adoptedFrom}
		return service
	}
	for _, exported := range [][]clustersetv1alpha1.ExportedService{
		{export("east", "west"), export("west"), {}},
		{{}, export("west"), export("east", "west")},
	} {
		if got := exportersByIP(exported)["243.0.0.1"]; got != "west" {
			t.Errorf("the IP is that of %q", got)
		}
	}
}
