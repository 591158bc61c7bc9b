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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// withoutRequests writes a kubeconfig for clusters that must not get requests.
func withoutRequests(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }))
	t.Cleanup(server.Close)
	return commandtest.Kubeconfig(t, map[string]string{"east": server.URL, "north": server.URL, "west": server.URL})
}

func TestInvalidArgumentsAreRejectedBeforeAnyRequest(t *testing.T) {
	file := withoutRequests(t)
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"join without contexts", []string{"join", "--clusterset", "s"}, []string{"at least two contexts are required", "kubectl config get-contexts"}},
		{"join one context", []string{"join", "--clusterset", "s", "east"}, []string{"at least two contexts are required"}},
		{"join without a ClusterSet", []string{"join", "east", "west"}, []string{`required flag(s) "clusterset" not set`}},
		{"join with an empty ClusterSet", []string{"join", "--clusterset=", "east", "west"}, []string{"--clusterset must not be empty"}},
		{"join with a duplicate context", []string{"join", "--clusterset", "s", "east", "west", "east"}, []string{`context "east" is given more than once`}},
		{"ID of another context", []string{"join", "--clusterset", "s", "east", "west", "--id", "north=n"}, []string{`--id north=n: context "north" is not among the arguments`}},
		{"server of another context", []string{"join", "--clusterset", "s", "east", "west", "--server", "north=https://n"}, []string{`--server north=https://n: context "north" is not among the arguments`}},
		{"allowed CIDRs of another context", []string{"join", "--clusterset", "s", "east", "west", "--allowed-cidrs", "north=10.0.0.0/8"}, []string{`--allowed-cidrs north=10.0.0.0/8: context "north" is not among the arguments`}},
		{"hub that is not among the arguments", []string{"join", "--clusterset", "s", "east", "west", "--hub", "north"}, []string{"--hub north: the context is not among the arguments"}},
		{"allowed CIDRs of no context", []string{"join", "--clusterset", "s", "east", "west", "--allowed-cidrs", "10.0.0.0/8"}, []string{`--allowed-cidrs 10.0.0.0/8: must be of the form CONTEXT=CIDR,...`}},
		{"allowed CIDRs that are none", []string{"join", "--clusterset", "s", "east", "west", "--allowed-cidrs", "west=10.101.0.0,10.102.0.1/16", "--allowed-cidrs", "east="},
			[]string{`"10.101.0.0" must be a CIDR, such as 10.101.0.0/16`, `"10.102.0.1/16" has bits beyond its prefix, use 10.102.0.0/16`, "--allowed-cidrs east=: must be of the form"}},
		{"join with output format, but without dry run", []string{"join", "--clusterset", "s", "east", "west", "-o", "json"}, []string{"--output requires --dry-run"}},
		{"join with invalid output format", []string{"join", "--clusterset", "s", "east", "west", "--dry-run", "-o", "xml"}, []string{`--output "xml": must be json or yaml`}},
		{"join with zero timeout", []string{"join", "--clusterset", "s", "east", "west", "--timeout", "0s"}, []string{"--timeout 0s: must be greater than zero"}},
		{"join with negative timeout", []string{"join", "--clusterset", "s", "east", "west", "--timeout", "-1s"}, []string{"--timeout -1s: must be greater than zero"}},
		{"join with invalid request timeout", []string{"join", "--clusterset", "s", "east", "west", "--request-timeout", "soon"}, []string{`--request-timeout "soon": `}},
		{"all errors at once", []string{"join", "--clusterset=", "east", "east", "--id", "north=n", "--server", "south=s", "-o", "json"},
			[]string{"--clusterset must not be empty", "given more than once", "--id north=n", "--server south=s", "--output requires --dry-run"}},
		{"leave without a context", []string{"leave"}, []string{"exactly one context is required, got 0"}},
		{"leave with two contexts", []string{"leave", "east", "west"}, []string{"exactly one context is required, got 2: name the other clusters after --from, separated by commas"}},
		{"expel without a cluster", []string{"expel"}, []string{"exactly one cluster ID is required, got 0: name the other clusters after --from"}},
		{"expel with two clusters", []string{"expel", "east", "west"}, []string{"exactly one cluster ID is required, got 2: name the other clusters after --from"}},
		{"join with a namespace", []string{"join", "--clusterset", "s", "east", "west", "-n", "mcs"}, []string{"--namespace has no effect on kubectl mcs join"}},
		{"leave with a namespace", []string{"leave", "east", "-n", "mcs"}, []string{"--namespace has no effect on kubectl mcs leave"}},
		{"dns with a namespace", []string{"dns", "check", "--namespace", "mcs"}, []string{"--namespace has no effect on kubectl mcs dns check"}},
		{"leave with output format, but without dry run", []string{"leave", "east", "-o", "yaml"}, []string{"--output requires --dry-run"}},
		{"leave with invalid output format", []string{"leave", "east", "--dry-run", "-o", "wide"}, []string{`--output "wide": must be json or yaml`}},
		{"join with unknown contexts", []string{"join", "--clusterset", "s", "south", "center"},
			[]string{`context "south" does not exist in the kubeconfig: ` + "`kubectl config get-contexts`", `context "center" does not exist`}},
		{"leave with an unknown context", []string{"leave", "south"}, []string{`context "south" does not exist in the kubeconfig`, `cluster "south" can only be removed from other clusters: name their contexts with --from`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _, err := commandtest.Run(t.Context(), append(test.args, "--kubeconfig", file)...)
			expect.Error(t, err, test.want...)
			if out != "" {
				t.Errorf("unexpected output %q", out)
			}
		})
	}
}

func TestCompletionOfContexts(t *testing.T) {
	file := withoutRequests(t)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"first context to join", []string{"join", "--clusterset", "s", ""}, "east north west :4"},
		{"next context to join", []string{"join", "--clusterset", "s", "north", ""}, "east west :4"},
		{"context to leave", []string{"leave", ""}, "east north west :4"},
		{"second context to leave", []string{"leave", "east", ""}, ":4"},
		{"context in --from", []string{"leave", "east", "--from", ""}, "north west :4"},
		{"second context in --from", []string{"leave", "east", "--from", "north,"}, "north,west :4"},
		{"partial context in --from", []string{"leave", "center", "--from", "north,we"}, "north,east north,west :4"},
		{"second --from", []string{"leave", "east", "--from", "north", "--from", ""}, "west :4"},
		{"hub", []string{"join", "east", "west", "--hub", ""}, "east north west :4"},
		{"formats", []string{"join", "-o", ""}, "json yaml :4"},
		{"flag --context", []string{"status", "--context", ""}, "east north west :4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _, err := commandtest.Run(t.Context(), append([]string{"__complete", "--kubeconfig", file}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(out), " "); got != test.want {
				t.Errorf("got completions %q, want %q", got, test.want)
			}
		})
	}
}

func TestDryRunPrintsThePlan(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", commandtest.Knowing("north")), commandtest.NewAPIServer(t, "west")
	out, warnings, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--dry-run", "--id", "west=w")...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(warnings, `Warning: cluster "north" is a member of east but is not among the arguments`) {
		t.Errorf("got warnings %q", warnings)
	}
	const repeated = "`kubectl mcs join --clusterset production east west --server east=https://east.example:6443 --id west=w --server west=https://west.example:6443 --allowed-cidrs "
	if !strings.Contains(warnings, "\nNote: member Secrets have no allowed-cidrs of east (in west), w (in east): ") || !strings.Contains(warnings, repeated) { // R335
		t.Errorf("got notes %q", warnings)
	}
	expect.Text(t, `
Plan:
  west: set cluster ID "w"
  east: grant read access to w
  west: grant read access to east
  east: add member w
  west: add member east
  east: join ClusterSet "production"
  west: join ClusterSet "production"
  east: record when w joined
  west: record when east joined
  east: wait for connection to w
  west: wait for connection to east
`, out)

	out, _, err = commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--dry-run", "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var got plan.Plan
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(got.Steps) != 10 || !slices.ContainsFunc(got.Steps, func(step plan.Step) bool {
		return cmp.Equal(step, plan.Step{Context: "east", Action: plan.AddMembers, Peers: []string{"west"}})
	}) {
		t.Errorf("got %+v", got)
	}
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

// R430: an ID that nobody chose is warned of, unless the user gives one.
func TestGeneratedIDIsWarnedOf(t *testing.T) {
	claiming := func(id, mark string) func(map[string]any) {
		return func(objects map[string]any) {
			objects["/apis/multicluster.k8s.io/v1/clusterclaims"] = commandtest.List("multicluster.k8s.io/v1", "ClusterClaim", map[string]any{
				"metadata": map[string]any{"name": "id.k8s.io", "annotations": map[string]string{multicluster.GeneratedIDAnnotation: mark}}, "spec": map[string]string{"value": id},
			})
		}
	}
	for name, test := range map[string]struct {
		id, mark string
		args     []string
		want     bool
	}{
		"generated":                  {id: "uid-west", mark: "uid-west", want: true},
		"replaced":                   {id: "uid-west", mark: "uid-west", args: []string{"--id", "west=west"}},
		"chosen":                     {id: "west", mark: "uid-west"},
		"chosen by the installation": {id: "west", mark: "west"},
		"the UID, but chosen":        {id: "uid-west"},
	} {
		t.Run(name, func(t *testing.T) {
			east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west", claiming(test.id, test.mark))
			_, warnings, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, append(test.args, "--dry-run")...)...)
			if err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(warnings, `Warning: context "west": the cluster joins with the generated ID "uid-west"`); warned != test.want {
				t.Errorf("got warnings %q", warnings)
			}
		})
	}
}

func TestAllErrorsAreReported(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	args := slices.DeleteFunc(commandtest.Joining(t, east, west, "--id", "west=east"), func(arg string) bool { return strings.HasPrefix(arg, "west=https") || arg == "--server" })
	args = append(slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "east=https") }), "--server", "east=https://localhost")
	_, _, err := commandtest.Run(t.Context(), args...)
	expect.Error(t, err, "cannot be joined, and nothing was changed", `both clusters have the ID "east"`, `context "east": server "https://localhost" is only reachable from this machine`, `context "west": server "http://127.0.0.1`)
	if writes := append(east.Written(), west.Written()...); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

func TestErrorsOfAllClustersAreReported(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east", commandtest.NotInstalled), commandtest.NewAPIServer(t, "west")
	args := commandtest.Joining(t, east, west)
	west.Close()
	_, _, err := commandtest.Run(t.Context(), args...)
	expect.Error(t, err, `context "east": `, "mcs-apiserver is not installed or is detached: install it, or attach it with `kubectl mcs attach east`", `context "west": the kube-apiserver is unreachable`)
}

func TestFailedJoinIsRolledBack(t *testing.T) {
	for _, test := range []struct {
		name       string
		east, west []string
		want       []string
		not        string
		// deleted are the writes of the rollback in east and in west.
		deleted [2][]string
	}{
		{
			name: "rolled back", west: []string{"POST roles"},
			want:    []string{`context "west": failed to grant read access to east`, "all completed steps were rolled back"},
			not:     "could not be rolled back",
			deleted: [2][]string{{"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts"}, {"DELETE clusterrolebindings", "DELETE serviceaccounts"}},
		},
		{
			name: "nothing to roll back", east: []string{"POST serviceaccounts"},
			want: []string{`context "east": failed to grant read access to west`, "all completed steps were rolled back"},
		},
		{
			name: "failed rollback", west: []string{"POST roles"}, east: []string{"DELETE roles", "DELETE serviceaccounts"},
			want: []string{
				`context "west": failed to grant read access to east`, "some steps could not be rolled back", "fix the cause and repeat the command, or clean up with `kubectl mcs leave`",
				"\neast: grant read access to west: ", "DELETE roles", "DELETE serviceaccounts",
			},
			not:     "all completed steps were rolled back",
			deleted: [2][]string{{"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts"}, {"DELETE clusterrolebindings", "DELETE serviceaccounts"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
			east.Refuse, west.Refuse = commandtest.Failing(test.east...), commandtest.Failing(test.west...)
			_, _, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west)...)
			expect.Error(t, err, test.want...)
			if test.not != "" && strings.Contains(err.Error(), test.not) {
				t.Errorf("error %q contains %q", err, test.not)
			}
			for i, server := range []*commandtest.APIServer{east, west} {
				deleted := slices.DeleteFunc(server.Written(), func(write string) bool { return !strings.HasPrefix(write, http.MethodDelete) })
				if !slices.Equal(deleted, test.deleted[i]) {
					t.Errorf("rollback has writes %v, want %v", deleted, test.deleted[i])
				}
			}
		})
	}
}

// Members exist by then, and get another address only with --repoint.
func TestJoinThatDoesNotConnectSaysHowToChangeTheAddress(t *testing.T) {
	east, west := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	_, _, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--timeout", "100ms")...)
	expect.Error(t, err, `the clusters joined ClusterSet "production", but are not connected yet`, "run join again with the right one, --server CONTEXT=URL, and --repoint")
}

// R99: an interrupted join leaves nothing behind.
func TestInterruptedJoinIsRolledBack(t *testing.T) {
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
	expect.Error(t, err, `context "west": failed to grant read access to east`, "context canceled", "all completed steps were rolled back")
	if !strings.Contains(out, "✓ roll back east: grant read access to west") {
		t.Errorf("unexpected output %q", out)
	}
	want := []string{
		"POST serviceaccounts", "POST clusterrolebindings", "POST roles", "POST rolebindings",
		"DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts",
	}
	if diff := cmp.Diff(want, east.Written()); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}
