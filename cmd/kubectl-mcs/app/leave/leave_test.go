// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leave_test

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// claiming sets the claims of a cluster.
func claiming(claims map[string]string) func(map[string]any) {
	return func(objects map[string]any) {
		var items []any
		for name, value := range claims {
			items = append(items, map[string]any{"metadata": map[string]string{"name": name}, "spec": map[string]string{"value": value}})
		}
		objects["/apis/multicluster.k8s.io/v1/clusterclaims"] = commandtest.List("multicluster.k8s.io/v1", "ClusterClaim", items...)
	}
}

// hasEast adds the member east and its access.
func hasEast(objects map[string]any) {
	east := clustertest.NewMember("east", clustersetv1alpha1.MemberConnected)
	east.Status.ClusterUID = "uid-east"
	objects[commandtest.ClusterSetPath+"members"] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", east)
	objects["/api/v1/namespaces/mcs-system/secrets"] = commandtest.List("v1", "Secret", map[string]any{
		"metadata": map[string]string{"name": "member-east"}, "type": clusterset.MemberSecretType, "data": map[string][]byte{clusterset.MemberSecretClusterID: []byte("east")},
	})
	objects["/api/v1/namespaces/mcs-system/serviceaccounts"] = commandtest.List("v1", "ServiceAccount", map[string]any{"metadata": map[string]string{"name": "peer-east"}})
}

// R99: a cluster that could not join because its ID is in use does not remove the
// member with that ID when it leaves.
func TestLeaveKeepsAnotherClusterWithTheSameID(t *testing.T) {
	for name, test := range map[string]struct {
		claims map[string]string
		want   string
		writes []string
	}{
		"outside of any ClusterSet": {map[string]string{"id.k8s.io": "east"}, "Cluster \"other\" is not in a ClusterSet.\n", nil},
		"in another ClusterSet":     {map[string]string{"id.k8s.io": "east", "clusterset.k8s.io": "staging"}, "Cluster \"other\" left the ClusterSet.\n", []string{"DELETE clusterclaims"}},
	} {
		t.Run(name, func(t *testing.T) {
			other, west := commandtest.NewAPIServer(t, "other", claiming(test.claims)), commandtest.NewAPIServer(t, "west", hasEast)
			out, warnings, err := commandtest.Run(t.Context(), "leave", "other", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"other": other.URL, "west": west.URL}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(out, test.want) {
				t.Errorf("output %q does not end with %q", out, test.want)
			}
			expect.Text(t, `Warning: in context "west", member "east" is a different cluster (UID uid-east) than the one of context "other" (UID uid-other) and is not removed`+"\n", warnings)
			if !slices.Equal(other.Written(), test.writes) || len(west.Written()) > 0 {
				t.Errorf("got writes %v in other, want %v, and %v in west", other.Written(), test.writes, west.Written())
			}
		})
	}
}

func TestLeaveWithNothingToDo(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	out, _, err := commandtest.Run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}))
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, "Cluster \"east\" is not in a ClusterSet.\n", out)
	out, _, err = commandtest.Run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}), "--dry-run", "-o", "json")
	if err != nil || !strings.Contains(out, `"steps": []`) {
		t.Errorf("got JSON %s (%v)", out, err)
	}
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

// hasNorth adds the member north, which is lost, and everything that gives it
// access.
func hasNorth(objects map[string]any) {
	north := clustertest.NewMember("north", clustersetv1alpha1.MemberLost)
	north.Status.ClusterUID = "uid-north"
	objects[commandtest.ClusterSetPath+"members"] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", north)
	objects["/api/v1/namespaces/mcs-system/secrets"] = commandtest.List("v1", "Secret", map[string]any{
		"metadata": map[string]string{"name": "member-north"}, "type": clusterset.MemberSecretType, "data": map[string][]byte{clusterset.MemberSecretClusterID: []byte("north")},
	})
	objects["/api/v1/namespaces/mcs-system/serviceaccounts"] = commandtest.List("v1", "ServiceAccount", map[string]any{"metadata": map[string]string{"name": "peer-north"}})
}

// A cluster that does not exist any more is removed from the others, whether or
// not the kubeconfig still has a context for it.
func TestLeaveOfAClusterThatNoLongerExists(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	deleted := []string{"DELETE secrets", "DELETE serviceaccounts", "DELETE clusterrolebindings", "DELETE clusterrolebindings", "DELETE rolebindings", "DELETE roles"}
	for name, test := range map[string]struct {
		arg     string
		servers map[string]string
		warning string
	}{
		"by ID, R243":         {"--id=north", map[string]string{"north": gone.URL}, ""},
		"no context":          {"north", nil, `Warning: context "north" does not exist in the kubeconfig`},
		"unreachable cluster": {"north", map[string]string{"north": gone.URL}, `Warning: context "north": the kube-apiserver is unreachable`},
	} {
		t.Run(name, func(t *testing.T) {
			east, west := commandtest.NewAPIServer(t, "east", hasNorth), commandtest.NewAPIServer(t, "west", hasNorth)
			servers := map[string]string{"east": east.URL, "west": west.URL}
			maps.Copy(servers, test.servers)
			out, warnings, err := commandtest.Run(t.Context(), "leave", test.arg, "--from", "east,west", "--kubeconfig", commandtest.Kubeconfig(t, servers))
			if err != nil {
				t.Fatal(err)
			}
			if want := "Cluster \"north\" was removed from east, west.\n"; !strings.HasSuffix(out, want) {
				t.Errorf("output %q does not end with %q", out, want)
			}
			for _, want := range []string{test.warning, `Warning: cluster "north" itself is not changed`} {
				if !strings.Contains(warnings, want) {
					t.Errorf("warnings %q do not contain %q", warnings, want)
				}
			}
			for _, server := range []*commandtest.APIServer{east, west} {
				if diff := cmp.Diff(deleted, server.Written()); diff != "" {
					t.Errorf("unexpected writes (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Whether a cluster is gone is not decided by the user's connection alone.
func TestLeaveOfAClusterThatOthersAreConnectedTo(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	west := commandtest.NewAPIServer(t, "west", hasEast)
	_, _, err := commandtest.Run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": gone.URL, "west": west.URL}))
	expect.Error(t, err, `context "east": the kube-apiserver is unreachable`, `cluster "east" is still connected to the cluster of context "west"`)
	if writes := west.Written(); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

func TestLeaveOfAnUnknownCluster(t *testing.T) {
	east := commandtest.NewAPIServer(t, "east", hasNorth)
	_, _, err := commandtest.Run(t.Context(), "leave", "nroth", "--from", "east", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL}))
	expect.Error(t, err, `context "nroth" does not exist in the kubeconfig`, `no cluster in --from (east) has a member "nroth"`)
	if writes := east.Written(); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}
