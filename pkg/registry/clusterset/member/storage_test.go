// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func entry(name string, status clusterset.MemberStatus) clusterset.Member {
	return clusterset.Member{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-48 * time.Hour))}, Status: status}
}

func TestTableOfMembers(t *testing.T) {
	seen := metav1.NewTime(now.Add(-90 * time.Second))
	list := &clusterset.MemberList{Items: []clusterset.Member{
		entry("a", clusterset.MemberStatus{ClusterSet: "set", State: clusterset.MemberLocal, Exports: 3, Endpoints: 7, LastSeen: &seen}),
		entry("b", clusterset.MemberStatus{ClusterSet: "set", State: clusterset.MemberLost, LastSeen: &seen, Exports: 1, Endpoints: 2, ClusterSetIPCIDRs: []string{"243.1.0.0/16", "fd00::/112"}}),
		entry("secret.c", clusterset.MemberStatus{State: clusterset.MemberRefused}),
	}}
	table, err := newTable(testingclock.NewFakePassiveClock(now)).ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var columns, wide []string
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, column.Name)
		if column.Priority > 0 {
			wide = append(wide, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"ID", "ClusterSet", "State", "Last-Seen", "Exports", "Endpoints", "Allocation-CIDRs", "Reason", "Age"}, columns); diff != "" {
		t.Errorf("columns: %s", diff)
	}
	if diff := cmp.Diff([]string{"Allocation-CIDRs", "Reason"}, wide); diff != "" {
		t.Errorf("wide columns: %s", diff)
	}
	var rows [][]any
	for _, row := range table.Rows {
		rows = append(rows, row.Cells)
	}
	want := [][]any{
		{"a", "set", "Local", "-", int32(3), int32(7), "<none>", "<none>", "2d"},
		{"b", "set", "Lost", "90s", int32(1), int32(2), "243.1.0.0/16,fd00::/112", "<none>", "2d"},
		{"secret.c", "<none>", "Refused", "never", int32(0), int32(0), "<none>", "<none>", "2d"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows: %s", diff)
	}
}

func TestReasonListsProblems(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: reason, Status: status, Reason: reason, Message: "because"}
	}
	for _, test := range []struct {
		name       string
		conditions []metav1.Condition
		want       string
	}{
		{"nothing", []metav1.Condition{condition("True", "Fine")}, ""},
		{"all that is wrong", []metav1.Condition{condition("False", "One"), condition("True", "Fine"), condition("False", "Two")}, "One: because; Two: because"},
		{"what is wrong explains what is unknown", []metav1.Condition{condition("Unknown", "Maybe"), condition("False", "One")}, "One: because"},
		{"what is unknown, if nothing explains it", []metav1.Condition{condition("Unknown", "Maybe")}, "Maybe: because"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(conditions.Problems(test.conditions), "; "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestMembersAreClusterScopedAndWatchesAreBounded(t *testing.T) {
	resource := Resource(nil)
	if resource.Namespaced || resource.Feed == nil {
		t.Errorf("got %+v", resource)
	}
}
