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

// clusterStatus is how a ClusterSet looks from one of its clusters.
type clusterStatus struct {
	// Context is the context that leads to the cluster.
	Context string `json:"context"`
	// ClusterID and ClusterSet are empty when the cluster claims none.
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Error is why the cluster could not be asked. Nothing else is known then.
	Error string `json:"error,omitempty"`
	// Members are those that the cluster lists, itself included, by name.
	Members []memberStatus `json:"members,omitempty"`
}

// memberStatus is one line of the table.
type memberStatus struct {
	Name      string                         `json:"name"`
	State     clustersetv1alpha1.MemberState `json:"state"`
	LastSeen  *metav1.Time                   `json:"lastSeen,omitempty"`
	Exports   int32                          `json:"exports"`
	Endpoints int32                          `json:"endpoints"`
	// Conflicts is how many of its exports are about services that some
	// clusters export differently than others.
	Conflicts int `json:"conflicts"`
	// Problems are what is wrong with it.
	Problems []string `json:"problems,omitempty"`
}

// newClusterStatus is what follows from what a cluster answered.
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

// conflictsByCluster counts, per cluster, the services that it exports and
// whose exports cannot be merged without a conflict.
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

// writeStatus writes the report for people.
func writeStatus(out io.Writer, reports []clusterStatus, now time.Time) error {
	for i, report := range reports {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, printer.Printable(report.heading()))
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
		return fmt.Sprintf("Context %s: cannot be asked: %s", r.Context, r.Error)
	case r.ClusterID != "" && r.ClusterSet != "":
		return fmt.Sprintf("Context %s: cluster %s of ClusterSet %s", r.Context, r.ClusterID, r.ClusterSet)
	case r.ClusterID != "":
		return fmt.Sprintf("Context %s: cluster %s is in no ClusterSet: %s", r.Context, r.ClusterID, members.JoinAdvice)
	}
	return fmt.Sprintf("Context %s: the cluster is in no ClusterSet: %s", r.Context, members.JoinAdvice)
}

func (m memberStatus) row(now time.Time) []string {
	seen := "never"
	switch {
	case m.State == clustersetv1alpha1.MemberLocal:
		seen = "-"
	case m.LastSeen != nil:
		seen = printer.Age(now, m.LastSeen.Time)
	}
	return []string{
		m.Name, string(m.State), seen, strconv.Itoa(int(m.Exports)), strconv.Itoa(int(m.Endpoints)), strconv.Itoa(m.Conflicts),
		strings.Join(m.Problems, "; "),
	}
}
