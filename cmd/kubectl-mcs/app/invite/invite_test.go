// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package invite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// inviting returns the arguments with which east invites west.
func inviting(t *testing.T, east *commandtest.APIServer, more ...string) []string {
	t.Helper()
	return append([]string{
		"invite", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL}), "--context", "east",
		"--clusterset", "production", "--server", "https://east.example:6443",
	}, more...)
}

var granted = []string{"POST serviceaccounts", "POST clusterrolebindings", "POST roles", "POST rolebindings"}

// R416: the invitation is all of the output, and everything about it is beside.
func TestInvitationIsPrinted(t *testing.T) {
	east := commandtest.NewAPIServer(t, "east")
	started := time.Now()
	out, messages, err := commandtest.Run(t.Context(), inviting(t, east, "--allowed-cidrs", "10.1.0.0/16,fd00:1::/48", "--duration", "2h")...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(slices.Clone(granted), "POST clusterclaims", "POST token"), east.Written()); diff != "" {
		t.Errorf("unexpected writes (-want +got):\n%s", diff)
	}
	invitation, err := plan.ReadInvitation([]byte(out))
	if err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if invitation.ID != "east" || invitation.Invited != "west" || invitation.ClusterSet() != "production" || invitation.UID() != "uid-east" ||
		invitation.Secret.Namespace != "mcs-system" || invitation.Access.Server != "https://east.example:6443" || string(invitation.Secret.Data["allowed-cidrs"]) != "10.1.0.0/16,fd00:1::/48" {
		t.Errorf("got %+v", invitation)
	}
	if life := invitation.Expires.Sub(started); life < 119*time.Minute || life > 121*time.Minute {
		t.Errorf("the token is valid for %s", life)
	}
	if joined, err := time.Parse(time.RFC3339, string(invitation.Secret.Data["joined-at"])); err != nil || joined.Before(started.Add(-time.Second)) || joined.After(time.Now()) {
		t.Errorf("joined at %q", invitation.Secret.Data["joined-at"])
	}
	for _, want := range []string{
		"✓ east: grant read access to west\n", "✓ east: join ClusterSet \"production\"\n", "Invitation of cluster east for cluster west:\n", "Server:", "https://east.example:6443", "valid until " + invitation.Expires.UTC().Format(time.RFC3339),
		"It contains a credential", "There, run `kubectl mcs accept -f FILE`.", "Until it expires, also after it was accepted, who has it reads what west reads", "delete the service account peer-west in namespace mcs-system",
		"To withdraw the invitation before it is accepted, run `kubectl mcs leave --id west --from east`.",
	} {
		if !strings.Contains(messages, want) {
			t.Errorf("messages do not contain %q:\n%s", want, messages)
		}
	}
	if strings.Contains(messages, "kubectl apply") {
		t.Errorf("messages recommend what checks nothing:\n%s", messages)
	}
}

// R416: in another namespace, and with a note about what is missing.
func TestInvitationForAnotherNamespace(t *testing.T) {
	east := commandtest.NewAPIServer(t, "east")
	out, messages, err := commandtest.Run(t.Context(), inviting(t, east, "-n", "services")...)
	if err != nil {
		t.Fatal(err)
	}
	if invitation, err := plan.ReadInvitation([]byte(out)); err != nil || invitation.Secret.Namespace != "services" {
		t.Errorf("got %s, %v", out, err)
	}
	if !strings.Contains(messages, "Note: the invitation has no allowed-cidrs") {
		t.Errorf("got messages %s", messages)
	}
}

// R418: a file is for the user only, and replaces no other one.
func TestInvitationIsWritten(t *testing.T) {
	east, directory := commandtest.NewAPIServer(t, "east"), filepath.Join(t.TempDir(), "new")
	path := filepath.Join(directory, "east-invites-west.yaml")
	for range 2 { // it can be repeated
		out, _, err := commandtest.Run(t.Context(), inviting(t, east, "--output-dir", directory)...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, "Wrote "+path+"\nInvitation of cluster east for cluster west:") || !strings.Contains(out, "`kubectl mcs accept -f "+path+"`") || strings.Contains(out, "kubeconfig:") {
			t.Errorf("got output %s", out)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.ReadInvitation(content); err != nil {
		t.Errorf("%v in %s", err, content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := len(east.Written())
	_, _, err = commandtest.Run(t.Context(), inviting(t, east, "--output-dir", directory)...)
	expect.Error(t, err, path+" exists and is not an earlier version of the file")
	if len(east.Written()) > written {
		t.Errorf("unexpected writes %v", east.Written()[written:])
	}
}

// R417: what was done is rolled back if there is no invitation.
func TestFailedInvitationIsRolledBack(t *testing.T) {
	for _, test := range []struct {
		fails string
		want  []string
	}{
		{"POST roles", []string{`context "east": failed to grant read access to west`, "all completed steps were rolled back"}},
		{"POST token", []string{`context "east": `, "create token for west", "permission denied", "all completed steps were rolled back"}},
	} {
		east := commandtest.NewAPIServer(t, "east")
		east.Refuse = commandtest.Failing(test.fails)
		out, _, err := commandtest.Run(t.Context(), inviting(t, east)...)
		expect.Error(t, err, test.want...)
		if out != "" {
			t.Errorf("unexpected output %s", out)
		}
		created, deleted := 0, 0
		for _, write := range east.Written() {
			switch {
			case write == test.fails:
			case strings.HasPrefix(write, "POST "):
				created++
			case strings.HasPrefix(write, "DELETE "):
				deleted++
			}
		}
		if created == 0 || created != deleted {
			t.Errorf("%s: got writes %v", test.fails, east.Written())
		}
	}
}

func TestInvalidArgumentsAreRejected(t *testing.T) {
	east := commandtest.NewAPIServer(t, "east")
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"invite"}, []string{"exactly one cluster ID is required, got 0"}},
		{[]string{"invite", "west", "north"}, []string{"exactly one cluster ID is required, got 2"}},
		{[]string{"invite", "west", "--duration", "5m", "--allowed-cidrs", "10.1.0.0"}, []string{"--duration 5m0s: must be at least 10m0s, and at most 720h0m0s", `--allowed-cidrs 10.1.0.0: "10.1.0.0" must be a CIDR`}},
		{[]string{"invite", "west", "--duration", "721h"}, []string{"--duration 721h0m0s: must be at least"}},
		{[]string{"invite", "east", "--context", "east"}, []string{"cannot be invited, and nothing was changed", `"east" is the ID of this cluster`}},
		{[]string{"invite", "west"}, []string{"current-context is not set"}},
		{[]string{"invite", "west", "--context", "east"}, []string{"cluster is not in a ClusterSet", "add --clusterset NAME"}},
	} {
		_, _, err := commandtest.Run(t.Context(), append(test.args, "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL}))...)
		expect.Error(t, err, test.want...)
	}
	if len(east.Written()) > 0 {
		t.Errorf("unexpected writes %v", east.Written())
	}
}

func TestCompletion(t *testing.T) {
	east := commandtest.NewAPIServer(t, "east", commandtest.Knowing("west"))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"invite", ""}, "west :4"},
		{[]string{"invite", "west", ""}, ":4"},
		{[]string{"invite", "--output-dir", ""}, ":16"},
		{[]string{"accept", "-f", ""}, "yaml yml json :8"},
	} {
		args := append([]string{"__complete", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"east": east.URL}), "--context", "east"}, test.args...)
		out, _, err := commandtest.Run(t.Context(), args...)
		if got := strings.Join(strings.Fields(out), " "); err != nil || got != test.want {
			t.Errorf("%v: got completions %q (%v), want %q", test.args, got, err, test.want)
		}
	}
}
