// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leave_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// claiming are the claims of a cluster, by their names.
func claiming(claims map[string]string) func(map[string]any) {
	return func(objects map[string]any) {
		var items []any
		for name, value := range claims {
			items = append(items, map[string]any{"metadata": map[string]string{"name": name}, "spec": map[string]string{"value": value}})
		}
		objects["/apis/multicluster.k8s.io/v1/clusterclaims"] = commandtest.List("multicluster.k8s.io/v1", "ClusterClaim", items...)
	}
}

// hasEast has the real east for a member.
func hasEast(objects map[string]any) {
	east := clustertest.NewMember("east", clustersetv1alpha1.MemberConnected)
	east.Status.ClusterUID = "uid-east"
	objects[commandtest.ClusterSetPath+"members"] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", east)
	objects["/api/v1/namespaces/mcs-system/secrets"] = commandtest.List("v1", "Secret", map[string]any{
		"metadata": map[string]string{"name": "member-east"}, "type": clusterset.MemberSecretType, "data": map[string][]byte{clusterset.MemberSecretClusterID: []byte("east")},
	})
	objects["/api/v1/namespaces/mcs-system/serviceaccounts"] = commandtest.List("v1", "ServiceAccount", map[string]any{"metadata": map[string]string{"name": "peer-east"}})
}

// R99: a cluster that could not join, because its id is taken, does not take the
// rightful member with it when it leaves.
func TestLeavingDoesNotExpelAnotherClusterOfThatID(t *testing.T) {
	for name, test := range map[string]struct {
		claims map[string]string
		want   string
		writes []string
	}{
		"in no ClusterSet":      {map[string]string{"id.k8s.io": "east"}, "The cluster is in no ClusterSet, and there is nothing to be done but what the warnings say.\n", nil},
		"in another ClusterSet": {map[string]string{"id.k8s.io": "east", "clusterset.k8s.io": "staging"}, "The cluster of context other is in no ClusterSet any more.\n", []string{"DELETE clusterclaims"}},
	} {
		t.Run(name, func(t *testing.T) {
			other, west := commandtest.NewAPIServer(t, "other", claiming(test.claims)), commandtest.NewAPIServer(t, "west", hasEast)
			out, warnings, err := commandtest.Run(t.Context(), "leave", "other", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"other": other.URL, "west": west.URL}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(out, test.want) {
				t.Errorf("printed %q, want %q at its end", out, test.want)
			}
			expect.Text(t, `warning: in west, "east" is another cluster (UID uid-east) than that of other (UID uid-other): what there is of it is left alone`+"\n", warnings)
			if !slices.Equal(other.Written(), test.writes) || len(west.Written()) > 0 {
				t.Errorf("written %v in other, want %v, and %v in west", other.Written(), test.writes, west.Written())
			}
		})
	}
}

func TestLeavingWithNothingToDoSaysSo(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	out, _, err := commandtest.Run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}))
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, "The cluster is in no ClusterSet, and nothing is left of one.\n", out)
	out, _, err = commandtest.Run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}), "--dry-run", "-o", "json")
	if err != nil || !strings.Contains(out, `"steps": []`) {
		t.Errorf("as JSON: %s (%v)", out, err)
	}
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}
