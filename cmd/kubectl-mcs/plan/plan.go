// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes the steps by which clusters join and leave a ClusterSet.
// It is pure: observed clusters go in, steps come out.
package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Cluster is the observed state of a cluster.
type Cluster struct {
	// Context is the name of the kubeconfig context of the cluster.
	Context string
	UID     types.UID
	// ID and ClusterSet are the values of the cluster's claims, empty if a claim
	// does not exist.
	ID, ClusterSet string
	// GeneratedID is true if mcs-controller generated the ID, and nobody chose it.
	GeneratedID bool
	// JoinedAt is when the cluster joined the ClusterSet according to its claim.
	JoinedAt string
	// Access is how other clusters reach the cluster.
	Access Access
	// Unverified is true if the kubeconfig skips the verification of the server's
	// certificate.
	Unverified bool
	// Members has an entry for each member Secret, by cluster ID.
	Members map[string]Member
	// Known has the UIDs of all other members in the view of the cluster, by
	// cluster ID.
	Known map[string]types.UID
	// Relayed has the IDs of the hubs that members are known by only, by cluster ID.
	Relayed map[string]string
	// Connected has the IDs of the members that the cluster is connected to.
	Connected map[string]bool
	// PodCIDRs are the Pod CIDRs of the cluster's nodes, as far as nodes have them.
	PodCIDRs []string
	// NodesHidden is true if the user may not list nodes, so that PodCIDRs are unknown.
	NodesHidden bool
	// ServiceCIDRs are the Service CIDRs of the cluster, as far as they are known.
	ServiceCIDRs []string
	// Ranges are the ClusterSet IP ranges, and CIDRs are the cluster's allocation
	// CIDRs. Both are empty if the cluster does not have them.
	Ranges, CIDRs []string
	// Unlisted is true if the cluster has no entry of its own among the members,
	// because it has no ID yet. Ranges and CIDRs are unknown then.
	Unlisted bool
	// Claimed are the allocation CIDRs that the cluster claims. They differ from
	// CIDRs if a flag of mcs-apiserver takes precedence over the claim.
	Claimed []string
	// Taken are the allocation CIDRs that accepted members claim in the view of the
	// cluster, by UID, unless its Secrets say which ones they have, or it refuses them.
	Taken map[types.UID][]string
	// SharedIPs are the shared ClusterSet IPs that any member holds in the view of the
	// cluster, with the ID of one that does. A cluster that left may have allocated them.
	SharedIPs map[string]string
	// AllowedCIDRs are the CIDRs of its Pods, separated by commas, empty if the user does
	// not say.
	AllowedCIDRs string
	// Since is since when the cluster counts as a member if it joins, because it was in the
	// ClusterSet with another implementation. It is empty if it joins now.
	Since string
	// Hub is true if the user makes the cluster the hub of the others.
	Hub bool
	// Flags are all other flags that the user gave, for commands that repeat them.
	Flags []string
	// Relaying has the IDs of the clusters that the cluster is the hub of.
	Relaying map[string]bool
	// Granted has the IDs of the clusters that have any access to the cluster. The
	// value is true if their access is complete.
	Granted map[string]bool
	// Accounts has the UIDs of the service accounts of peers, by cluster ID.
	Accounts map[string]types.UID
}

// Access is how to reach a kube-apiserver.
type Access struct {
	Server, ServerName string
	CA                 string
}

// Member is the membership of another cluster.
type Member struct {
	// Kubeconfig is that of the member Secret, Token the one in it, unless it has another
	// credential or is not valid, and Access how it reaches the member.
	Kubeconfig []byte
	Token      string
	Access     Access
	// JoinedAt is when the member joined according to the Secret, empty if the Secret
	// does not say.
	JoinedAt string
	// AllocationCIDRs are the allocation CIDRs of the member according to the Secret, empty
	// if the Secret does not say.
	AllocationCIDRs string
	// AllowedCIDRs are where endpoints of the member may be according to the Secret, empty if
	// the Secret does not say.
	AllowedCIDRs string
	// RelayFor are the IDs of the clusters that the member may relay according to the Secret,
	// separated by commas.
	RelayFor string
	// Kept is all other content of the Secret.
	Kept Kept
	// Secret is the name of the Secret.
	Secret types.NamespacedName
	// Rejected is true if the member rejects the credential in the Secret.
	Rejected bool
}

// Kept is what users set in a member Secret, and joining does not change, such as limits.
type Kept struct {
	Data        map[string][]byte
	Annotations map[string]string
}

// Action is the kind of a step.
type Action string

const (
	// SetClusterID sets the cluster ID.
	SetClusterID Action = "SetClusterID"
	// GrantAccess grants peers read access to the cluster.
	GrantAccess Action = "GrantAccess"
	// AddMembers adds peers as members to the cluster.
	AddMembers Action = "AddMembers"
	// GrantRelay makes the cluster the hub of peers.
	GrantRelay Action = "GrantRelay"
	// AllowRelay records which clusters a peer may relay as a hub.
	AllowRelay Action = "AllowRelay"
	// AllowCIDRs records in which CIDRs endpoints of a peer may be.
	AllowCIDRs Action = "AllowCIDRs"
	// AssignCIDRs assigns allocation CIDRs to the cluster.
	AssignCIDRs Action = "AssignCIDRs"
	// JoinClusterSet claims the ClusterSet. The cluster is part of it from then on.
	JoinClusterSet Action = "JoinClusterSet"
	// RecordJoinTimes records when peers joined, after they did.
	RecordJoinTimes Action = "RecordJoinTimes"
	// RecordCIDRs records the allocation CIDRs of a peer.
	RecordCIDRs Action = "RecordCIDRs"
	// WaitForMembers waits until the cluster is connected to its peers.
	WaitForMembers Action = "WaitForMembers"
	// LeaveClusterSet removes the claim for the ClusterSet.
	LeaveClusterSet Action = "LeaveClusterSet"
	// RemoveMembers removes peers from the members of the cluster.
	RemoveMembers Action = "RemoveMembers"
	// RevokeAccess revokes the read access of peers.
	RevokeAccess Action = "RevokeAccess"
	// ExpelMembers expels peers, which stay listed until they are removed.
	ExpelMembers Action = "ExpelMembers"
	// WaitForDecisions waits until no export has a decision of the peers about a shared
	// ClusterSet IP.
	WaitForDecisions Action = "WaitForDecisions"
)

// Step is one change in one cluster.
type Step struct {
	// Context is the kubeconfig context of the cluster that is changed.
	Context string `json:"context"`
	Action  Action `json:"action"`
	// Value is the cluster ID, the ClusterSet, the allocation CIDRs, the allowed CIDRs, the
	// relayed clusters, or the time of joining, if an invitation says it.
	Value string `json:"value,omitempty"`
	// Before is the value that is replaced.
	Before string `json:"before,omitempty"`
	// Since is since when a cluster that joins counts as a member, if not since now.
	Since string `json:"since,omitempty"`
	// Peers are the IDs of the other clusters that the step is about.
	Peers []string `json:"peers,omitempty"`
}

// String describes the step.
func (s Step) String() string {
	peers := strings.Join(s.Peers, ", ")
	member := "member "
	if len(s.Peers) > 1 {
		member = "members "
	}
	switch s.Action {
	case SetClusterID:
		return fmt.Sprintf("set cluster ID %q", s.Value)
	case GrantAccess:
		return "grant read access to " + peers
	case AddMembers:
		return "add " + member + peers
	case GrantRelay:
		return "relay other clusters to " + peers
	case AllowRelay:
		return "let " + peers + " relay " + s.Value
	case AllowCIDRs:
		return "allow endpoints of " + peers + " in " + s.Value + s.instead()
	case AssignCIDRs:
		return "assign allocation CIDR " + s.Value
	case JoinClusterSet:
		if s.Since != "" {
			return fmt.Sprintf("join ClusterSet %q, of which it counts as a member since %s", s.Value, s.Since)
		}
		return fmt.Sprintf("join ClusterSet %q", s.Value)
	case RecordJoinTimes:
		if s.Value != "" {
			return "record that " + peers + " joined at " + s.Value + s.instead()
		}
		return "record when " + peers + " joined"
	case RecordCIDRs:
		if s.Value == clusterset.MemberSecretNoAllocationCIDRs {
			return "record that " + peers + " has no allocation CIDR" + s.instead()
		}
		return "record allocation CIDR " + s.Value + " of " + peers + s.instead()
	case WaitForMembers:
		return "wait for connection to " + peers
	case LeaveClusterSet:
		return fmt.Sprintf("leave ClusterSet %q", s.Value)
	case RemoveMembers:
		return "remove " + member + peers
	case RevokeAccess:
		return "revoke read access for " + peers
	case ExpelMembers:
		return "expel " + member + peers
	case WaitForDecisions:
		return "wait until shared ClusterSet IPs decided by " + peers + " are given up"
	}
	return string(s.Action)
}

// instead names the value that is replaced.
func (s Step) instead() string {
	if s.Before == "" {
		return ""
	}
	return " instead of " + s.Before
}

// Plan is a list of steps in the order in which they are carried out.
type Plan struct {
	Steps []Step `json:"steps"`
	// Warnings are for the user to judge; they do not prevent the plan.
	Warnings []string `json:"warnings,omitempty"`
	// Notes are for the user to know when the plan is carried out.
	Notes []string `json:"notes,omitempty"`
}
