// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

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
		objects["/apis/multicluster.k8s.io/v1/clusterclaims"] = list("multicluster.k8s.io/v1", "ClusterClaim", items...)
	}
}

// hasEast has the real east for a member.
func hasEast(objects map[string]any) {
	east := newMember("east", clustersetv1alpha1.MemberConnected)
	east.Status.ClusterUID = "uid-east"
	objects[clusterSetPath+"members"] = list("clusterset.mcs-apiserver.io/v1alpha1", "Member", east)
	objects["/api/v1/namespaces/mcs-system/secrets"] = list("v1", "Secret", map[string]any{
		"metadata": map[string]string{"name": "member-east"}, "type": clusterset.MemberSecretType, "data": map[string][]byte{clusterset.MemberSecretClusterID: []byte("east")},
	})
	objects["/api/v1/namespaces/mcs-system/serviceaccounts"] = list("v1", "ServiceAccount", map[string]any{"metadata": map[string]string{"name": "peer-east"}})
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
			other, west := newAPIServer(t, "other", claiming(test.claims)), newAPIServer(t, "west", hasEast)
			out, warnings, err := run(t.Context(), "leave", "other", "--from", "west", "--kubeconfig", kubeconfigWith(t, map[string]string{"other": other.URL, "west": west.URL}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(out, test.want) {
				t.Errorf("printed %q, want %q at its end", out, test.want)
			}
			expectText(t, `warning: in west, "east" is another cluster (UID uid-east) than that of other (UID uid-other): what there is of it is left alone`+"\n", warnings)
			if !slices.Equal(other.written(), test.writes) || len(west.written()) > 0 {
				t.Errorf("written %v in other, want %v, and %v in west", other.written(), test.writes, west.written())
			}
		})
	}
}
