// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// What makes a cluster a member in another is a Secret in the namespace of the
// installation.
const (
	// MemberSecretType is the type of these Secrets.
	MemberSecretType corev1.SecretType = GroupName + "/member"
	// MemberSecretClusterID is the key of the member's cluster id.
	MemberSecretClusterID = "cluster-id"
	// MemberSecretKubeconfig is the key of the kubeconfig that leads to the member.
	MemberSecretKubeconfig = "kubeconfig"
	// MemberSecretRelayFor is the key of the ids that a hub may speak for besides
	// its own, separated by commas; * stands for all.
	MemberSecretRelayFor = "relay-for"
	// MemberSecretAllowedCIDRs is the key of the networks that the member's Pods
	// may be in, separated by commas. Without it they may be anywhere.
	MemberSecretAllowedCIDRs = "allowed-cidrs"
	// TTLAnnotation on the Secret overrides how long a member may be silent.
	TTLAnnotation = GroupName + "/ttl"
	// LostPolicyAnnotation on the Secret overrides what happens to the member's
	// endpoints when it is lost.
	LostPolicyAnnotation = GroupName + "/lost-policy"
)

// PeerRole is the ClusterRole with what a member may read.
const PeerRole = "mcs-apiserver:peer"

// MemberSecretSelector returns the field selector of the Secrets that make
// clusters members.
func MemberSecretSelector() string {
	return fields.OneTermEqualSelector("type", string(MemberSecretType)).String()
}

// MemberSecretName is what the Secret that makes a cluster a member is usually called.
func MemberSecretName(id string) string { return "member-" + id }

// PeerAccountName is what the service account that a cluster uses in another is
// usually called.
func PeerAccountName(id string) string { return "peer-" + id }

// PeerBindingName is what the objects that give rights to that account are
// usually called.
func PeerBindingName(id string) string { return PeerRole + ":" + id }
