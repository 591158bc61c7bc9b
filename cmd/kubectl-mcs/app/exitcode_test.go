// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// knowing is the cluster east with members whose state does not change.
func knowing(members ...any) http.HandlerFunc {
	version := clustersetv1alpha1.SchemeGroupVersion.String()
	serving := commandtest.Serving(map[string]any{
		commandtest.ClusterSetPath + "members":            commandtest.List(version, "Member", append(members, clustertest.NewMember("east", clustersetv1alpha1.MemberLocal))...),
		commandtest.ClusterSetPath + "exportedservices":   commandtest.List(version, "ExportedService"),
		"/apis/apiregistration.k8s.io/v1/apiservices":     commandtest.List("apiregistration.k8s.io/v1", "APIService"),
		"/apis/apps/v1/namespaces/mcs-system/deployments": commandtest.List("apps/v1", "Deployment"),
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			serving(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// R567, R569: exit codes tell what is not as it should be from what could not be found out.
func TestExitCodes(t *testing.T) {
	stale := clustertest.NewMember("west", clustersetv1alpha1.MemberStale)
	unavailable := commandtest.Refusing(apierrors.NewServiceUnavailable("no endpoints"))
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		args    string
		code    int
		want    string
	}{
		{"connected", knowing(clustertest.NewMember("west", clustersetv1alpha1.MemberConnected)), "status --wait", 0, ""},
		{"stale", knowing(stale), "status --wait --timeout 300ms", 1, "clusters are not connected in time: cluster east: member west is Stale"},
		{"stale without waiting", knowing(stale), "status", 0, ""},
		{"unavailable", unavailable, "status --wait --timeout 300ms", 2, "mcs-apiserver is installed but not available"},
		{"unavailable without waiting", unavailable, "status", 1, "could not be queried"},
		{"no context", knowing(), "status --wait nowhere", 2, `context "nowhere" does not exist`},
		{"wrong time", knowing(), "status --wait --timeout 0s", 2, "--timeout 0s: must be greater than zero"},
		{"wait and watch", knowing(), "status --wait --watch", 2, "exclude each other"},
		{"no unit", knowing(), "status --wait --timeout 5", 2, "invalid argument"},
		{"test without API", unavailable, "test", 2, "mcs-apiserver is installed but not available"},
		{"test without context", knowing(), "test nowhere", 2, `context "nowhere" does not exist`},
		{"test with a wrong flag", knowing(), "test --nonsense", 2, "unknown flag"},
		{"test with a wrong time", knowing(), "test --timeout 0s", 2, "--timeout 0s: must be positive"},
		{"test with flags that exclude each other", knowing(), "test --keep --cleanup", 2, "exclude each other"},
		{"test of a run", knowing(), "test --run x", 2, "--run is for --cleanup"},
		{"cleanup of a wrong run", knowing(), "test --cleanup --run x,y", 2, "is not the ID of a run"},
		{"test without image", knowing(), "test", 2, "choose one with --image"},
		{"test without permission", knowing(), "test --image x", 2, "create namespace mcs-test-"},
		{"test of one cluster twice", knowing(), "test east again --image x", 2, `contexts "again" and "east" are both of cluster east`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, errOut, code := commandtest.Servers{{Context: "east", Handler: test.handler}, {Context: "again", Handler: test.handler}}.Run(t, strings.Fields(test.args)...)
			if code != test.code || !strings.Contains(errOut, test.want) || code == 0 && errOut != "" {
				t.Errorf("exit code %d, errors %q, output:\n%s", code, errOut, out)
			}
		})
	}
}
