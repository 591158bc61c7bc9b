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

func TestClustersAreShownAlthoughOthersCannotBeAsked(t *testing.T) {
	out, errOut, code := commandtest.Servers{
		{"east", commandtest.Healthy("east")},
		{"bare", commandtest.Serving(nil)},
		{"west", commandtest.Healthy("west")},
		{"strict", commandtest.Refusing(clustertest.Forbidden)},
		{"down", commandtest.Refusing(apierrors.NewServiceUnavailable("no endpoints"))},
		{"locked", commandtest.Refusing(apierrors.NewUnauthorized("no"))},
	}.Run(t, "status", "east", "bare", "west", "strict", "down", "locked", "nowhere")
	if code == 0 {
		t.Error("the exit code is 0")
	}
	if want := "error: 5 of 7 clusters could not be asked: bare, strict, down, locked, nowhere\n"; errOut != want {
		t.Errorf("errors %q, want %q", errOut, want)
	}
	var found []string
	for _, line := range strings.Split(out, "\n") {
		if heading, ok := strings.CutPrefix(line, "Context "); ok {
			found = append(found, heading)
		}
	}
	for i, want := range []string{
		"east: cluster east of ClusterSet production",
		"bare: cannot be asked: mcs-apiserver is not installed there: install it, or choose another context",
		"west: cluster west of ClusterSet production",
		"strict: cannot be asked: you may not do that: ask for a role that allows it",
		"down: cannot be asked: mcs-apiserver is installed but does not answer: `kubectl --context down describe deployment -n mcs-system mcs-apiserver` may tell why",
		"locked: cannot be asked: its kube-apiserver does not accept your credential: log in again",
		`nowhere: cannot be asked: there is no context "nowhere" in the kubeconfig`,
	} {
		if i >= len(found) || !strings.HasPrefix(found[i], want) {
			t.Errorf("line %d of %q does not begin with %q", i, found, want)
		}
	}
}

func TestClusterThatDoesNotAnswerIsGivenUp(t *testing.T) {
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	silent := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-released:
		}
	}
	out, _, code := commandtest.Servers{{"silent", silent}}.Run(t, "status", "--request-timeout", "50ms")
	if code == 0 || !strings.Contains(out, "Context silent: cannot be asked: no answer in time: check that you can reach the cluster") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestClusterThatIsNotThereCannotBeReached(t *testing.T) {
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
	if code := app.Main(streams, []string{"status", "gone", "--kubeconfig", path}); code == 0 || !strings.Contains(out.String(), "its kube-apiserver cannot be reached: check that it runs") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestStatusIsAListAlsoOfOneCluster(t *testing.T) {
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

func TestStatusAsksAllClustersAtOnce(t *testing.T) {
	// Each answers only after the other has been asked.
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

func TestUnusableFlagsAreRefusedBeforeAnythingIsAsked(t *testing.T) {
	untouched := func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "-o", "xml"}, `--output "xml": must be json or yaml`},
		{[]string{"status", "--request-timeout", "soon"}, `--request-timeout "soon"`},
		{[]string{"export", "web", "--timeout", "0s"}, "--timeout 0s: must be more than zero"},
		{[]string{"export"}, "kubectl mcs export takes the name of one Service, and was given 0"},
		{[]string{"export", "service/web"}, `"service/web" cannot be the name of a Service`},
		{[]string{"unexport", "a", "b"}, "kubectl mcs unexport takes the name of one Service, and was given 2"},
		{[]string{"explain", "web", "-o", "wide"}, `--output "wide": must be json or yaml`},
	} {
		_, errOut, code := commandtest.Servers{{"east", untouched}}.Run(t, test.args...)
		if code == 0 || !strings.Contains(errOut, test.want) {
			t.Errorf("%v: exit code %d, errors %q, want %q in it", test.args, code, errOut, test.want)
		}
	}
}

func TestExplicitTimeoutOfZeroIsNone(t *testing.T) {
	if _, errOut, code := (commandtest.Servers{{"east", commandtest.Healthy("east")}}).Run(t, "status", "--request-timeout", "0"); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
