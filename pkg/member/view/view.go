// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view computes the entries of the members list from snapshots of what
// is known about the clusters.
package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "mcs-apiserver"
	// maxClusterSet limits the name of a ClusterSet that is not that of this cluster, in
	// characters.
	maxClusterSet = 253
)

// Peer is a snapshot of the cluster that one Secret leads to.
type Peer struct {
	// Name is the name of the entry.
	Name          string
	SecretUID     types.UID
	SecretCreated metav1.Time
	// SecretProblem is set if the Secret is invalid.
	SecretProblem error
	ClusterID     string
	ClusterUID    types.UID
	// ClusterSet is that of this cluster.
	ClusterSet string
	// Claims is nil until they have been read.
	Claims     *identity.Claims
	Acceptance acceptance.Result
	State      clusterset.MemberState
	// Expired is set if the member has been silent for its TTL, and Overdue if for so long
	// that endpoints are not kept.
	Expired, Overdue bool
	// Look is what was last found about its endpoints; nil if they were not asked.
	Look *liveness.Look
	// LastSeen is when any replica last saw the member, or counts as having seen it. SeenElsewhere is set if that
	// was another one than this, while this one was running.
	LastSeen      time.Time
	SeenElsewhere bool
	TTL           time.Duration
	LostPolicy    clusterset.LostPolicy
	// Entry is the member's own entry in its members list; nil until it has been read.
	Entry           *clusterset.Member
	AllocationCIDRs []string
	// Properties are its ClusterProperties, as read or recalled.
	Properties []clusterset.ClusterProperty
	// Exports and Endpoints are how much of the member's own exports is held.
	Exports, Endpoints int32
	Feed               Feed
	// Outdated is set while another replica may know newer exports, or the member was lost and
	// has not been read since.
	Outdated bool
	// Mutual and Allocation are conditions that depend on the other clusters.
	Mutual     metav1.Condition
	Allocation *metav1.Condition
	// JoinedAt is when the member joined according to its Secret; zero if the Secret
	// does not say. Backdated are the exports that claim to be older than possible.
	JoinedAt  time.Time
	Backdated *exports.Backdated
	// Previous are the conditions of the entry before, for their transition times.
	Previous []metav1.Condition
}

// Feed is a snapshot of how reading a member goes.
type Feed struct {
	// Running is false if nothing is read from the member.
	Running bool
	// Unrecorded is set while what the member exported before is unknown.
	Unrecorded bool
	// Errors of the last attempts; nil if they succeeded.
	ProbeError, ClaimsError error
	ReadErrors              [exports.Kinds]error
	// Listed tells which kinds have been read completely.
	Listed [exports.Kinds]bool
	// Unconfirmed is how many objects are kept although they were not listed.
	Unconfirmed int
	Rejected    [exports.Kinds]*exports.Rejections
	// RefusedEntries is how many entries in the members list of the member are refused,
	// completely or in part, and FirstEntry describes one of them.
	RefusedEntries int
	FirstEntry     string
}

// Complete reports whether everything that the member exports is known.
func (f Feed) Complete() bool {
	return f.Listed == [exports.Kinds]bool{true, true} && f.Unconfirmed == 0
}

// Member returns the entry of a peer.
func Member(p Peer, now time.Time) *clusterset.Member {
	entry := &clusterset.Member{ObjectMeta: metav1.ObjectMeta{
		Name: p.Name, UID: p.SecretUID, CreationTimestamp: p.SecretCreated, Labels: map[string]string{managedByLabel: managedBy},
	}}
	status := &entry.Status
	status.ClusterID, status.ClusterUID, status.State = p.ClusterID, p.ClusterUID, p.State
	if p.Claims != nil {
		status.ClusterSet, status.IDClaimedAt = p.Claims.ClusterSet, Timestamp(p.Claims.ClaimedAt)
		if !p.Acceptance.Accepted { // it may be any text
			status.ClusterSet = truncate.Message(status.ClusterSet, maxClusterSet)
		}
		if p.JoinedAt.After(p.Claims.ClaimedAt) {
			status.IDClaimedAt = Timestamp(p.JoinedAt)
		}
	} else if p.Acceptance.Accepted {
		status.ClusterSet = p.ClusterSet
	}
	status.LastSeen = Timestamp(p.LastSeen)
	status.TTLSeconds, status.LostPolicy, status.Expired, status.Overdue = int32(p.TTL/time.Second), p.LostPolicy, p.Expired, p.Overdue
	status.Exports, status.Endpoints, status.Synced = p.Exports, p.Endpoints, p.Feed.Complete()
	status.ClusterSetIPCIDRs = p.AllocationCIDRs
	if p.Entry != nil {
		reported := &p.Entry.Status
		status.ClusterSetIPRanges, status.Version = reported.ClusterSetIPRanges, reported.Version
		status.KubernetesVersion = reported.KubernetesVersion
	}
	status.Properties = p.Properties
	status.Conditions = slices.Clone(p.Previous)
	setCondition(&status.Conditions, now, accepted(p))
	setCondition(&status.Conditions, now, reachable(p))
	setOrRemove(&status.Conditions, now, clusterset.MemberEndpointsReachable, endpointsReachable(p))
	setCondition(&status.Conditions, now, synced(p))
	setCondition(&status.Conditions, now, p.Mutual)
	setOrRemove(&status.Conditions, now, clusterset.MemberClusterSetIP, p.Allocation)
	setCondition(&status.Conditions, now, exportAges(p))
	return entry
}

// Timestamp returns a time with the resolution that it is served with, nil if
// it is zero.
func Timestamp(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	seconds := metav1.NewTime(at).Rfc3339Copy()
	return &seconds
}

// Local is a snapshot of this cluster.
type Local struct {
	Identity identity.Cluster
	// Version is that of this program.
	Version string
	// KubernetesVersion and Properties are what this cluster tells about itself.
	KubernetesVersion  string
	Properties         []clusterset.ClusterProperty
	Exports, Endpoints int32
	// Peers are the IDs of all members, sorted.
	Peers []string
	// UnlistedReaders are clusters that read from this one without being members, sorted.
	UnlistedReaders []string
	AllocationCIDRs []string
	// Ranges are the ClusterSet IP ranges.
	Ranges     []string
	Allocation *metav1.Condition
	// Previous are the conditions of the entry before, for their transition times.
	Previous []metav1.Condition
}

// Own returns the entry of this cluster, which the other clusters read. It is
// nil for a cluster without an ID.
func Own(l Local, now time.Time) *clusterset.Member {
	self := l.Identity
	if self.ID == "" {
		return nil
	}
	own := &clusterset.Member{ObjectMeta: metav1.ObjectMeta{
		Name: self.ID, UID: self.UID, CreationTimestamp: metav1.NewTime(self.Since).Rfc3339Copy(), Labels: map[string]string{managedByLabel: managedBy},
	}}
	own.Status = clusterset.MemberStatus{
		ClusterID: self.ID, ClusterUID: self.UID, ClusterSet: self.ClusterSet, IDClaimedAt: Timestamp(self.IDClaimedAt), Version: l.Version,
		KubernetesVersion: l.KubernetesVersion, Properties: l.Properties,
		State: clusterset.MemberLocal, Exports: l.Exports, Endpoints: l.Endpoints, Synced: true,
		Peers: l.Peers, ClusterSetIPCIDRs: l.AllocationCIDRs, ClusterSetIPRanges: l.Ranges, Conditions: slices.Clone(l.Previous),
	}
	mutual := metav1.Condition{Type: clusterset.MemberMutual, Status: metav1.ConditionTrue, Reason: "Mutual", Message: "all clusters reading from this one are members"}
	if len(l.UnlistedReaders) > 0 {
		mutual.Status, mutual.Reason = metav1.ConditionFalse, "UnlistedReader"
		mutual.Message = fmt.Sprintf("exports of this cluster are read by clusters that are not members here: %s; let them invite this cluster, and accept (kubectl mcs invite, kubectl mcs accept), run kubectl mcs join with them, or create Secrets for them; or revoke their read access",
			strings.Join(l.UnlistedReaders, ", "))
	}
	setCondition(&own.Status.Conditions, now, mutual)
	setOrRemove(&own.Status.Conditions, now, clusterset.MemberClusterSetIP, l.Allocation)
	return own
}
