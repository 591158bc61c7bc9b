// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"net/http"
	"strings"
	"testing"

	componentversion "k8s.io/component-base/version"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func version(text string) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) { status.Version = text }
}

// serving is a cluster with these members.
func serving(members ...any) http.HandlerFunc {
	return commandtest.Serving(map[string]any{
		commandtest.ClusterSetPath + "members": commandtest.List("clusterset.mcs-apiserver.io/v1alpha1", "Member", members...),
	})
}

// R346: versions of the client, of servers and of their members are shown, and what is
// unknown is shown as unknown.
func TestVersionsOfClientServersAndMembersAreShown(t *testing.T) {
	out, errOut, code := commandtest.Servers{
		{"east", serving(
			clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, version("v0.2.0")),
			clustertest.NewMember("north", clustersetv1alpha1.MemberConnecting),
			clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, version("v0.3.0")),
			clustertest.NewMember("evil", clustersetv1alpha1.MemberConnected, version("v1\x1b[2J\nwest Connected v9")),
		)},
		{"old", serving(clustertest.NewMember("old", clustersetv1alpha1.MemberLocal))},
		{"bare", commandtest.Serving(nil)},
	}.Run(t, "version", "east", "old", "bare")
	if code == 0 || errOut != "error: 1 of 3 clusters could not be queried: bare\n" {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	want := `Client: ` + componentversion.Get().GitVersion + `

Context east: mcs-apiserver v0.3.0
MEMBER   STATE        VERSION
evil     Connected    v1\u001b[2J\nwest Connected v9
north    Connecting   unknown
west     Connected    v0.2.0

Context old: mcs-apiserver unknown

Context bare: cannot query cluster: `
	if !strings.HasPrefix(out, want) {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// R346.
func TestVersionsInJSON(t *testing.T) {
	out, errOut, code := commandtest.Servers{{"east", serving(
		clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, version("v0.2.0")),
		clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, version("v0.3.0")),
	)}}.Run(t, "version", "-o", "json")
	if code != 0 || errOut != "" {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	expect.Text(t, `
{
    "clientVersion": "`+componentversion.Get().GitVersion+`",
    "clusters": [
        {
            "context": "east",
            "serverVersion": "v0.3.0",
            "members": [
                {
                    "name": "west",
                    "state": "Connected",
                    "version": "v0.2.0"
                }
            ]
        }
    ]
}
`, out)
}

func TestVersionOfTheClientNeedsNoCluster(t *testing.T) {
	untouched := func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) }
	out, errOut, code := commandtest.Servers{{"east", untouched}}.Run(t, "version", "--client")
	if want := "Client: " + componentversion.Get().GitVersion + "\n"; code != 0 || out != want {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if _, errOut, code := (commandtest.Servers{{"east", untouched}}).Run(t, "version", "--client", "east"); code == 0 || !strings.Contains(errOut, "--client takes no contexts") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
