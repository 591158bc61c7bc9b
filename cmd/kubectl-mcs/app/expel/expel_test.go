// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package expel_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// hasNorth adds the member north, which is connected, and an export with a decision of
// a cluster.
func hasNorth(decidedBy string) func(objects map[string]any) {
	return func(objects map[string]any) {
		north := clustertest.NewMember("north", clustersetv1alpha1.MemberConnected)
		north.Status.ClusterUID = "uid-north"
		objects[commandtest.ClusterSetPath+"members"] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", north)
		objects["/api/v1/namespaces/mcs-system/secrets"] = commandtest.List("v1", "Secret", map[string]any{
			"metadata": map[string]string{"name": "member-north"}, "type": clusterset.MemberSecretType, "data": map[string][]byte{clusterset.MemberSecretClusterID: []byte("north")},
		})
		objects["/apis/multicluster.x-k8s.io/v1beta1/serviceexports"] = commandtest.List("multicluster.x-k8s.io/v1beta1", "ServiceExport", map[string]any{
			"metadata": map[string]any{"namespace": "shop", "name": "web", "annotations": map[string]string{
				multicluster.ClusterSetIPDecisionAnnotation: `{"ips":["243.1.0.1"],"decidedBy":` + decidedBy + `}`,
			}},
		})
	}
}

// R249, R287: a cluster that others are connected to is expelled without being contacted, and
// removed only when its decisions are given up.
func TestExpelRemovesAMemberWhoseDecisionsAreGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		decidedBy string
		changes   []string
		want      string
	}{
		"given up":              {`"east"`, []string{"PATCH member-north", "DELETE secrets"}, ""},
		"not given up":          {`"north"`, []string{"PATCH member-north"}, `1 ServiceExports still have a shared ClusterSet IP decided by or adopted from "north", the first is shop/web`},
		"adopted, not given up": {`"unknown","adoptedFrom":["east","north"]`, []string{"PATCH member-north"}, `decided by or adopted from "north"`},
	} {
		t.Run(name, func(t *testing.T) {
			east := commandtest.NewAPIServer(t, "east", hasNorth(test.decidedBy))
			east.Refuse = func(w http.ResponseWriter, r *http.Request, _ string) bool {
				if r.Method == http.MethodPatch {
					commandtest.Answer(w, http.StatusOK, corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}})
				}
				return r.Method == http.MethodPatch
			}
			_, _, err := commandtest.Run(t.Context(), "expel", "north", "--from", "east", "--timeout", "10ms", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL}))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			changes := slices.DeleteFunc(east.Written(), func(change string) bool {
				return !slices.Contains([]string{"PATCH member-north", "DELETE secrets"}, change)
			})
			if !slices.Equal(changes, test.changes) {
				t.Errorf("changes are %q, want %q", changes, test.changes)
			}
		})
	}
}

// hasPeer adds the service account of a peer.
func hasPeer(id string) func(objects map[string]any) {
	return func(objects map[string]any) {
		objects["/api/v1/namespaces/mcs-system/serviceaccounts"] = commandtest.List("v1", "ServiceAccount", map[string]any{"metadata": map[string]string{"name": "peer-" + id}})
	}
}

// R334: what fails in one cluster does not keep others from ending the access of an expelled
// cluster and expelling it; all of them keep the Secrets that expel it.
func TestExpelActsOnAllClusters(t *testing.T) {
	for name, test := range map[string]struct {
		decidedBy string
		refused   string
		want      []string
		west      []string
	}{
		"all succeed":                   {`"east"`, "", nil, []string{"DELETE serviceaccounts", "PATCH member-north", "DELETE secrets"}},
		"east does not give up":         {`"north"`, "", []string{`context "east"`, "ServiceExports still have"}, []string{"DELETE serviceaccounts", "PATCH member-north"}},
		"east does not end the access":  {`"east"`, "DELETE serviceaccounts", []string{`context "east": failed to revoke read access for north`}, []string{"DELETE serviceaccounts", "PATCH member-north"}},
		"east does not expel the other": {`"east"`, "PATCH member-north", []string{`context "east": failed to expel member north`}, []string{"DELETE serviceaccounts", "PATCH member-north"}},
	} {
		t.Run(name, func(t *testing.T) {
			east := commandtest.NewAPIServer(t, "east", hasNorth(test.decidedBy), hasPeer("north"))
			west := commandtest.NewAPIServer(t, "west", hasNorth(`"west"`), hasPeer("north"))
			answer := func(refused string) func(http.ResponseWriter, *http.Request, string) bool {
				return func(w http.ResponseWriter, r *http.Request, write string) bool {
					if write == refused {
						return commandtest.Failing(refused)(w, r, write)
					}
					if r.Method == http.MethodPatch {
						commandtest.Answer(w, http.StatusOK, corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}})
					}
					return r.Method == http.MethodPatch
				}
			}
			east.Refuse, west.Refuse = answer(test.refused), answer("")
			_, _, err := commandtest.Run(t.Context(), "expel", "north", "--from", "east,west", "--timeout", "10ms",
				"--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL, "west": west.URL}))
			if test.want == nil && err != nil {
				t.Fatal(err)
			}
			if test.want != nil {
				expect.Error(t, err, append(test.want, "no member Secret was deleted", "run expel again")...)
			}
			changes := slices.DeleteFunc(west.Written(), func(change string) bool {
				return !slices.Contains([]string{"DELETE serviceaccounts", "PATCH member-north", "DELETE secrets"}, change)
			})
			if !slices.Equal(changes, test.west) {
				t.Errorf("changes of west are %q, want %q", changes, test.west)
			}
			if test.want != nil && slices.Contains(east.Written(), "DELETE secrets") {
				t.Errorf("east deleted the Secret: %q", east.Written())
			}
		})
	}
}
