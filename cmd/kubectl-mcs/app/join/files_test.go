// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

var granted = []string{"POST serviceaccounts", "POST clusterrolebindings", "POST roles", "POST rolebindings"}

// R422: join writes files for each cluster, and creates nothing but what tokens need.
func TestJoinWritesFiles(t *testing.T) {
	east, west, directory := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west"), t.TempDir()
	args := commandtest.Joining(t, east, west, "--output-dir", directory, "--id", "west=w", "--allowed-cidrs", "east=10.1.0.0/16")
	out, _, err := commandtest.Run(t.Context(), append(slices.Clone(args), "--dry-run")...)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"east/1-access-w.yaml", "east/2-member-w.yaml", "east/3-id.yaml", "east/4-clusterset.yaml", "w/1-access-east.yaml", "w/2-member-east.yaml", "w/3-id.yaml", "w/4-clusterset.yaml"}
	plan := "Plan:\n  east: grant read access to w\n  west: grant read access to east\n"
	for _, file := range files {
		plan += "  write " + filepath.Join(directory, file) + "\n"
	}
	expect.Text(t, plan, out)
	if written := slices.Concat(east.Written(), west.Written(), glob(t, directory)); len(written) > 0 {
		t.Errorf("unexpected writes %v", written)
	}
	if out, _, err = commandtest.Run(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	for server, name := range map[*commandtest.APIServer]string{east: "east", west: "west"} {
		if diff := cmp.Diff(append(slices.Clone(granted), "POST token"), server.Written()); diff != "" {
			t.Errorf("%s: unexpected writes (-want +got):\n%s", name, diff)
		}
	}
	for _, want := range []string{
		plan + "\n", "✓ east: grant read access to w\n", "Wrote 8 files.", "  kubectl --context east apply -f " + directory + "/east\n  kubectl --context west apply -f " + directory + "/w\n",
		"These have new ones, which must be applied before 20", ": " + directory + "/east/2-member-w.yaml, " + directory + "/w/2-member-east.yaml. Renewed credentials are in ", "Secrets named *.renewed in the clusters, and never written back to files",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	if diff := cmp.Diff(files, glob(t, directory)); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
	for file, contents := range map[string][]string{
		"east/1-access-w.yaml": {"# Access of cluster w in cluster east, written by kubectl mcs join.\n---\n", "kind: ServiceAccount", "kind: ClusterRoleBinding", "kind: Role\n", "kind: RoleBinding", "name: peer-w", "namespace: mcs-system"},
		"w/2-member-east.yaml": {"kind: Secret", "name: member-east", "type: clusterset.mcs-apiserver.io/member", "allowed-cidrs:", "joined-at:", "clusterset.mcs-apiserver.io/cluster-uid: uid-east"},
		"w/3-id.yaml":          {"name: id.k8s.io\nspec:\n  value: w\n", `argocd.argoproj.io/sync-wave: "1"`},
		"w/4-clusterset.yaml":  {"name: clusterset.k8s.io\nspec:\n  value: production\n", `argocd.argoproj.io/sync-wave: "2"`},
		"east/2-member-w.yaml": {"name: member-w"},
		"w/1-access-east.yaml": {"name: peer-east"},
		"east/3-id.yaml":       {"value: east"},
	} {
		content, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range contents {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s does not contain %q:\n%s", file, want, content)
			}
		}
		if info, err := os.Stat(filepath.Join(directory, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v", file, info.Mode(), err)
		}
	}
	if err := os.WriteFile(filepath.Join(directory, "w", "mine.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, warnings, err := commandtest.Run(t.Context(), args...); err != nil || !strings.Contains(warnings, "Warning: "+directory+"/w has other files, which kubectl applies, too: mine.yaml\n") {
		t.Errorf("got %s, %v", warnings, err)
	}
}

// R422: files have what users set in the Secrets of members that exist already.
func TestWrittenFilesKeepMemberSecrets(t *testing.T) {
	const version, path = "clusterset.mcs-apiserver.io/", "/api/v1/namespaces/mcs-system/secrets"
	existing := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "member-west", Namespace: "mcs-system", Annotations: map[string]string{
			version + "ttl": "5m", version + "lost-policy": "Keep", version + "expelled": "true", "kubectl.kubernetes.io/last-applied-configuration": "{token}",
		}},
		Type: clusterset.MemberSecretType,
		Data: map[string][]byte{
			"cluster-id": []byte("west"), "kubeconfig": []byte("former"), "relay-for": []byte("north"), "allowed-cidrs": []byte("10.2.0.0/16"), "joined-at": []byte("2026-01-01T00:00:00Z"),
			"allowed-namespaces": []byte("shop"), "memory-limit": []byte("8Mi"), "service-limit": []byte("7"), "endpoint-limit": []byte("9"),
		},
	}
	east := commandtest.NewAPIServer(t, "east", func(objects map[string]any) { objects[path] = commandtest.List("v1", "Secret", existing) })
	west, directory := commandtest.NewAPIServer(t, "west"), t.TempDir()
	if _, _, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--output-dir", directory)...); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(directory, "east", "2-member-west.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.Secret
	if err := yaml.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	want := existing.DeepCopy()
	delete(want.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	want.Annotations[version+"cluster-uid"] = "uid-west"
	if diff := cmp.Diff(want.Annotations, got.Annotations); diff != "" {
		t.Errorf("unexpected annotations (-want +got):\n%s", diff)
	}
	for _, changed := range []string{"kubeconfig", "joined-at"} { // west joins now
		if len(got.Data[changed]) == 0 || string(got.Data[changed]) == string(want.Data[changed]) {
			t.Errorf("%s is %q", changed, got.Data[changed])
		}
		want.Data[changed] = got.Data[changed]
	}
	if diff := cmp.Diff(want.Data, got.Data); diff != "" {
		t.Errorf("unexpected data (-want +got):\n%s", diff)
	}
}

// R422: members that are connected keep their credentials, so that files that are applied late do
// not end the connection, and so do those whose token can still be used. A member gets another one if it
// rejects the one that it has, is reached otherwise, or if its service account was deleted, even if
// there is another one of the same name.
func TestWrittenFilesKeepCredentials(t *testing.T) {
	const secrets, accounts, members = "/api/v1/namespaces/mcs-system/secrets", "/api/v1/namespaces/mcs-system/serviceaccounts", commandtest.ClusterSetPath + "members"
	const address, account = "https://west.example:6443", "2" // the UID in the token
	now := time.Now()
	expired, valid := membertest.Token(t, now.Add(-48*time.Hour), 24*time.Hour), membertest.Token(t, now, time.Hour)
	reachable := func(status metav1.ConditionStatus, reason string) func(*clustersetv1alpha1.MemberStatus) {
		return clustertest.Condition(clusterset.MemberReachable, status, reason, "")
	}
	connected := clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, reachable(metav1.ConditionTrue, "Reachable"))
	silent := clustertest.NewMember("west", clustersetv1alpha1.MemberLost, reachable(metav1.ConditionFalse, "Unreachable"))
	unauthorized := clustertest.NewMember("west", clustersetv1alpha1.MemberStale, reachable(metav1.ConditionFalse, "Unauthorized"))
	never := clustertest.NewMember("west", clustersetv1alpha1.MemberConnecting, reachable(metav1.ConditionFalse, "Unreachable"))
	for name, test := range map[string]struct {
		token, server string
		member        any
		// account is the UID of the service account in west, and incomplete whether it lacks permissions.
		account    types.UID
		incomplete bool
		kept       bool
	}{
		"connected":                          {expired, address, connected, account, false, true},
		"silent":                             {expired, address, silent, account, false, true},
		"connected with another credential":  {"opaque", address, connected, account, false, true},
		"connected, a permission is missing": {expired, address, connected, account, true, true},
		"never met, still valid":             {valid, address, never, account, false, true},
		"never met, expired":                 {expired, address, never, account, false, false},
		"never met, another credential":      {"opaque", address, never, account, false, false},
		"rejected":                           {valid, address, unauthorized, account, false, false},
		"reached otherwise":                  {valid, "https://other.example:6443", connected, account, false, false},
		"account was deleted":                {valid, address, connected, "", false, false},
		"account was created again":          {valid, address, connected, "3", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := []byte("apiVersion: v1\nkind: Config\nclusters: [{name: west, cluster: {server: \"" + test.server + "\"}}]\nusers: [{name: peer, user: {token: " + test.token + "}}]\n" +
				"contexts: [{name: west, context: {cluster: west, user: peer}}]\ncurrent-context: west\n# mine\n")
			east := commandtest.NewAPIServer(t, "east", func(objects map[string]any) {
				objects[secrets] = commandtest.List("v1", "Secret", &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Name: "member-west", Namespace: "mcs-system"}, Type: clusterset.MemberSecretType,
					Data: map[string][]byte{"cluster-id": []byte("west"), "kubeconfig": kubeconfig},
				})
				objects[members] = commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", test.member)
			})
			west := commandtest.NewAPIServer(t, "west", func(objects map[string]any) {
				if !test.incomplete {
					commandtest.Granting("east")(objects)
				}
				granted := plan.NewPeerAccess("mcs-system", "east").Account
				granted.UID = test.account
				objects[accounts] = commandtest.List("v1", "ServiceAccount", granted)
				if test.account == "" {
					objects[accounts] = commandtest.List("v1", "ServiceAccount")
				}
			})
			directory := t.TempDir()
			out, _, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--output-dir", directory, "--repoint")...)
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(filepath.Join(directory, "east", "2-member-west.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.Secret
			if err := yaml.Unmarshal(content, &got); err != nil {
				t.Fatal(err)
			}
			if kept := string(got.Data["kubeconfig"]) == string(kubeconfig); kept != test.kept {
				t.Errorf("the kubeconfig is kept: %t, want %t; got:\n%s", kept, test.kept, got.Data["kubeconfig"])
			}
			if said := strings.Contains(out, "These have what the member Secrets declare already: "+directory+"/east/2-member-west.yaml. "); said != test.kept {
				t.Errorf("unexpected output:\n%s", out)
			}
			if created := slices.Contains(west.Written(), "POST token"); created == test.kept {
				t.Errorf("west issues a token: %t, want %t", created, !test.kept)
			}
		})
	}
}

// glob returns the files in a directory and below.
func glob(t *testing.T, directory string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = strings.TrimPrefix(files[i], directory+"/")
	}
	return files
}

// R424: the files of a hub have the permission to relay.
func TestJoinWithHubWritesFiles(t *testing.T) {
	east, west, directory := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west"), t.TempDir()
	if _, _, err := commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--output-dir", directory, "--hub", "east")...); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{"east/1-access-west.yaml": true, "west/1-access-east.yaml": false} {
		content, err := os.ReadFile(filepath.Join(directory, file))
		if err != nil || strings.Contains(string(content), "name: mcs-apiserver:relay:") != want {
			t.Errorf("%s: got %s, %v", file, content, err)
		}
	}
}

// R423: access is granted only if the files can be written, and is rolled back otherwise.
func TestFilesThatCannotBeWritten(t *testing.T) {
	east, west, directory := commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west"), t.TempDir()
	args := commandtest.Joining(t, east, west, "--output-dir", directory)
	foreign := filepath.Join(directory, "east", "3-id.yaml")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := commandtest.Run(t.Context(), args...)
	expect.Error(t, err, foreign+" exists and is not an earlier version of the file")
	if writes := slices.Concat(east.Written(), west.Written()); len(writes) > 0 {
		t.Errorf("unexpected writes %v", writes)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	west.Refuse = commandtest.Failing("POST token")
	_, _, err = commandtest.Run(t.Context(), args...)
	expect.Error(t, err, `context "west": `, "create token for east", "all completed steps were rolled back")
	want := append(slices.Clone(granted), "POST token", "DELETE rolebindings", "DELETE roles", "DELETE clusterrolebindings", "DELETE serviceaccounts")
	if diff := cmp.Diff(want, west.Written()); diff != "" {
		t.Errorf("unexpected writes (-want +got):\n%s", diff)
	}
	if files := glob(t, directory); len(files) > 0 {
		t.Errorf("unexpected files %v", files)
	}
	// Somebody else creates one of the files meanwhile.
	east, west = commandtest.NewAPIServer(t, "east"), commandtest.NewAPIServer(t, "west")
	west.Refuse = func(_ http.ResponseWriter, _ *http.Request, write string) bool {
		if write == "POST token" {
			if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	_, _, err = commandtest.Run(t.Context(), commandtest.Joining(t, east, west, "--output-dir", directory)...)
	expect.Error(t, err, foreign+" exists and is not an earlier version of the file", "all completed steps were rolled back")
	for _, server := range []*commandtest.APIServer{east, west} {
		if diff := cmp.Diff(want, server.Written()); diff != "" {
			t.Errorf("unexpected writes (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]string{"east/3-id.yaml"}, glob(t, directory)); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
}

func TestFlagsOfFilesAreValidated(t *testing.T) {
	_, _, err := commandtest.Run(t.Context(), "join", "--clusterset", "s", "east", "west", "--kubeconfig", withoutRequests(t), "--output-dir", "x", "--duration", "1m", "--dry-run", "-o", "json", "--ignore-unreachable-members")
	expect.Error(t, err, "--duration 1m0s: must be at least 10m0s", "--output has no effect with --output-dir", "--ignore-unreachable-members has no effect with --output-dir")
	_, _, err = commandtest.Run(t.Context(), "join", "--clusterset", "s", "east", "west", "--kubeconfig", withoutRequests(t), "--duration", "1h")
	expect.Error(t, err, "--duration has no effect without --output-dir")
}
