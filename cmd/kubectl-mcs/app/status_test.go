// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// servers are kube-apiservers by context. The first is the current one.
type servers []struct {
	context string
	handler http.HandlerFunc
}

// run runs a command for contexts that lead to the servers.
func (s servers) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = s[0].context
	for _, server := range s {
		started := httptest.NewServer(server.handler)
		t.Cleanup(started.Close)
		config.Clusters[server.context] = &clientcmdapi.Cluster{Server: started.URL}
		config.Contexts[server.context] = &clientcmdapi.Context{Cluster: server.context, Namespace: "shop"}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, path)
	code = Main(streams, args)
	return out.String(), errOut.String(), code
}

// serving answers with objects by path, and that nothing is there otherwise.
func serving(objects map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		object, ok := objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		answer(w, http.StatusOK, object)
	}
}

func refusing(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, int(err.ErrStatus.Code), err.ErrStatus) }
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(err)
	}
}

const clusterSetPath = "/apis/clusterset.mcs-apiserver.io/v1alpha1/"

func typed(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: clustersetv1alpha1.SchemeGroupVersion.String(), Kind: kind}
}

// healthy is a cluster of a ClusterSet.
func healthy(id string) http.HandlerFunc {
	return serving(map[string]any{
		clusterSetPath + "members": clustersetv1alpha1.MemberList{
			TypeMeta: typed("MemberList"), Items: []clustersetv1alpha1.Member{*newMember(id, clustersetv1alpha1.MemberLocal)},
		},
		clusterSetPath + "exportedservices": clustersetv1alpha1.ExportedServiceList{TypeMeta: typed("ExportedServiceList")},
	})
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{Group: clustersetv1alpha1.SchemeGroupVersion.Group, Resource: "members"}, "", nil)

func TestClustersAreShownAlthoughOthersCannotBeAsked(t *testing.T) {
	out, errOut, code := servers{
		{"east", healthy("east")},
		{"bare", serving(nil)},
		{"west", healthy("west")},
		{"strict", refusing(forbidden)},
		{"down", refusing(apierrors.NewServiceUnavailable("no endpoints"))},
		{"locked", refusing(apierrors.NewUnauthorized("no"))},
	}.run(t, "status", "east", "bare", "west", "strict", "down", "locked", "nowhere")
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
	out, _, code := servers{{"silent", silent}}.run(t, "status", "--request-timeout", "50ms")
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
	if code := Main(streams, []string{"status", "gone", "--kubeconfig", path}); code == 0 || !strings.Contains(out.String(), "its kube-apiserver cannot be reached: check that it runs") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestStatusIsAListAlsoOfOneCluster(t *testing.T) {
	out, errOut, code := servers{{"east", healthy("east")}}.run(t, "status", "-o", "json")
	if code != 0 || errOut != "" {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	expectText(t, `
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
			healthy(id)(w, r)
		}
	}
	_, errOut, code := servers{{"east", meeting("east", east, west)}, {"west", meeting("west", west, east)}}.run(t, "status", "east", "west")
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
		_, errOut, code := servers{{"east", untouched}}.run(t, test.args...)
		if code == 0 || !strings.Contains(errOut, test.want) {
			t.Errorf("%v: exit code %d, errors %q, want %q in it", test.args, code, errOut, test.want)
		}
	}
}

func TestExplicitTimeoutOfZeroIsNone(t *testing.T) {
	if _, errOut, code := (servers{{"east", healthy("east")}}).run(t, "status", "--request-timeout", "0"); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
