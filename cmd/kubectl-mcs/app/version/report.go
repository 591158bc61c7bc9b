// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// report is what the command prints.
type report struct {
	ClientVersion string            `json:"clientVersion"`
	Clusters      []clusterVersions `json:"clusters,omitempty"`
}

// clusterVersions are the versions that one cluster knows.
type clusterVersions struct {
	// Context is the kubeconfig context of the cluster.
	Context string `json:"context"`
	// ServerVersion is that of mcs-apiserver in the cluster; empty if it is unknown.
	ServerVersion string `json:"serverVersion,omitempty"`
	// Error is the reason why the cluster could not be queried. Other fields are empty
	// then.
	Error string `json:"error,omitempty"`
	// Members are all other members, sorted by name.
	Members []memberVersion `json:"members,omitempty"`
}

// memberVersion is a row of the table.
type memberVersion struct {
	Name    string                         `json:"name"`
	State   clustersetv1alpha1.MemberState `json:"state"`
	Version string                         `json:"version,omitempty"`
}

// newClusterVersions returns the versions in a members list.
func newClusterVersions(context string, entries []clustersetv1alpha1.Member) clusterVersions {
	versions := clusterVersions{Context: context}
	for i := range entries {
		status := &entries[i].Status
		if status.State == clustersetv1alpha1.MemberLocal {
			versions.ServerVersion = status.Version
			continue
		}
		versions.Members = append(versions.Members, memberVersion{entries[i].Name, status.State, status.Version})
	}
	slices.SortFunc(versions.Members, func(a, b memberVersion) int { return cmp.Compare(a.Name, b.Name) })
	return versions
}

// write writes the report as text.
func (r report) write(out io.Writer) error {
	fmt.Fprintln(out, "Client:", r.ClientVersion)
	for _, versions := range r.Clusters {
		fmt.Fprintln(out)
		fmt.Fprintln(out, printer.Escape(versions.heading()))
		if len(versions.Members) == 0 {
			continue
		}
		rows := [][]string{{"MEMBER", "STATE", "VERSION"}}
		for _, member := range versions.Members {
			rows = append(rows, []string{member.Name, string(member.State), orUnknown(member.Version)})
		}
		if err := printer.WriteTable(out, "", rows); err != nil {
			return err
		}
	}
	return nil
}

func (v clusterVersions) heading() string {
	if v.Error != "" {
		return fmt.Sprintf("Context %s: cannot query cluster: %s", v.Context, v.Error)
	}
	return fmt.Sprintf("Context %s: mcs-apiserver %s", v.Context, orUnknown(v.ServerVersion))
}

func orUnknown(version string) string { return cmp.Or(version, "unknown") }
