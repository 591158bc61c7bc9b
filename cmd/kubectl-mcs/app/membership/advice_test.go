// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
)

// The advice depends on the request and on the server that failed.
func TestAdviceDependsOnTheRequest(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
	unavailable := apierrors.NewServiceUnavailable("not now")
	for _, test := range []struct {
		path string
		err  *apierrors.StatusError
		want string
	}{
		{"/api/v1/namespaces/mcs-system/secrets", forbidden, "commands that change the members of a cluster require cluster-admin permissions"},
		{commandtest.ClusterSetPath + "members", forbidden, "commands that change the members of a cluster require cluster-admin permissions"},
		{"/api/v1/namespaces/mcs-system/secrets", unavailable, "the kube-apiserver failed: try again; `kubectl --context east get --raw '/readyz?verbose'` shows its state"},
		{"/api/v1/namespaces/kube-system", unavailable, "the kube-apiserver failed"},
		{"/apis/multicluster.k8s.io/v1/clusterclaims", unavailable, "mcs-apiserver is installed but not available: `kubectl --context east describe deployment"},
		{commandtest.ClusterSetPath + "members", unavailable, "mcs-apiserver is installed but not available"},
	} {
		for _, command := range []string{"join", "leave"} {
			east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
			failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == test.path {
					commandtest.Refusing(test.err)(w, r)
					return
				}
				east.Config.Handler.ServeHTTP(w, r)
			}))
			t.Cleanup(failing.Close)
			args := []string{"leave", "east", "--from", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": failing.URL, "west": west.URL})}
			if command == "join" {
				east.URL = failing.URL
				args = commandtest.Joining(t, east, west)
			}
			_, _, err := commandtest.Run(t.Context(), args...)
			if err == nil || !strings.HasPrefix(err.Error(), `context "east": `) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "view or edit") {
				t.Errorf("%s: request to %s failed with %v, want %q", command, test.path, err, test.want)
			}
		}
	}
}
