// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package response

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// texts returns distinct texts.
func texts(count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("text-%d", i))
	}
	return all
}

// filled returns an entry of which everything is used.
func filled(name string, state clustersetv1alpha1.MemberState) clustersetv1alpha1.Member {
	return clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: clustersetv1alpha1.MemberStatus{
			ClusterID: name, ClusterUID: types.UID("uid-" + name), ClusterSet: "set", Version: "v1.2.3", State: state, LostPolicy: "Keep",
			ClusterSetIPCIDRs: texts(MaxCIDRs), ClusterSetIPRanges: texts(MaxCIDRs), Peers: texts(MaxClusters), Path: texts(maxPath),
		},
	}
}

func read(t *testing.T, items ...clustersetv1alpha1.Member) *Entries {
	t.Helper()
	entries, err := Members(&clustersetv1alpha1.MemberList{Items: items})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// R280: lists and texts of an entry are limited. What exceeds a limit is not used and
// reported, and the rest of the entry is used.
func TestEntriesAreLimited(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, test := range []struct {
		name   string
		change func(*clustersetv1alpha1.Member)
		// refused is a part of what is reported, want what is used; nil if nothing is.
		refused string
		want    func(*clustersetv1alpha1.Member)
	}{
		{"within the limits", func(*clustersetv1alpha1.Member) {}, "", func(*clustersetv1alpha1.Member) {}},
		{"CIDRs", func(m *clustersetv1alpha1.Member) { m.Status.ClusterSetIPCIDRs = texts(100_000) },
			"status.clusterSetIPCIDRs has 100000 items, at most 16", func(m *clustersetv1alpha1.Member) { m.Status.ClusterSetIPCIDRs = nil }},
		{"long CIDR", func(m *clustersetv1alpha1.Member) { m.Status.ClusterSetIPCIDRs = []string{long} },
			"status.clusterSetIPCIDRs has 1 items", func(m *clustersetv1alpha1.Member) { m.Status.ClusterSetIPCIDRs = nil }},
		{"ranges", func(m *clustersetv1alpha1.Member) { m.Status.ClusterSetIPRanges = texts(MaxCIDRs + 1) },
			"status.clusterSetIPRanges has 17 items", func(m *clustersetv1alpha1.Member) { m.Status.ClusterSetIPRanges = nil }},
		{"peers", func(m *clustersetv1alpha1.Member) { m.Status.Peers = texts(MaxClusters + 1) },
			"status.peers has 1001 items, at most 1000", func(*clustersetv1alpha1.Member) {}},
		{"long peer", func(m *clustersetv1alpha1.Member) { m.Status.Peers = []string{"a", long} },
			"status.peers has 2 items", func(m *clustersetv1alpha1.Member) { m.Status.Peers = []string{"a"} }},
		{"path", func(m *clustersetv1alpha1.Member) { m.Status.Path = texts(maxPath + 1) }, "status.path has 17 items", nil},
		{"long path", func(m *clustersetv1alpha1.Member) { m.Status.Path = []string{long} }, "status.path has 1 items", nil},
		{"path that is not one of clusters", func(m *clustersetv1alpha1.Member) { m.Status.Path = []string{"b", "call 555"} }, "status.path has 2 items", nil},
		{"name", func(m *clustersetv1alpha1.Member) { m.Name = long }, "name has 254 bytes", nil},
		{"ID", func(m *clustersetv1alpha1.Member) { m.Status.ClusterID = long }, "status.clusterID",
			func(m *clustersetv1alpha1.Member) {
				m.Status.ClusterID, m.Status.ClusterSet, m.Status.State, m.Status.LostPolicy = "", "", "", ""
			}},
		// R346
		{"version", func(m *clustersetv1alpha1.Member) { m.Status.Version = long }, "status.version has 254 bytes, at most 253",
			func(m *clustersetv1alpha1.Member) { m.Status.Version = "" }},
		{"control characters in the version", func(m *clustersetv1alpha1.Member) { m.Status.Version = "v1\x1b[2J" }, "",
			func(m *clustersetv1alpha1.Member) { m.Status.Version = "v1\ufffd[2J" }},
		// R504
		{"ClusterProperties", func(m *clustersetv1alpha1.Member) {
			m.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "here"}}
		}, "", func(m *clustersetv1alpha1.Member) {
			m.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "here"}}
		}},
		{"ClusterProperty that is reserved", func(m *clustersetv1alpha1.Member) {
			m.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "id.k8s.io", Value: "another"}}
		}, "status.properties has 1 items, at most 16 with different DNS names that are not reserved", func(m *clustersetv1alpha1.Member) { m.Status.Properties = nil }},
		{"ClusterProperty with control characters", func(m *clustersetv1alpha1.Member) {
			m.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "\x1b[2J"}}
		}, "status.properties has 1 items", func(m *clustersetv1alpha1.Member) { m.Status.Properties = nil }},
		{"metadata", func(m *clustersetv1alpha1.Member) {
			m.Labels, m.Annotations, m.Finalizers, m.ManagedFields = map[string]string{"a": long}, map[string]string{"a": long}, texts(1000), make([]metav1.ManagedFieldsEntry, 1000)
			m.GenerateName, m.Namespace, m.Kind, m.UID, m.CreationTimestamp = long, long, long, "uid", metav1.Now() // R277
		}, "", func(*clustersetv1alpha1.Member) {}},
		{"conditions", func(m *clustersetv1alpha1.Member) { m.Status.Conditions = make([]metav1.Condition, maxConditions+1) },
			"status.conditions has 17 items", func(*clustersetv1alpha1.Member) {}},
		{"text of a condition", func(m *clustersetv1alpha1.Member) {
			m.Status.Conditions = []metav1.Condition{{Type: "x\x1b[2J", Status: "True", Reason: "y\x00", Message: strings.Repeat("\n", 1<<20)}}
		}, "", func(m *clustersetv1alpha1.Member) {
			m.Status.Conditions = []metav1.Condition{{Type: "x\ufffd[2J", Status: "True", Reason: "y\ufffd", Message: strings.Repeat(" ", maxMessage-1) + "…"}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			given, want := filled("b", "Connected"), filled("b", "Connected")
			test.change(&given)
			got := read(t, given)
			if (got.Refused == 1) != (test.refused != "") || !strings.Contains(got.First, test.refused) || len(got.First) > maxMessage {
				t.Errorf("%d are refused: %s", got.Refused, got.First)
			}
			if test.want == nil {
				if len(got.Members) > 0 {
					t.Errorf("got %+v", got.Members)
				}
				return
			}
			test.want(&want)
			expected := &clusterset.Member{}
			if err := clustersetv1alpha1.Convert_v1alpha1_Member_To_clusterset_Member(&want, expected, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected, got.Members["b"]); diff != "" {
				t.Errorf("unexpected (-want +got):\n%s", diff)
			}
		})
	}
}

// R280: a hub relays a limited number of clusters. Its own entry is always used.
func TestNumberOfEntriesIsLimited(t *testing.T) {
	var items []clustersetv1alpha1.Member
	for _, id := range texts(MaxClusters + 5) {
		items = append(items, filled(id, "Connected"))
	}
	items = append(items, filled("zoo", clustersetv1alpha1.MemberLocal))
	slices.Reverse(items)
	got := read(t, items...)
	if len(got.Members) != MaxClusters+1 || got.Members["zoo"] == nil || got.Members["text-0"] == nil || got.Refused != 5 {
		t.Errorf("got %d entries, %d are refused: %s", len(got.Members), got.Refused, got.First)
	}
	if again := read(t, items[3:]...); again.Members["text-999"] != nil {
		t.Error("which entries are used depends on their order")
	}
}

// A cluster cannot have a UID that no namespace has.
func TestInvalidUIDIsAnError(t *testing.T) {
	entry := filled("b", clustersetv1alpha1.MemberLocal)
	entry.Status.ClusterUID = "not a UID"
	if _, err := Members(&clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{entry}}); err == nil || !strings.Contains(err.Error(), "clusterUID") {
		t.Errorf("got %v", err)
	}
}
