// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// kubeconfigWith has these contexts, which lead to these servers.
func kubeconfigWith(t *testing.T, servers map[string]string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for name, server := range servers {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// run runs a command as Main does, but for signals.
func run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := NewCommand(streams)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return out.String(), errOut.String(), err
}

// nowhere are contexts of clusters that must not be asked.
func nowhere(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(server.Close)
	return kubeconfigWith(t, map[string]string{"east": server.URL, "north": server.URL, "west": server.URL})
}

func TestWhatCannotBeMeantIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	file := nowhere(t)
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"join nobody", []string{"join", "--clusterset", "s"}, []string{"name at least two contexts", "kubectl config get-contexts"}},
		{"join one", []string{"join", "--clusterset", "s", "east"}, []string{"name at least two contexts"}},
		{"join nothing", []string{"join", "east", "west"}, []string{`required flag(s) "clusterset" not set`}},
		{"join the empty ClusterSet", []string{"join", "--clusterset=", "east", "west"}, []string{"--clusterset must not be empty"}},
		{"join one twice", []string{"join", "--clusterset", "s", "east", "west", "east"}, []string{"context east is named twice"}},
		{"an id for nobody", []string{"join", "--clusterset", "s", "east", "west", "--id", "north=n"}, []string{"--id north=n: the context is not among those that are named"}},
		{"a server for nobody", []string{"join", "--clusterset", "s", "east", "west", "--server", "north=https://n"}, []string{"--server north=https://n: the context is not among those that are named"}},
		{"no plan to print", []string{"join", "--clusterset", "s", "east", "west", "-o", "json"}, []string{"--output is for the plan that --dry-run shows"}},
		{"no such format", []string{"join", "--clusterset", "s", "east", "west", "--dry-run", "-o", "xml"}, []string{`--output "xml": must be json or yaml`}},
		{"no time to wait", []string{"join", "--clusterset", "s", "east", "west", "--timeout", "0s"}, []string{"--timeout 0s: must be more than zero"}},
		{"less than no time to wait", []string{"join", "--clusterset", "s", "east", "west", "--timeout", "-1s"}, []string{"--timeout -1s: must be more than zero"}},
		{"no such time", []string{"join", "--clusterset", "s", "east", "west", "--request-timeout", "soon"}, []string{`--request-timeout "soon": `}},
		{"all of it", []string{"join", "--clusterset=", "east", "east", "--id", "north=n", "--server", "south=s", "-o", "json"},
			[]string{"--clusterset must not be empty", "named twice", "--id north=n", "--server south=s", "--output is for the plan"}},
		{"leave without a cluster", []string{"leave"}, []string{"name the one context whose cluster is to leave", "0 are named"}},
		{"two leave", []string{"leave", "east", "west"}, []string{"name the one context whose cluster is to leave, and the others with --from; 2 are named"}},
		{"no plan of leaving to print", []string{"leave", "east", "-o", "yaml"}, []string{"--output is for the plan that --dry-run shows"}},
		{"no such format of leaving", []string{"leave", "east", "--dry-run", "-o", "wide"}, []string{`--output "wide": must be json or yaml`}},
		{"no such contexts", []string{"join", "--clusterset", "s", "south", "center"},
			[]string{`there is no context "south" in the kubeconfig: ` + "`kubectl config get-contexts`", `there is no context "center"`}},
		{"no such context to leave", []string{"leave", "south"}, []string{`there is no context "south" in the kubeconfig`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _, err := run(t.Context(), append(test.args, "--kubeconfig", file)...)
			expectError(t, err, test.want...)
			if out != "" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

func TestContextsAreOffered(t *testing.T) {
	file := nowhere(t)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"the first to join", []string{"join", "--clusterset", "s", ""}, "east north west :4"},
		{"the next to join", []string{"join", "--clusterset", "s", "north", ""}, "east west :4"},
		{"the one to leave", []string{"leave", ""}, "east north west :4"},
		{"nobody else to leave", []string{"leave", "east", ""}, ":4"},
		{"those to leave", []string{"leave", "east", "--from", ""}, "north west :4"},
		{"more of those to leave", []string{"leave", "east", "--from", "north,"}, "north,west :4"},
		{"more of those to leave, half named", []string{"leave", "center", "--from", "north,we"}, "north,east north,west :4"},
		{"others to leave", []string{"leave", "east", "--from", "north", "--from", ""}, "west :4"},
		{"formats", []string{"join", "-o", ""}, "json yaml :4"},
		{"the context", []string{"status", "--context", ""}, "east north west :4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _, err := run(t.Context(), append([]string{"__complete", "--kubeconfig", file}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(out), " "); got != test.want {
				t.Errorf("offered %q, want %q", got, test.want)
			}
		})
	}
}

// apiServer is a kube-apiserver with mcs-apiserver, in which nobody is a member
// yet. It stores nothing.
type apiServer struct {
	*httptest.Server
	// refuse fails writes, named as "POST roles"; nil for those that succeed.
	refuse func(w http.ResponseWriter, r *http.Request, write string) bool

	mu     sync.Mutex
	writes []string
}

func list(version, kind string, items ...any) any {
	return map[string]any{"apiVersion": version, "kind": kind + "List", "items": items}
}

const apiServicePath = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.clusterset.mcs-apiserver.io"

func notInstalled(objects map[string]any) { delete(objects, apiServicePath) }

// knowing has a member in touch.
func knowing(id string) func(map[string]any) {
	return func(objects map[string]any) {
		objects[clusterSetPath+"members"] = list("clusterset.mcs-apiserver.io/v1alpha1", "Member", newMember(id, clustersetv1alpha1.MemberConnected))
	}
}

func newAPIServer(t *testing.T, context string, changes ...func(objects map[string]any)) *apiServer {
	t.Helper()
	const namespaced, rbac = "/api/v1/namespaces/mcs-system/", "/apis/rbac.authorization.k8s.io/v1/"
	objects := map[string]any{
		apiServicePath: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": map[string]any{"service": map[string]string{"namespace": "mcs-system", "name": "mcs-apiserver"}},
		},
		"/api/v1/namespaces/kube-system": map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "kube-system", "uid": "uid-" + context}},
		"/apis/multicluster.k8s.io/v1/clusterclaims": list("multicluster.k8s.io/v1", "ClusterClaim",
			map[string]any{"metadata": map[string]string{"name": "id.k8s.io"}, "spec": map[string]string{"value": context}}),
		clusterSetPath + "members":                  list("clusterset.mcs-apiserver.io/v1alpha1", "Member"),
		namespaced + "secrets":                      list("v1", "Secret"),
		"/api/v1/nodes":                             list("v1", "Node"),
		namespaced + "serviceaccounts":              list("v1", "ServiceAccount"),
		rbac + "clusterrolebindings":                list("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
		rbac + "namespaces/mcs-system/roles":        list("rbac.authorization.k8s.io/v1", "Role"),
		rbac + "namespaces/mcs-system/rolebindings": list("rbac.authorization.k8s.io/v1", "RoleBinding"),
	}
	for _, change := range changes {
		change(objects)
	}
	s := &apiServer{}
	read := serving(objects)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			read(w, r)
			return
		}
		s.write(t, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// write answers with what was written.
func (s *apiServer) write(t *testing.T, w http.ResponseWriter, r *http.Request) {
	write := r.Method + " " + path.Base(r.URL.Path)
	if r.Method == http.MethodDelete {
		write = r.Method + " " + path.Base(path.Dir(r.URL.Path))
	}
	s.mu.Lock()
	s.writes = append(s.writes, write)
	refuse := s.refuse
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body) // without that a server does not notice that a client has gone
	if err != nil {
		t.Error(err)
	}
	if refuse != nil && refuse(w, r, write) {
		return
	}
	if r.Method == http.MethodDelete {
		answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		return
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		t.Errorf("%s: %v", write, err)
		return
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	answer(w, http.StatusCreated, object)
}

// written are the writes so far.
func (s *apiServer) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// failing refuses some writes.
func failing(writes ...string) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, _ *http.Request, write string) bool {
		if !slices.Contains(writes, write) {
			return false
		}
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: write}, "x", nil)
		refusal.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer(w, http.StatusForbidden, refusal.ErrStatus)
		return true
	}
}

// joining are the arguments to join east and west.
func joining(t *testing.T, east, west *apiServer, more ...string) []string {
	t.Helper()
	return append([]string{
		"join", "east", "west", "--clusterset", "production", "--kubeconfig", kubeconfigWith(t, map[string]string{"east": east.URL, "west": west.URL}),
		"--server", "east=https://east.example:6443", "--server", "west=https://west.example:6443",
	}, more...)
}

func TestPlanIsShownAndNothingDone(t *testing.T) {
	east, west := newAPIServer(t, "east", knowing("north")), newAPIServer(t, "west")
	out, warnings, err := run(t.Context(), joining(t, east, west, "--dry-run", "--id", "west=w")...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(warnings, `warning: "north" is a member of east and is not named`) {
		t.Errorf("warnings %q", warnings)
	}
	expectText(t, `
What is to be done:
  west: claim the id "w"
  east: let w read what is exported
  west: let east read what is exported
  east: add w as a member
  west: add east as a member
  east: join the ClusterSet "production"
  west: join the ClusterSet "production"
  east: wait for w
  west: wait for east

`, out)

	out, _, err = run(t.Context(), joining(t, east, west, "--dry-run", "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var got plan.Plan
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(got.Steps) != 8 || !slices.ContainsFunc(got.Steps, func(step plan.Step) bool {
		return cmp.Equal(step, plan.Step{Context: "east", Action: plan.AddMembers, Peers: []string{"west"}})
	}) {
		t.Errorf("got %+v", got)
	}
	if writes := append(east.written(), west.written()...); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

func TestEverythingThatIsWrongIsSaidAndNothingDone(t *testing.T) {
	east, west := newAPIServer(t, "east"), newAPIServer(t, "west")
	args := slices.DeleteFunc(joining(t, east, west, "--id", "west=east"), func(arg string) bool { return strings.HasPrefix(arg, "west=https") || arg == "--server" })
	args = append(slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "east=https") }), "--server", "east=https://localhost")
	_, _, err := run(t.Context(), args...)
	expectError(t, err, "cannot be joined, and nothing was changed", `both clusters have the id "east"`, "context east: its server https://localhost is on your machine", "context west: its server \"http://127.0.0.1")
	if writes := append(east.written(), west.written()...); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

func TestClustersThatCannotBeJoinedYetAreAllNamed(t *testing.T) {
	east, west := newAPIServer(t, "east", notInstalled), newAPIServer(t, "west")
	args := joining(t, east, west)
	west.Close()
	_, _, err := run(t.Context(), args...)
	expectError(t, err, `context "east": `, "is not installed there", `context "west": its kube-apiserver cannot be reached`)
}

func TestFailureIsUndoneOrSaysWhatIsLeft(t *testing.T) {
	for _, test := range []struct {
		name       string
		east, west []string
		want       []string
		not        string
		// deleted are the writes that undo, in east and in west.
		deleted [2][]string
	}{
		{
			name: "undone", west: []string{"POST roles"},
			want:    []string{"context west could not let east read what is exported", "everything that was done has been undone"},
			not:     "not everything",
			deleted: [2][]string{{"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts"}, {"DELETE clusterrolebindings", "DELETE serviceaccounts"}},
		},
		{
			name: "nothing to undo", east: []string{"POST serviceaccounts"},
			want: []string{"context east could not let west read what is exported", "everything that was done has been undone"},
		},
		{
			name: "something is left", west: []string{"POST roles"}, east: []string{"DELETE roles", "DELETE serviceaccounts"},
			want: []string{
				"context west could not let east read what is exported", "not everything could be undone", "repeat join when the cause is gone, or clean up with `kubectl mcs leave`",
				"\neast: let west read what is exported: ", "DELETE roles", "DELETE serviceaccounts",
			},
			not:     "everything that was done has been undone",
			deleted: [2][]string{{"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts"}, {"DELETE clusterrolebindings", "DELETE serviceaccounts"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			east, west := newAPIServer(t, "east"), newAPIServer(t, "west")
			east.refuse, west.refuse = failing(test.east...), failing(test.west...)
			_, _, err := run(t.Context(), joining(t, east, west)...)
			expectError(t, err, test.want...)
			if test.not != "" && strings.Contains(err.Error(), test.not) {
				t.Errorf("error %q, want no %q in it", err, test.not)
			}
			for i, server := range []*apiServer{east, west} {
				deleted := slices.DeleteFunc(server.written(), func(write string) bool { return !strings.HasPrefix(write, http.MethodDelete) })
				if !slices.Equal(deleted, test.deleted[i]) {
					t.Errorf("undone by %v, want %v", deleted, test.deleted[i])
				}
			}
		})
	}
}

// R99: nothing half-joined stays, also of somebody who changes his mind.
func TestInterruptIsUndone(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	east, west := newAPIServer(t, "east"), newAPIServer(t, "west")
	west.refuse = func(_ http.ResponseWriter, r *http.Request, write string) bool {
		if write != "POST serviceaccounts" {
			return false
		}
		interrupt()
		<-r.Context().Done()
		return true
	}
	out, _, err := run(ctx, joining(t, east, west)...)
	expectError(t, err, "context west could not let east read what is exported", "context canceled", "everything that was done has been undone")
	if !strings.Contains(out, "✓ undo east: let west read what is exported") {
		t.Errorf("printed %q", out)
	}
	want := []string{
		"POST serviceaccounts", "POST clusterrolebindings", "POST roles", "POST rolebindings",
		"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts",
	}
	if diff := cmp.Diff(want, east.written()); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

func TestLeavingWithNothingToDoSaysSo(t *testing.T) {
	east, west := newAPIServer(t, "east"), newAPIServer(t, "west")
	out, _, err := run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", kubeconfigWith(t, map[string]string{"east": east.URL, "west": west.URL}))
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, "The cluster is in no ClusterSet, and nothing is left of one.\n", out)
	out, _, err = run(t.Context(), "leave", "east", "--from", "west", "--kubeconfig", kubeconfigWith(t, map[string]string{"east": east.URL, "west": west.URL}), "--dry-run", "-o", "json")
	if err != nil || !strings.Contains(out, `"steps": []`) {
		t.Errorf("as JSON: %s (%v)", out, err)
	}
	if writes := append(east.written(), west.written()...); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}
