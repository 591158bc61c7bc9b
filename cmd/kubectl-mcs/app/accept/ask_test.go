// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package accept_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/accept"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R420: the inviting cluster is asked whether it is the one of the invitation, if it can be.
func TestInvitingClusterIsAsked(t *testing.T) {
	token := commandtest.Token("peer-west", time.Now().Add(time.Hour))
	knowing := func(uid types.UID) http.HandlerFunc {
		local := clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = "uid-east" })
		known := clustertest.NewMember("west", "", func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = uid })
		return commandtest.Serving(map[string]any{commandtest.ClusterSetPath + "members": commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", local, known)})
	}
	listing := func(changes ...func(*clustersetv1alpha1.MemberStatus)) http.HandlerFunc {
		member := clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, append([]func(*clustersetv1alpha1.MemberStatus){func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = "uid-east" }}, changes...)...)
		return commandtest.Serving(map[string]any{commandtest.ClusterSetPath + "members": commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", member)})
	}
	unauthorized := apierrors.NewUnauthorized("no")
	unauthorized.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	for _, test := range []struct {
		name          string
		server        http.HandlerFunc
		warning, want string
	}{
		{name: "the same", server: listing()},
		{name: "another ID", server: listing(func(s *clustersetv1alpha1.MemberStatus) { s.ClusterID = "north" }), want: `leads to a cluster with the cluster ID "north", but says "east"`},
		{name: "another ClusterSet", server: listing(func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSet = "staging" }), want: `leads to a cluster with the ClusterSet "staging", but says "production"`},
		{name: "another UID", server: listing(func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = "other" }), want: `leads to a cluster with the cluster UID "other", but says "uid-east"`},
		{name: "knows this cluster", server: knowing("uid-west")},
		{name: "knows this cluster, not its UID", server: knowing("")},
		{name: "knows another cluster", server: knowing("uid-other"), want: `cluster east has another member with the ID "west" (UID "uid-other") than this cluster (UID "uid-west")`},
		{name: "does not list itself", server: listing(func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberConnected }), warning: "does not list itself"},
		{name: "rejects the token", server: commandtest.Refusing(unauthorized), want: "cluster east rejects the token of the invitation: ask for another one"},
		{name: "not installed", server: http.NotFound, warning: "cannot be asked from here"},
		{name: "redirects", server: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.invalid", http.StatusFound)
		}, warning: "redirect"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+token {
					t.Errorf("got %q", r.Header.Get("Authorization"))
				}
				test.server(w, r)
			}))
			defer server.Close()
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			invitation, err := plan.NewInvitation("mcs-system", "production", plan.Membership{
				ID: "east", UID: "uid-east", Access: plan.Access{Server: server.URL, CA: string(authority)}, Token: token, Secret: "member-east",
			})
			if err != nil {
				t.Fatal(err)
			}
			warning, err := accept.Ask(t.Context(), invitation, plan.Cluster{ID: "west", UID: "uid-west"})
			if (test.warning == "") != (warning == "") || !strings.Contains(warning, test.warning) {
				t.Errorf("got warning %q, want %q", warning, test.warning)
			}
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
