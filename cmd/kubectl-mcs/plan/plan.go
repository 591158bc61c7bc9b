// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what has to be done for clusters to join or leave a
// ClusterSet. It is pure: what is there goes in, what to do comes out.
package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Cluster is a cluster as it was found.
type Cluster struct {
	// Context is how the user calls it.
	Context string
	UID     types.UID
	// ID and ClusterSet are its claims: empty where there is none.
	ID, ClusterSet string
	// Access is how other clusters reach it.
	Access Access
	// Unverified is true when the user does not verify whom he talks to.
	Unverified bool
	// Members are the clusters that it has Secrets for, by their ids.
	Members map[string]Member
	// Known are the UIDs of all clusters that are members there, by their ids,
	// without itself.
	Known map[string]types.UID
	// PodCIDRs are the Pod networks of its nodes, as far as these say.
	PodCIDRs []string
	// Ranges are where IPs may be that are the same in all clusters, and CIDRs are
	// the cluster's own part of them: nothing where it has none.
	Ranges, CIDRs []string
	// Unlisted is true of a cluster that does not say what its Ranges and CIDRs
	// are, because it is not among its own members before it has an id.
	Unlisted bool
	// Claimed is the part that it claims. It is not the one that it has, if that
	// was given to mcs-apiserver by a flag.
	Claimed []string
	// Taken are the parts of all clusters that it knows, by their UIDs.
	Taken map[types.UID][]string
	// Admitted are the ids of the clusters for which there is anything that lets
	// them read from it, true if that is everything.
	Admitted map[string]bool
}

// Access is how to reach a kube-apiserver.
type Access struct {
	Server, ServerName string
	CA                 string
}

// Member is what a cluster has for a member.
type Member struct {
	// Access is what its Secret says.
	Access Access
	// Refuses is true when the member does not accept the credential.
	Refuses bool
}

// Action is what a step does.
type Action string

const (
	// SetID makes a cluster claim an id.
	SetID Action = "SetID"
	// Admit lets other clusters read from a cluster.
	Admit Action = "Admit"
	// AddMembers makes other clusters members in a cluster.
	AddMembers Action = "AddMembers"
	// AssignIPs gives a cluster its part of the IPs that are the same in all.
	AssignIPs Action = "AssignIPs"
	// Claim makes a cluster claim a ClusterSet: from then on it is a member.
	Claim Action = "Claim"
	// Await waits until a cluster is in touch with other clusters.
	Await Action = "Await"
	// Unclaim makes a cluster claim no ClusterSet any more.
	Unclaim Action = "Unclaim"
	// RemoveMembers ends that other clusters are members in a cluster.
	RemoveMembers Action = "RemoveMembers"
	// Expel ends that other clusters may read from a cluster.
	Expel Action = "Expel"
)

// Step is one thing to do in one cluster.
type Step struct {
	// Context is the cluster in which it is done.
	Context string `json:"context"`
	Action  Action `json:"action"`
	// Value is the id, the ClusterSet or the addresses that are claimed, or no more.
	Value string `json:"value,omitempty"`
	// Peers are the ids of the other clusters that it is about.
	Peers []string `json:"peers,omitempty"`
}

// String says what the step does.
func (s Step) String() string {
	peers := strings.Join(s.Peers, ", ")
	switch s.Action {
	case SetID:
		return fmt.Sprintf("claim the id %q", s.Value)
	case Admit:
		return "let " + peers + " read what is exported"
	case AddMembers:
		if len(s.Peers) == 1 {
			return "add " + peers + " as a member"
		}
		return "add " + peers + " as members"
	case AssignIPs:
		return "use " + s.Value + " for IPs that are the same in all clusters"
	case Claim:
		return fmt.Sprintf("join the ClusterSet %q", s.Value)
	case Await:
		return "wait for " + peers
	case Unclaim:
		return fmt.Sprintf("leave the ClusterSet %q", s.Value)
	case RemoveMembers:
		return "remove the members " + peers
	case Expel:
		return "take the right to read from " + peers
	}
	return string(s.Action)
}

// Plan is what to do, in this order.
type Plan struct {
	Steps []Step `json:"steps"`
	// Warnings are what the user should know and may have meant.
	Warnings []string `json:"warnings,omitempty"`
}
