// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func TestStatusText(t *testing.T) {
	members := []clustersetv1alpha1.Member{
		*clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, clustertest.Seen(2*time.Second), clustertest.Counts(12, 31), clustertest.Condition("Reachable", metav1.ConditionTrue, "Reachable", "member is reachable")),
		*clustertest.NewMember("east", clustersetv1alpha1.MemberLocal, clustertest.Counts(7, 18)),
		*clustertest.NewMember("north", clustersetv1alpha1.MemberLost, clustertest.Seen(3*time.Hour), clustertest.Counts(1, 2),
			clustertest.Condition("Reachable", metav1.ConditionFalse, "Unauthorized", "renew the credential"),
			clustertest.Condition("Synced", metav1.ConditionUnknown, "Reading", "not all exports are known"),
			clustertest.Condition("Mutual", metav1.ConditionFalse, "NotListed", "create a Secret\x1b[2J\nthere"),
		),
		*clustertest.NewMember("south", clustersetv1alpha1.MemberConnecting, clustertest.Condition("Accepted", metav1.ConditionUnknown, "Unknown", "member has not responded yet")),
	}
	exported := []clustersetv1alpha1.ExportedService{*clustertest.NewExported("east", time.Hour), *clustertest.NewExported("west", time.Minute, clustertest.Headless)}
	report := newClusterStatus("east-admin", members, exported)
	var out bytes.Buffer
	if err := writeStatus(&out, []clusterStatus{report}, clustertest.Noon); err != nil {
		t.Fatal(err)
	}
	expect.Text(t, `
Context east-admin: cluster east in ClusterSet production
MEMBER   STATE        LAST-SEEN   EXPORTS   ENDPOINTS   CONFLICTS   REASON
east     Local        -           7         18          1           -
north    Lost         3h          1         2           0           Unauthorized: renew the credential; NotListed: create a Secret\u001b[2J\nthere
south    Connecting   never       0         0           0           Unknown: member has not responded yet
west     Connected    2s          12        31          1           -
`, out.String())
}

// R331: the help explains all states.
func TestHelpExplainsAllStates(t *testing.T) {
	for _, state := range []clustersetv1alpha1.MemberState{
		clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnecting, clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberUnavailable,
		clustersetv1alpha1.MemberStale, clustersetv1alpha1.MemberLost, clustersetv1alpha1.MemberRefused,
	} {
		if !strings.Contains(long, "\n  "+string(state)+" ") {
			t.Errorf("the help lacks the state %s", state)
		}
	}
}

func TestConflictsAreCountedByService(t *testing.T) {
	inOtherNamespace := clustertest.NewExported("west", time.Minute, clustertest.Headless)
	inOtherNamespace.Namespace = "office"
	otherService := func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Service = "db" }
	for _, test := range []struct {
		name     string
		exported []clustersetv1alpha1.ExportedService
		want     map[string]int
	}{
		{"no exports", nil, map[string]int{}},
		{"no conflicts", []clustersetv1alpha1.ExportedService{*clustertest.NewExported("east", time.Hour), *clustertest.NewExported("west", time.Minute)}, map[string]int{}},
		{"different namespaces", []clustersetv1alpha1.ExportedService{*clustertest.NewExported("east", time.Hour), *inOtherNamespace}, map[string]int{}},
		{
			"several conflicts of one service count once",
			[]clustersetv1alpha1.ExportedService{
				*clustertest.NewExported("east", time.Hour),
				*clustertest.NewExported("west", time.Minute, clustertest.Headless, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports = nil }),
			},
			map[string]int{"east": 1, "west": 1},
		},
		{
			"two services",
			[]clustersetv1alpha1.ExportedService{
				*clustertest.NewExported("east", time.Hour), *clustertest.NewExported("west", time.Minute, clustertest.Headless),
				*clustertest.NewExported("east", time.Hour, otherService), *clustertest.NewExported("north", time.Minute, otherService, clustertest.Headless),
			},
			map[string]int{"east": 2, "west": 1, "north": 1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := conflictsByCluster(test.exported)
			if len(got) != len(test.want) {
				t.Errorf("conflicts %v, want %v", got, test.want)
			}
			for cluster, want := range test.want {
				if got[cluster] != want {
					t.Errorf("got %d conflicts of %s, want %d", got[cluster], cluster, want)
				}
			}
		})
	}
}

func TestStatusWithoutClusterSet(t *testing.T) {
	unclaimed := clustertest.NewMember("dev", clustersetv1alpha1.MemberLocal)
	unclaimed.Status.ClusterSet = ""
	var out bytes.Buffer
	if err := writeStatus(&out, []clusterStatus{
		newClusterStatus("new", nil, nil),
		newClusterStatus("dev", []clustersetv1alpha1.Member{*unclaimed}, nil),
		{Context: "gone", Error: "the kube-apiserver is unreachable"},
	}, clustertest.Noon); err != nil {
		t.Fatal(err)
	}
	expect.Text(t, "\n"+
		"Context new: cluster is not in a ClusterSet: join the cluster to a ClusterSet with `kubectl mcs join`\n"+
		"\n"+
		"Context dev: cluster dev is not in a ClusterSet: join the cluster to a ClusterSet with `kubectl mcs join`\n"+
		"MEMBER   STATE   LAST-SEEN   EXPORTS   ENDPOINTS   CONFLICTS   REASON\n"+
		"dev      Local   -           0         0           0           -\n"+
		"\n"+
		"Context gone: cannot query cluster: the kube-apiserver is unreachable\n", out.String())
}

func TestLastSeenInTheFutureIsShownAsNow(t *testing.T) {
	member := memberStatus{State: clustersetv1alpha1.MemberConnected, LastSeen: new(clustertest.Before(-time.Minute))}
	if got := member.row(clustertest.Noon)[2]; got != "0s" {
		t.Errorf("got last seen %q", got)
	}
}
