// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// clusterStatus is the ClusterSet in the view of one cluster.
type clusterStatus struct {
	// Context is the kubeconfig context of the cluster.
	Context string `json:"context"`
	// ClusterID and ClusterSet are empty if the cluster has no such claim.
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Error is the reason why the cluster could not be queried. Other fields are
	// empty then.
	Error string `json:"error,omitempty"`
	// Members are all members, including the cluster itself, sorted by name.
	Members []memberStatus `json:"members,omitempty"`
}

// memberStatus is a row of the table.
type memberStatus struct {
	Name      string                         `json:"name"`
	State     clustersetv1alpha1.MemberState `json:"state"`
	LastSeen  *metav1.Time                   `json:"lastSeen,omitempty"`
	Exports   int32                          `json:"exports"`
	Endpoints int32                          `json:"endpoints"`
	// Conflicts is the number of its exports whose service is not exported alike
	// by all clusters.
	Conflicts int `json:"conflicts"`
	// Problems are the conditions that are not True.
	Problems []string `json:"problems,omitempty"`
}

// newClusterStatus builds the report of one cluster.
func newClusterStatus(context string, entries []clustersetv1alpha1.Member, exported []clustersetv1alpha1.ExportedService) clusterStatus {
	report := clusterStatus{Context: context}
	report.ClusterID, report.ClusterSet = members.Identity(entries)
	conflicts := conflictsByCluster(exported)
	for i := range entries {
		member := &entries[i]
		report.Members = append(report.Members, memberStatus{
			Name: member.Name, State: member.Status.State, LastSeen: member.Status.LastSeen,
			Exports: member.Status.Exports, Endpoints: member.Status.Endpoints, Conflicts: conflicts[member.Name],
			Problems: conditions.Problems(member.Status.Conditions),
		})
	}
	slices.SortFunc(report.Members, func(a, b memberStatus) int { return cmp.Compare(a.Name, b.Name) })
	return report
}

// conflictsByCluster counts, for each cluster, the exported services whose exports
// conflict.
func conflictsByCluster(exported []clustersetv1alpha1.ExportedService) map[string]int {
	services := map[types.NamespacedName][]merge.Export{}
	for i := range exported {
		key := types.NamespacedName{Namespace: exported[i].Namespace, Name: exported[i].Spec.Service}
		services[key] = append(services[key], merge.FromV1alpha1(&exported[i]))
	}
	conflicts := map[string]int{}
	for _, exports := range services {
		merged := merge.Merge(exports)
		if len(merged.Conflicts) == 0 {
			continue
		}
		for _, cluster := range merged.Clusters {
			conflicts[cluster]++
		}
	}
	return conflicts
}

// writeStatus writes the reports as text.
func writeStatus(out io.Writer, reports []clusterStatus, now time.Time) error {
	for i, report := range reports {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, printer.Escape(report.heading()))
		if len(report.Members) == 0 {
			continue
		}
		rows := [][]string{{"MEMBER", "STATE", "LAST-SEEN", "EXPORTS", "ENDPOINTS", "CONFLICTS", "REASON"}}
		for _, member := range report.Members {
			rows = append(rows, member.row(now))
		}
		if err := printer.WriteTable(out, "", rows); err != nil {
			return err
		}
	}
	return nil
}

func (r clusterStatus) heading() string {
	switch {
	case r.Error != "":
		return fmt.Sprintf("Context %s: cannot query cluster: %s", r.Context, r.Error)
	case r.ClusterID != "" && r.ClusterSet != "":
		return fmt.Sprintf("Context %s: cluster %s in ClusterSet %s", r.Context, r.ClusterID, r.ClusterSet)
	case r.ClusterID != "":
		return fmt.Sprintf("Context %s: cluster %s is not in a ClusterSet: %s", r.Context, r.ClusterID, members.JoinAdvice)
	}
	return fmt.Sprintf("Context %s: cluster is not in a ClusterSet: %s", r.Context, members.JoinAdvice)
}

func (m memberStatus) row(now time.Time) []string {
	lastSeen := "never"
	switch {
	case m.State == clustersetv1alpha1.MemberLocal:
		lastSeen = "-"
	case m.LastSeen != nil:
		lastSeen = printer.Age(now, m.LastSeen.Time)
	}
	return []string{
		m.Name, string(m.State), lastSeen, strconv.Itoa(int(m.Exports)), strconv.Itoa(int(m.Endpoints)), strconv.Itoa(m.Conflicts),
		strings.Join(m.Problems, "; "),
	}
}
