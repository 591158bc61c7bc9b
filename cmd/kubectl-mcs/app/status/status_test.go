// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
)

func TestFailedClustersDoNotHideOthers(t *testing.T) {
	out, errOut, code := commandtest.Servers{
		{"east", commandtest.Healthy("east")},
		{"bare", commandtest.Serving(nil)},
		{"west", commandtest.Healthy("west")},
		{"strict", commandtest.Refusing(clustertest.Forbidden)},
		{"down", commandtest.Refusing(apierrors.NewServiceUnavailable("no endpoints"))},
		{"locked", commandtest.Refusing(apierrors.NewUnauthorized("no"))},
	}.Run(t, "status", "east", "bare", "west", "strict", "down", "locked", "nowhere")
	if code == 0 {
		t.Error("exit code is 0")
	}
	if want := "error: 5 of 7 clusters could not be queried: bare, strict, down, locked, nowhere\n"; errOut != want {
		t.Errorf("errors %q, want %q", errOut, want)
	}
	var found []string
	for _, line := range strings.Split(out, "\n") {
		if heading, ok := strings.CutPrefix(line, "Context "); ok {
			found = append(found, heading)
		}
	}
	for i, want := range []string{
		"east: cluster east in ClusterSet production",
		"bare: cannot query cluster: mcs-apiserver is not installed, is detached, or did not register its API: install it, attach it with `kubectl mcs attach bare`, check `kubectl --context bare describe deployments -A -l app.kubernetes.io/name=mcs-apiserver`, or choose another context",
		"west: cluster west in ClusterSet production",
		"strict: cannot query cluster: permission denied: ask for a role with this permission",
		"down: cannot query cluster: mcs-apiserver is installed but not available: `kubectl --context down describe deployments -A -l app.kubernetes.io/name=mcs-apiserver` shows its state",
		"locked: cannot query cluster: the kube-apiserver rejects your credentials: log in again",
		`nowhere: cannot query cluster: context "nowhere" does not exist in the kubeconfig`,
	} {
		if i >= len(found) || !strings.HasPrefix(found[i], want) {
			t.Errorf("line %d of %q does not start with %q", i, found, want)
		}
	}
}

func TestUnresponsiveClusterTimesOut(t *testing.T) {
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	unresponsive := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-released:
		}
	}
	out, _, code := commandtest.Servers{{"unresponsive", unresponsive}}.Run(t, "status", "--request-timeout", "50ms")
	if code == 0 || !strings.Contains(out, "Context unresponsive: cannot query cluster: request timed out: check the connection to the cluster") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestUnreachableCluster(t *testing.T) {
	server := httptest.NewServer(nil)
	url := server.URL
	server.Close()
	config := clientcmdapi.NewConfig()
	config.Clusters["gone"], config.Contexts["gone"] = &clientcmdapi.Cluster{Server: url}, &clientcmdapi.Context{Cluster: "gone"}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	if code := app.Main(streams, []string{"status", "gone", "--kubeconfig", path}); code == 0 || !strings.Contains(out.String(), "the kube-apiserver is unreachable: check that it is running") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestStatusOfOneClusterIsAList(t *testing.T) {
	out, errOut, code := commandtest.Servers{{"east", commandtest.Healthy("east")}}.Run(t, "status", "-o", "json")
	if code != 0 || errOut != "" {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	expect.Text(t, `
[
    {
        "context": "east",
        "clusterID": "east",
        "clusterSet": "production",
        "members": [
            {
                "name": "east",
                "state": "Local",
                "exports": 0,
                "endpoints": 0,
                "conflicts": 0
            }
        ]
    }
]
`, out)
}

func TestClustersAreQueriedInParallel(t *testing.T) {
	// Each server responds only after the other has received a request.
	east, west := make(chan struct{}), make(chan struct{})
	meeting := func(id string, arrived, other chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/members") {
				close(arrived)
				select {
				case <-other:
				case <-r.Context().Done():
				}
			}
			commandtest.Healthy(id)(w, r)
		}
	}
	_, errOut, code := commandtest.Servers{{"east", meeting("east", east, west)}, {"west", meeting("west", west, east)}}.Run(t, "status", "east", "west")
	if code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

func TestInvalidFlagsAreRejectedBeforeAnyRequest(t *testing.T) {
	untouched := func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "-o", "xml"}, `--output "xml": must be json or yaml`},
		{[]string{"status", "--request-timeout", "soon"}, `--request-timeout "soon"`},
		{[]string{"export", "web", "--timeout", "0s"}, "--timeout 0s: must be greater than zero"},
		{[]string{"export"}, "kubectl mcs export requires exactly one Service name, got 0"},
		{[]string{"export", "service/web"}, `"service/web" is not a valid Service name`},
		{[]string{"unexport", "a", "b"}, "kubectl mcs unexport requires exactly one Service name, got 2"},
		{[]string{"explain", "web", "-o", "wide"}, `--output "wide": must be json or yaml`},
	} {
		_, errOut, code := commandtest.Servers{{"east", untouched}}.Run(t, test.args...)
		if code == 0 || !strings.Contains(errOut, test.want) {
			t.Errorf("%v: exit code %d, errors %q do not contain %q", test.args, code, errOut, test.want)
		}
	}
}

func TestZeroRequestTimeoutDisablesTheTimeout(t *testing.T) {
	if _, errOut, code := (commandtest.Servers{{"east", commandtest.Healthy("east")}}).Run(t, "status", "--request-timeout", "0"); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
