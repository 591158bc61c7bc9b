// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// nowhere are contexts of clusters that must not be asked.
func nowhere(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(server.Close)
	return commandtest.Kubeconfig(t, map[string]string{"east": server.URL, "north": server.URL, "west": server.URL})
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
			out, _, err := commandtest.Run(t.Context(), append(test.args, "--kubeconfig", file)...)
			expect.Error(t, err, test.want...)
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
			out, _, err := commandtest.Run(t.Context(), append([]string{"__complete", "--kubeconfig", file}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(out), " "); got != test.want {
				t.Errorf("offered %q, want %q", got, test.want)
			}
		})
	}
}

func TestPlanIsShownAndNothingDone(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", commandtest.Knowing("north")), commandtest.NewAPIServer(t, "west")
	out, warnings, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--dry-run", "--id", "west=w")...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(warnings, `warning: "north" is a member of east and is not named`) {
		t.Errorf("warnings %q", warnings)
	}
	expect.Text(t, `
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

	out, _, err = commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--dry-run", "-o", "json")...)
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
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

func TestEverythingThatIsWrongIsSaidAndNothingDone(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	args := slices.DeleteFunc(commandtest.Joining(t, east, west, "--id", "west=east"), func(arg string) bool { return strings.HasPrefix(arg, "west=https") || arg == "--server" })
	args = append(slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "east=https") }), "--server", "east=https://localhost")
	_, _, err := commandtest.Run(t.Context(), args...)
	expect.Error(t, err, "cannot be joined, and nothing was changed", `both clusters have the id "east"`, "context east: its server https://localhost is on your machine", "context west: its server \"http://127.0.0.1")
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

func TestClustersThatCannotBeJoinedYetAreAllNamed(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", commandtest.NotInstalled), commandtest.NewAPIServer(t, "west")
	args := commandtest.Joining(t, east, west)
	west.Close()
	_, _, err := commandtest.Run(t.Context(), args...)
	expect.Error(t, err, `context "east": `, "is not installed there", `context "west": its kube-apiserver cannot be reached`)
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
			east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
			east.Refuse, west.Refuse = commandtest.Failing(test.east...), commandtest.Failing(test.west...)
			_, _, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west)...)
			expect.Error(t, err, test.want...)
			if test.not != "" && strings.Contains(err.Error(), test.not) {
				t.Errorf("error %q, want no %q in it", err, test.not)
			}
			for i, server := range []*commandtest.APIServer{east, west} {
				deleted := slices.DeleteFunc(server.Written(), func(write string) bool { return !strings.HasPrefix(write, http.MethodDelete) })
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
	east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	west.Refuse = func(_ http.ResponseWriter, r *http.Request, write string) bool {
		if write != "POST serviceaccounts" {
			return false
		}
		interrupt()
		<-r.Context().Done()
		return true
	}
	out, _, err := commandtest.Run(ctx, commandtest.Joining(t, east, west)...)
	expect.Error(t, err, "context west could not let east read what is exported", "context canceled", "everything that was done has been undone")
	if !strings.Contains(out, "✓ undo east: let west read what is exported") {
		t.Errorf("printed %q", out)
	}
	want := []string{
		"POST serviceaccounts", "POST clusterrolebindings", "POST roles", "POST rolebindings",
		"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts",
	}
	if diff := cmp.Diff(want, east.Written()); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}
