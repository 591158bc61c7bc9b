// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// R424: the hub gets the permission to relay, and the Secrets of the others say for whom.
// Both are found by the next join, and rolled back.
func TestJoinWithHub(t *testing.T) {
	clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west"), newCluster("north", "north")}
	steps := func() []plan.Step {
		planned(t, clusters, nil)
		observed := Observed(clusters)
		observed[0].Hub = true
		made, err := plan.Join("production", observed, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range made.Steps {
			if step.Action == plan.WaitForMembers {
				return made.Steps[:i]
			}
		}
		return made.Steps
	}
	before := state(t, clusters)
	e := NewExecution(clusters, discardProgress())
	if err := e.Run(t.Context(), steps()); err != nil {
		t.Fatal(err)
	}
	after := state(t, clusters)
	secret, ok := after["west secrets member-east"].(*corev1.Secret)
	if !ok || string(secret.Data["relay-for"]) != "north" {
		t.Errorf("got Secret %+v", secret)
	}
	if after["west secrets member-north"] != nil {
		t.Error("west reads north directly")
	}
	binding, ok := after["east clusterrolebindings mcs-apiserver:relay:west"].(*rbacv1.ClusterRoleBinding)
	if !ok || binding.RoleRef.Name != "mcs-apiserver:relay" || binding.Labels["clusterset.mcs-apiserver.io/peer"] != "west" ||
		!cmp.Equal(binding.Subjects, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "peer-west", Namespace: "mcs-system"}}) {
		t.Errorf("got binding %+v", binding)
	}
	if again := steps(); len(again) > 0 {
		t.Errorf("second join has steps %v", again)
	}
	if err := e.rollBackAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectState(t, before, state(t, clusters))
}
