// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
)

// Visible returns how many Services and endpoints of what a Member counts a peer can read, and
// false if that is not known, because the Member is outdated. It MUST NOT BLOCK.
type Visible func(name, peer string) (exports, endpoints int32, known bool)

// redact returns a Member as a peer sees it: the entry of this cluster and, if this
// cluster is a hub for the peer, those of its members, without messages, which contain
// addresses and what other clusters responded. Of any other member, a peer learns the
// identity only.
func (visible Visible) redact(view peerview.View, object runtime.Object) runtime.Object {
	member, ok := object.(*clusterset.Member)
	if !ok {
		return object
	}
	redacted := *member
	if member.Status.State != clusterset.MemberLocal && !view.Relayed {
		redacted.ObjectMeta = metav1.ObjectMeta{Name: member.Name, ResourceVersion: member.ResourceVersion}
		redacted.Status = identityOf(member.Status)
		return &redacted
	}
	redacted.Status.State = stateForPeers(member.Status)
	exports, endpoints, known := visible(member.Name, view.Peer)
	redacted.Status.Exports, redacted.Status.Endpoints = exports, endpoints
	redacted.Status.Synced = member.Status.Synced && known
	if member.Status.State != clusterset.MemberLocal {
		redacted.Status.Properties = nil // they would be read from a hub for all its members, every few seconds
	}
	redacted.Status.Conditions = slices.DeleteFunc(slices.Clone(member.Status.Conditions), func(condition metav1.Condition) bool {
		return condition.Type == clusterset.MemberEndpointsReachable
	})
	for i := range redacted.Status.Conditions {
		redacted.Status.Conditions[i].Message = fmt.Sprintf("see Member %q in cluster %q", member.Name, view.Self)
	}
	return &redacted
}

// stateForPeers returns a state that does not depend on whether endpoints answer: peers
// would scan the ports of each other through this cluster. Earlier versions do not know the
// state Unavailable.
func stateForPeers(status clusterset.MemberStatus) clusterset.MemberState {
	switch {
	case status.Expired:
		return clusterset.MemberLost
	case status.State == clusterset.MemberUnavailable:
		return clusterset.MemberStale
	}
	return status.State
}

// identityOf returns the ID of a member, which peers compare with those of their own
// members. The UID, which tells two clusters with one ID apart, and the ClusterSet,
// which is that of this cluster, are those of accepted members only.
func identityOf(status clusterset.MemberStatus) clusterset.MemberStatus {
	identity := clusterset.MemberStatus{ClusterID: status.ClusterID}
	switch status.State {
	case clusterset.MemberConnected, clusterset.MemberUnavailable, clusterset.MemberStale, clusterset.MemberLost:
		identity.ClusterUID, identity.ClusterSet = status.ClusterUID, status.ClusterSet
	}
	return identity
}
