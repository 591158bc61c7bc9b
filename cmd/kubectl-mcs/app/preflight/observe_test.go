// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R432, R435: mcs-apiserver tells its version, and which members it reaches.
func TestMembersAreObserved(t *testing.T) {
	reachable := func(name string, status metav1.ConditionStatus, reason string) *clustersetv1alpha1.Member {
		return clustertest.NewMember(name, clustersetv1alpha1.MemberConnected, clustertest.Condition(clusterset.MemberReachable, status, reason, "message"))
	}
	o := &observer{Cluster: clustertest.NewCluster(
		clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, func(status *clustersetv1alpha1.MemberStatus) { status.Version = "v0.1.0" }),
		reachable("west", metav1.ConditionTrue, "Reachable"), reachable("north", metav1.ConditionFalse, "Unreachable"),
		reachable("south", metav1.ConditionUnknown, "Pending"), clustertest.NewMember("new", clustersetv1alpha1.MemberConnecting),
	)}
	if err := o.observeMembers(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := plan.Facts{MCS: "v0.1.0", Reachable: map[string]plan.Reachable{
		"west":  {Known: true, Answers: true, Reason: "Reachable", Message: "message"},
		"north": {Known: true, Reason: "Unreachable", Message: "message"},
	}}
	if diff := cmp.Diff(want, o.facts); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}
