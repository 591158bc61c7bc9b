// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package accept_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/manifest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// newInvitation writes an invitation of east for a cluster.
func newInvitation(t *testing.T, invited string, until time.Duration) (plan.Invitation, string) {
	t.Helper()
	invitation, err := plan.NewInvitation("mcs-system", "production", plan.Membership{
		ID: "east", UID: "uid-east", Access: plan.Access{Server: "https://east.invalid:6443"}, Token: commandtest.Token("peer-"+invited, time.Now().Add(until)), Secret: "member-east",
		JoinedAt: "2026-01-01T00:00:00Z", AllowedCIDRs: "10.1.0.0/16",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := manifest.File{Path: filepath.Join(t.TempDir(), "invitation.yaml"), Title: "Invitation", Objects: invitation.Objects()}
	if err := manifest.Write([]manifest.File{file}); err != nil {
		t.Fatal(err)
	}
	return invitation, file.Path
}

// run runs the command in west with this input.
func run(t *testing.T, west *commandtest.APIServer, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	in.WriteString(input)
	cmd := app.NewCommand(streams)
	cmd.SetArgs(append([]string{"accept", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}), "--context", "west"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// R419, R421: what is trusted is shown, confirmed and applied: the objects of the file.
func TestInvitationIsAccepted(t *testing.T) {
	invitation, file := newInvitation(t, "west", time.Hour)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, input string
		args        []string
		question    bool
	}{
		{"confirmed", "y\n", []string{"-f", file}, true},
		{"without questions", "", []string{"-f", file, "--yes"}, false},
		{"from standard input", string(content), []string{"-f", "-", "-y"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			west := commandtest.NewAPIServer(t, "west")
			out, warnings, err := run(t, west, test.input, append(test.args, "--wait=false")...)
			if err != nil {
				t.Fatal(err)
			}
			expect.Error(t, errorOf(out), "Invitation of cluster east:\n", "Server:", "https://east.invalid:6443", "10.1.0.0/16", "valid until "+invitation.Expires.UTC().Format(time.RFC3339),
				"Plan:\n  west: add member east\n  west: join ClusterSet \"production\"\n\n", "✓ west: add member east\n", "Cluster west will read from cluster east. For the other direction, run `kubectl mcs invite east --context west`")
			if strings.Contains(out, "trust this? [y/N]: ") != test.question {
				t.Errorf("got output %s", out)
			}
			if !strings.Contains(warnings, "Warning: whether the invitation leads to cluster east was not checked, because it cannot be asked from here") {
				t.Errorf("got warnings %s", warnings)
			}
			if diff := cmp.Diff([]string{"PATCH member-east", "POST clusterclaims"}, west.Written()); diff != "" {
				t.Errorf("unexpected writes (-want +got):\n%s", diff)
			}
			applied, ok := west.Object("/api/v1/namespaces/mcs-system/secrets/member-east").(*corev1.Secret)
			if !ok {
				t.Fatal("no Secret")
			}
			applied.CreationTimestamp = invitation.Secret.CreationTimestamp
			if diff := cmp.Diff(invitation.Secret, applied); diff != "" {
				t.Errorf("unexpected Secret (-invitation +applied):\n%s", diff)
			}
		})
	}
}

type text string

func (t text) Error() string { return string(t) }

// errorOf lets expect.Error look for texts in output.
func errorOf(output string) error { return text(output) }

// R420, R421: nothing is changed if the invitation is refused, or not confirmed.
func TestInvitationIsRefused(t *testing.T) {
	_, file := newInvitation(t, "west", time.Hour)
	_, other := newInvitation(t, "north", time.Hour)
	_, expired := newInvitation(t, "west", -time.Minute)
	foreign, empty := filepath.Join(t.TempDir(), "foreign.yaml"), filepath.Join(t.TempDir(), "large.yaml")
	for path, content := range map[string]string{foreign: "apiVersion: v1\nkind: ConfigMap\u0007\n", empty: strings.Repeat("#", 1<<20+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, input string
		args, want  []string
	}{
		{"not confirmed", "n\n", []string{"-f", file}, []string{"not confirmed, and nothing was changed"}},
		{"no answer", "", []string{"-f", file}, []string{"not confirmed, and nothing was changed"}},
		{"for another cluster", "", []string{"-f", other, "--yes"}, []string{`context "west": the invitation cannot be accepted, and nothing was changed`, `the invitation is for cluster "north"`}},
		{"expired", "", []string{"-f", expired, "--yes"}, []string{"the invitation expired at "}},
		{"not an invitation", "", []string{"-f", foreign}, []string{"--filename " + foreign + ": not a valid invitation: "}},
		{"too large", "", []string{"-f", empty}, []string{"larger than 1048576 bytes"}},
		{"no file", "", []string{"-f", file + ".missing"}, []string{"--filename: the invitation cannot be read: open " + file + ".missing: no such file"}},
		{"no flag", "", nil, []string{`required flag(s) "filename" not set`}},
		{"question from standard input", "", []string{"-f", "-", "--timeout", "0s"}, []string{"--filename -: the question whether to trust the cluster cannot be answered from standard input: add --yes", "--timeout 0s: must be greater than zero"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			west := commandtest.NewAPIServer(t, "west")
			_, _, err := run(t, west, test.input, test.args...)
			expect.Error(t, err, test.want...)
			if strings.ContainsRune(err.Error(), '\u0007') {
				t.Errorf("error %q is not escaped", err)
			}
			if writes := west.Written(); len(writes) > 0 {
				t.Errorf("unexpected writes %v", writes)
			}
		})
	}
}

// R419: what this cluster recorded of a member, and decided about it, is kept by a later
// invitation, and is as before if that cannot be accepted.
func TestMemberSecretIsKept(t *testing.T) {
	invitation, file := newInvitation(t, "west", time.Hour)
	const path = "/api/v1/namespaces/mcs-system/secrets"
	former := invitation.Secret.DeepCopy()
	former.Data["kubeconfig"] = []byte(strings.ReplaceAll(string(former.Data["kubeconfig"]), "token: ", "token: former"))
	former.Data["joined-at"], former.Data["allowed-cidrs"], former.Data["service-limit"] = []byte("2026-02-01T00:00:00Z"), []byte("10.100.0.0/16"), []byte("7")
	former.Annotations["clusterset.mcs-apiserver.io/ttl"] = "5m0s"
	for _, test := range []struct {
		name, fails string
		args        []string
		writes      []string
		// kubeconfig and allowed are what the Secret has afterwards.
		kubeconfig []byte
		allowed    string
	}{
		{"kept", "", nil, []string{"PUT member-east", "POST clusterclaims"}, invitation.Secret.Data["kubeconfig"], "10.100.0.0/16"},
		{"replaced", "", []string{"--replace"}, []string{"PUT member-east", "PUT member-east", "POST clusterclaims"}, invitation.Secret.Data["kubeconfig"], "10.1.0.0/16"},
		{"rolled back", "POST clusterclaims", []string{"--replace"}, []string{"PUT member-east", "PUT member-east", "POST clusterclaims", "PUT member-east", "PUT member-east"}, former.Data["kubeconfig"], "10.100.0.0/16"},
	} {
		t.Run(test.name, func(t *testing.T) {
			west := commandtest.NewAPIServer(t, "west", func(objects map[string]any) {
				objects[path], objects[path+"/member-east"] = commandtest.List("v1", "Secret", former.DeepCopy()), former.DeepCopy()
			})
			west.Refuse = commandtest.Failing(test.fails)
			out, _, err := run(t, west, "", append(test.args, "-f", file, "--yes", "--wait=false")...)
			if (err != nil) != (test.fails != "") {
				t.Fatal(err)
			}
			if strings.Contains(out, "allow endpoints of east in 10.1.0.0/16 instead of 10.100.0.0/16") != (test.args != nil) {
				t.Errorf("got output %s", out)
			}
			if diff := cmp.Diff(test.writes, west.Written()); diff != "" {
				t.Errorf("unexpected writes (-want +got):\n%s", diff)
			}
			got, want := west.Object(path+"/member-east").(*corev1.Secret), former.DeepCopy()
			want.Data["kubeconfig"], want.Data["allowed-cidrs"], want.CreationTimestamp = test.kubeconfig, []byte(test.allowed), got.CreationTimestamp
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("unexpected Secret (-want +got):\n%s", diff)
			}
		})
	}
}

// R425: a file that is refused does not make the user's machine send requests.
func TestRefusedInvitationIsNotAskedAbout(t *testing.T) {
	asked := make(chan struct{}, 1)
	east := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
	}))
	defer east.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: east.Certificate().Raw})
	invitation, err := plan.NewInvitation("mcs-system", "production", plan.Membership{
		ID: "east", UID: "uid-east", Access: plan.Access{Server: east.URL, CA: string(authority)}, Token: commandtest.Token("peer-west", time.Now().Add(time.Hour)), Secret: "member-east",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := manifest.File{Path: filepath.Join(t.TempDir(), "invitation.yaml"), Title: "Invitation", Objects: invitation.Objects()}
	if err := manifest.Write([]manifest.File{file}); err != nil {
		t.Fatal(err)
	}
	_, _, err = run(t, commandtest.NewAPIServer(t, "west"), "", "-f", file.Path, "--yes")
	expect.Error(t, err, "is only reachable from this machine")
	select {
	case <-asked:
		t.Error("the server was asked")
	default:
	}
}

// R419: a member that does not respond does not prevent that a cluster joins, if the user
// says so.
func TestUnreachableMembersAreIgnored(t *testing.T) {
	_, file := newInvitation(t, "west", time.Hour)
	for _, ignore := range []bool{false, true} {
		west := commandtest.NewAPIServer(t, "west")
		if _, _, err := run(t, west, "", "-f", file, "--yes", "--wait=false", fmt.Sprintf("--ignore-unreachable-members=%t", ignore)); err != nil {
			t.Fatal(err)
		}
		claim := west.Object("/apis/multicluster.k8s.io/v1/clusterclaims/clusterset.k8s.io").(metav1.Object)
		if _, annotated := claim.GetAnnotations()[multicluster.IgnoreUnreachableMembersAnnotation]; annotated != ignore {
			t.Errorf("got annotations %v", claim.GetAnnotations())
		}
	}
}

// R419: a cluster that cannot join the ClusterSet does not keep the member either.
func TestFailedAcceptanceIsRolledBack(t *testing.T) {
	_, file := newInvitation(t, "west", time.Hour)
	west := commandtest.NewAPIServer(t, "west")
	west.Refuse = commandtest.Failing("POST clusterclaims")
	_, _, err := run(t, west, "", "-f", file, "--yes")
	expect.Error(t, err, `context "west": failed to join ClusterSet "production"`, "all completed steps were rolled back")
	if want := []string{"PATCH member-east", "POST clusterclaims", "DELETE secrets"}; !slices.Equal(west.Written(), want) {
		t.Errorf("got writes %v, want %v", west.Written(), want)
	}
}
