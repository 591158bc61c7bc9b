// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// R288: neither what a member claims by now nor what it has in its Secrets changes what
// others record.
func TestRecordedCIDRsAreThoseThatMembersAgreeOn(t *testing.T) {
	patch := func(context, id, cidrs string) string {
		return "`kubectl --context " + context + " patch secret -n mcs-system member-" + id + ` --type=merge -p '{"stringData":{"allocation-cidrs":"` + cidrs + "\"}}'`"
	}
	// refused is the warning about a claim that is not the recorded one.
	refused := func(context, claim, recorded string, patches ...string) string {
		return `context "` + context + `": cluster "` + context + `" claims allocation CIDR ` + claim + ", but member Secrets of other contexts have another one (" + recorded +
			"), and its claim is refused there: correct its ClusterClaim clusterset-ip-cidr.mcs-apiserver.io or the flag --clusterset-ip-cidr of its mcs-apiserver, " +
			"or, if it should have it, correct allocation-cidrs in the Secrets (" + strings.Join(patches, ", ") + ")"
	}
	// overlapping is the warning about a claim that overlaps another one.
	overlapping := func(context, claim, other string) string {
		return fmt.Sprintf("context %q: allocation CIDR %s overlaps that of context %q and is not recorded in member Secrets: assign another one with `kubectl --context %s patch clusterclaim "+
			`clusterset-ip-cidr.mcs-apiserver.io --type=merge -p '{"spec":{"value":"CIDR"}}'`+"`, or with the flag --clusterset-ip-cidr of mcs-apiserver if it is set there, and run join again", context, claim, other, context)
	}
	for _, test := range []struct {
		name     string
		clusters []Cluster
		assigned []Step
		disabled string // is where shared ClusterSet IPs are disabled
		want     []string
		warnings []string
	}{
		{
			name: "a member claims those of another, and nothing was recorded", clusters: []Cluster{
				with(member("east", "west"), owns("243.1.0.0/16")), with(member("west", "east"), owns("243.1.1.0/24")),
			},
			warnings: []string{
				overlapping("east", "243.1.0.0/16", "west"),
				overlapping("west", "243.1.1.0/24", "east"),
			},
		},
		{
			name: "a member claims those of another, which were recorded", clusters: []Cluster{
				with(member("east", "west", "mallory"), owns("243.1.0.0/16"), records("west", "243.2.0.0/16")),
				with(member("west", "east", "mallory"), owns("243.2.0.0/16"), records("east", "243.1.0.0/16")),
				with(member("mallory", "east", "west"), owns("243.2.0.0/16"), records("east", "243.1.0.0/16")),
			},
			want:     []string{"mallory RecordCIDRs 243.2.0.0/16west"},
			warnings: []string{overlapping("mallory", "243.2.0.0/16", "west")},
		},
		{
			name: "a member claims those of another instead of its own", clusters: []Cluster{
				with(member("east", "west", "mallory"), records("west", "243.2.0.0/16"), records("mallory", "243.3.0.0/16")),
				with(member("west", "east", "mallory"), owns("243.2.0.0/16"), records("mallory", "243.3.0.0/16")),
				with(member("mallory", "east", "west"), owns("243.2.0.0/16"), records("west", "243.2.0.0/16")),
				newCluster("north", owns("243.4.0.0/16")),
			},
			want: []string{
				"east RecordCIDRs 243.4.0.0/16north", "west RecordCIDRs 243.4.0.0/16north", "mallory RecordCIDRs 243.4.0.0/16north",
				"north RecordCIDRs 243.2.0.0/16west", "north RecordCIDRs 243.3.0.0/16mallory",
			},
			warnings: []string{refused("mallory", "243.2.0.0/16", "243.3.0.0/16 in east, west", patch("east", "mallory", "243.2.0.0/16"), patch("west", "mallory", "243.2.0.0/16"))},
		},
		{ // R298
			name: "allocation CIDRs are being changed", clusters: []Cluster{
				with(member("east", "west"), owns("243.1.0.0/16"), records("west", "243.2.0.0/16,243.9.0.0/16")),
				with(member("west", "east"), owns("243.9.0.0/16"), records("east", "243.1.0.0/16")),
				newCluster("north", owns("243.4.0.0/16")),
			},
			want: []string{
				"east RecordCIDRs 243.4.0.0/16north", "west RecordCIDRs 243.4.0.0/16north",
				"north RecordCIDRs 243.1.0.0/16east", "north RecordCIDRs 243.9.0.0/16west",
			},
		},
		{ // R298
			name: "shared ClusterSet IPs are disabled", disabled: "west", clusters: []Cluster{
				with(member("east", "west"), within("243.0.0.0/8"), owns("243.1.0.0/16")), with(member("west", "east"), records("east", "243.1.0.0/16")),
				newCluster("new", unlisted()),
			},
			want: []string{"east RecordCIDRs nonewest", "new RecordCIDRs 243.1.0.0/16east", "new RecordCIDRs nonewest"},
		},
		{ // R298
			name: "shared ClusterSet IPs were disabled later", disabled: "west", clusters: []Cluster{
				with(member("east", "west"), owns("243.1.0.0/16"), records("west", "243.2.0.0/16")), with(member("west", "east"), records("east", "243.1.0.0/16")),
			},
			warnings: []string{`context "west": cluster "west" has no allocation CIDR, but member Secrets of other contexts have one (243.2.0.0/16 in east): ` +
				"if shared ClusterSet IPs stay disabled in it, replace it with none, so that the cluster cannot claim one later (" + patch("east", "west", "none") + ")"},
		},
		{ // R298
			name: "a cluster without allocation CIDRs claims some", clusters: []Cluster{
				with(member("east", "west"), owns("243.1.0.0/16"), records("west", "none")), with(member("west", "east"), owns("243.2.0.0/16"), records("east", "243.1.0.0/16")),
			},
			warnings: []string{refused("west", "243.2.0.0/16", "none in east", patch("east", "west", "243.2.0.0/16"))},
		},
		{ // R298: what a cluster claims is not part of a command.
			name: "a cluster claims something else", clusters: []Cluster{
				with(member("east", "west"), owns("243.1.0.0/16"), records("west", "243.2.0.0/16")), with(member("west", "east"), owns("$(reboot)"), records("east", "243.1.0.0/16")),
			},
			warnings: []string{refused("west", "$(reboot)", "243.2.0.0/16 in east", patch("east", "west", "CIDRS"))},
		},
		{
			name: "a member contradicts what others recorded, and claims it", clusters: []Cluster{
				with(member("mallory", "east", "west"), owns("243.2.0.0/16"), records("west", "243.9.0.0/16")),
				with(member("east", "mallory", "west"), records("west", "243.2.0.0/16")),
				with(member("south", "mallory", "east", "west"), records("west", "243.2.0.0/16")),
				with(member("west", "mallory", "east"), owns("243.2.0.0/16"), records("west", "243.7.0.0/16")),
				newCluster("north"),
			},
			warnings: []string{
				overlapping("mallory", "243.2.0.0/16", "west"),
				`context "west": member Secrets of other contexts have different allocation CIDRs of cluster "west" (243.2.0.0/16 in east, south; 243.9.0.0/16 in mallory), ` +
					"and none is recorded in further ones: correct allocation-cidrs in the Secrets that are wrong (" +
					patch("mallory", "west", "CIDRS") + ", " + patch("east", "west", "CIDRS") + ", " + patch("south", "west", "CIDRS") +
					"), or leave out contexts that are not trusted, and run join again",
			},
		},
		{
			name: "a member contradicts with those of another", clusters: []Cluster{
				with(member("mallory", "east", "west"), records("west", "243.1.0.0/16"), records("east", "243.1.0.0/16")),
				with(member("east", "mallory", "west"), owns("243.1.0.0/16"), records("west", "243.2.0.0/16")),
				with(member("west", "mallory", "east"), owns("243.2.0.0/16")),
			},
			want: []string{"west RecordCIDRs 243.1.0.0/16east"},
			warnings: []string{
				`context "west": member Secrets of other contexts have different allocation CIDRs of cluster "west" (243.1.0.0/16 in mallory; 243.2.0.0/16 in east), ` +
					"and none is recorded in further ones: correct allocation-cidrs in the Secrets that are wrong (" +
					patch("mallory", "west", "CIDRS") + ", " + patch("east", "west", "CIDRS") + "), or leave out contexts that are not trusted, and run join again",
			},
		},
		{
			name: "the same in another order", clusters: []Cluster{
				with(member("east", "west"), records("west", "243.2.0.0/16,fd00::/112")), with(member("south", "west"), records("west", "fd00::/112, 243.2.0.0/16")),
				member("west", "east"), newCluster("north"),
			},
			want: []string{"north RecordCIDRs 243.2.0.0/16,fd00::/112west"},
		},
		{
			name: "a joining cluster has records", clusters: []Cluster{
				newCluster("mallory", records("west", "243.9.0.0/16")), member("east", "west"), with(member("west", "east"), owns("243.2.0.0/16")),
			},
			want: []string{"east RecordCIDRs 243.2.0.0/16west"},
		},
		{
			name: "a cluster is assigned others than recorded", clusters: []Cluster{with(member("east", "west"), records("west", "243.9.0.0/16")), member("west", "east")},
			assigned: []Step{{Context: "west", Action: AssignCIDRs, Value: "243.2.0.0/16"}},
			want:     []string{"east RecordCIDRs 243.2.0.0/16west"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.clusters {
				if c := &test.clusters[i]; c.Context != test.disabled && !c.Unlisted {
					c.Ranges = []string{"243.0.0.0/8"}
				}
			}
			planned, warnings := recordCIDRs(test.clusters, test.assigned)
			if diff := cmp.Diff(test.want, steps(Plan{Steps: planned})); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("unexpected warnings (-want +got):\n%s", diff)
			}
		})
	}
}
