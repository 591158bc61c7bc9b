// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// R249, R334: a member loses its access to all clusters first, and all of them expel it
// before any of them removes it.
func TestMemberIsExpelledByAllClustersBeforeItIsRemoved(t *testing.T) {
	knows := func(id string) func(*Cluster) {
		return func(c *Cluster) {
			c.Members = map[string]Member{id: {}}
			c.Known = map[string]types.UID{id: "uid-" + types.UID(id), "south": "uid-south"}
			c.Granted = map[string]bool{id: true}
		}
	}
	plan, err := Expel("mallory", []Cluster{newCluster("east", in("set"), knows("mallory")), newCluster("west", in("set"), knows("mallory")), newCluster("north", in("set"))})
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, step := range plan.Steps {
		steps = append(steps, step.Context+": "+step.String())
	}
	want := []string{
		"east: revoke read access for mallory", "west: revoke read access for mallory",
		"east: expel member mallory", "west: expel member mallory",
		"east: wait until shared ClusterSet IPs decided by mallory are given up", "west: wait until shared ClusterSet IPs decided by mallory are given up",
		"east: remove member mallory", "west: remove member mallory",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
	if len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], `cluster "south" is not in --from`) {
		t.Errorf("warnings are %q", plan.Warnings)
	}
	for name, test := range map[string]struct {
		peers []Cluster
		want  string
	}{
		"no cluster":             {nil, "name their contexts with --from"},
		"not a member":           {[]Cluster{newCluster("east")}, `no cluster in --from (east) has a member "mallory"`},
		"the cluster itself":     {[]Cluster{newCluster("mallory")}, `context "mallory" refers to the cluster "mallory" that is expelled`},
		"member only of another": {[]Cluster{newCluster("east", knows("other"))}, `no cluster in --from (east)`},
	} {
		if _, err := Expel("mallory", test.peers); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}

// A cluster behind a hub has no Secret of the expelled one, and must not be forgotten.
func TestExpelWarnsAboutClustersBehindAHub(t *testing.T) {
	knows := func(c *Cluster) { c.Known = map[string]types.UID{"mallory": "uid-mallory"} }
	hub := newCluster("hub", in("set"), knows, func(c *Cluster) { c.Members = map[string]Member{"mallory": {}} })
	plan, err := Expel("mallory", []Cluster{hub, newCluster("west", in("set"), knows)})
	if err != nil {
		t.Fatal(err)
	}
	const want = `cluster "west" reads "mallory" through a hub, and keeps the shared ClusterSet IPs that it decided: ` +
		`before, create a Secret of type clusterset.mcs-apiserver.io/member there, with cluster-id "mallory" and annotation clusterset.mcs-apiserver.io/expelled=true`
	if len(plan.Warnings) != 1 || plan.Warnings[0] != want {
		t.Errorf("warnings are %q", plan.Warnings)
	}
	if _, err := Expel("mallory", []Cluster{newCluster("west", in("set"), knows)}); err == nil || !strings.Contains(err.Error(), "if they read it through a hub, name the hub") {
		t.Errorf("got error %v", err)
	}
}
