// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceimport

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

func TestTableOfImports(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	imported := func(name string, spec multicluster.ServiceImportSpec, status multicluster.ServiceImportStatus) multicluster.ServiceImport {
		return multicluster.ServiceImport{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: spec, Status: status,
		}
	}
	list := &multicluster.ServiceImportList{Items: []multicluster.ServiceImport{
		imported("web", multicluster.ServiceImportSpec{
			Type: multicluster.ClusterSetIP, IPs: []string{"10.0.0.1", "fd00::1"},
			Ports: []multicluster.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}, {Port: 53, Protocol: corev1.ProtocolUDP}},
		}, multicluster.ServiceImportStatus{
			Clusters:   []multicluster.ClusterStatus{{Cluster: "a"}, {Cluster: "b"}},
			Conditions: []metav1.Condition{{Type: multicluster.ServiceImportReady, Status: metav1.ConditionTrue, Reason: "Ready"}},
		}),
		imported("db", multicluster.ServiceImportSpec{Type: multicluster.Headless}, multicluster.ServiceImportStatus{Conditions: []metav1.Condition{
			{Type: multicluster.ServiceImportReady, Status: metav1.ConditionFalse, Reason: "Pending"},
			{Type: multicluster.ServiceImportMembersReachable, Status: metav1.ConditionFalse, Reason: "MembersLost"},
		}}),
	}}
	table, err := newTable(testingclock.NewFakePassiveClock(now)).ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			columns = append(columns, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Type", "IP", "Ports", "Clusters", "Age"}, columns); diff != "" {
		t.Errorf("columns: %s", diff)
	}
	var rows [][]any
	for _, row := range table.Rows {
		rows = append(rows, row.Cells)
	}
	want := [][]any{
		{"web", "ClusterSetIP", "10.0.0.1,fd00::1", "80/TCP,53/UDP", "a,b", "True", "60m"},
		{"db", "Headless", "<none>", "<none>", "<none>", "Pending,MembersLost", "60m"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows: %s", diff)
	}
}
