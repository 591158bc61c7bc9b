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

// What to do depends on what was asked for, and of whom.
func TestAdviceIsAboutWhatWasAskedFor(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
	broken := apierrors.NewServiceUnavailable("not now")
	for _, test := range []struct {
		path string
		err  *apierrors.StatusError
		want string
	}{
		{"/api/v1/namespaces/mcs-system/secrets", refused, "joining and leaving take the rights of a cluster-admin"},
		{commandtest.ClusterSetPath + "members", refused, "joining and leaving take the rights of a cluster-admin"},
		{"/api/v1/namespaces/mcs-system/secrets", broken, "its kube-apiserver has failed: try again; `kubectl --context east get --raw '/readyz?verbose'` may tell why"},
		{"/api/v1/namespaces/kube-system", broken, "its kube-apiserver has failed"},
		{"/apis/multicluster.k8s.io/v1/clusterclaims", broken, "mcs-apiserver is installed but does not answer: `kubectl --context east describe deployment"},
		{commandtest.ClusterSetPath + "members", broken, "mcs-apiserver is installed but does not answer"},
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
				t.Errorf("%s: %s fails: %v, want %q", command, test.path, err, test.want)
			}
		}
	}
}
