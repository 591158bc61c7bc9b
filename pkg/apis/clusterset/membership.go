// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// A cluster is a member of another if the other has a member Secret for it, in
// the namespace of the installation.
const (
	// MemberSecretType is the type of member Secrets.
	MemberSecretType corev1.SecretType = GroupName + "/member"
	// MemberSecretClusterID is the key of the cluster ID of the member.
	MemberSecretClusterID = "cluster-id"
	// MemberSecretKubeconfig is the key of the kubeconfig for reading the member.
	MemberSecretKubeconfig = "kubeconfig"
	// MemberSecretRelayFor is the key of the comma-separated IDs of the clusters
	// that the member may relay, or * for all clusters.
	MemberSecretRelayFor = "relay-for"
	// MemberSecretAllowedCIDRs is the key of the comma-separated CIDRs that the
	// endpoints of the member must be in. If absent, all addresses are allowed.
	MemberSecretAllowedCIDRs = "allowed-cidrs"
	// MemberSecretAllowedNamespaces is the key of the comma-separated namespaces that
	// the member may export into. If absent, these are all but those of the system.
	MemberSecretAllowedNamespaces = "allowed-namespaces"
	// MemberSecretMemoryLimit is the key of the memory that the exports of the
	// member may take in this cluster, a quantity such as 128Mi.
	MemberSecretMemoryLimit = "memory-limit"
	// MemberSecretServiceLimit and MemberSecretEndpointLimit are the keys of how many
	// Services and endpoints the member may export.
	MemberSecretServiceLimit  = "service-limit"
	MemberSecretEndpointLimit = "endpoint-limit"
	// MemberSecretJoinedAt is the key of the time at which the member joined the
	// ClusterSet, in RFC 3339 format: the creation time of its ClusterClaim
	// clusterset.k8s.io, as read when it joined. Its exports do not count as older,
	// whatever the member reports later.
	MemberSecretJoinedAt = "joined-at"
	// MemberSecretAllocationCIDRs is the key of the comma-separated CIDRs that the member
	// may allocate shared ClusterSet IPs from, or MemberSecretNoAllocationCIDRs. If absent,
	// they are those that the member claims.
	MemberSecretAllocationCIDRs   = "allocation-cidrs"
	MemberSecretNoAllocationCIDRs = "none"
	// TTLAnnotation on the Secret overrides how long the member may be silent
	// before it is considered lost.
	TTLAnnotation = GroupName + "/ttl"
	// LostPolicyAnnotation on the Secret overrides what happens to the endpoints
	// of the member when the member is lost.
	LostPolicyAnnotation = GroupName + "/lost-policy"
	// ExpelledAnnotation on the Secret, with the value "true", expels the member:
	// nothing of it is imported, and its decisions about shared ClusterSet IPs are
	// made anew. `kubectl mcs expel` sets it before it deletes the Secret.
	ExpelledAnnotation = GroupName + "/expelled"
	// ClusterUIDAnnotation on the Lease of a member is the UID of the cluster whose
	// last sighting the Lease records.
	ClusterUIDAnnotation = GroupName + "/cluster-uid"
	// LostAnnotation on the Lease of a member, with the value "true", means that the
	// member has counted as lost since it was last seen.
	LostAnnotation = GroupName + "/lost"
	// EndpointsAnnotation on the Lease of a member is what connections to its endpoints
	// found, in JSON.
	EndpointsAnnotation = GroupName + "/endpoints"
	// OwnEndpointsAnnotation on the Lease of a member is whether the exported endpoints of
	// this cluster have ever answered connections from it.
	OwnEndpointsAnnotation = GroupName + "/own-endpoints"
	// ReportedStateAnnotation on the Lease of a member is its state that an Event last
	// reported.
	ReportedStateAnnotation = GroupName + "/reported-state"
	// RelayedByAnnotation on the ClusterProfile of a member is the cluster ID of the hub that
	// relays the member. It is absent if the member is read directly.
	RelayedByAnnotation = GroupName + "/relayed-by"
)

// The renewed credential of a member is in a Secret of its own: the member Secret is
// declared by users, and never written by this project. The keys of its tokens are digests of
// what the member Secret declared, the server and the credential that the token was first
// requested with. A token is used only while the member Secret declares the same.
const (
	// RenewedSecretType is the type of Secrets with renewed credentials.
	RenewedSecretType corev1.SecretType = GroupName + "/renewed-credential"

	renewedSuffix = ".renewed"
)

// ImportAnnotation on a namespace, with the value ImportDisabled, means that nothing
// is imported into it from other clusters.
const (
	ImportAnnotation = GroupName + "/import"
	ImportDisabled   = "disabled"
)

// ImportFromAnnotation on a namespace lists the clusters that it imports from, separated by commas:
// IDs, and NAME=VALUE for clusters that have a ClusterProperty of that value. Without it, it imports
// from all clusters. What this cluster exports itself is imported in any case.
const ImportFromAnnotation = GroupName + "/import-from"

// DetachedConfigMap is the name of the ConfigMap that detaches the API: while it
// exists in the namespace of the installation, mcs-controller removes the
// APIServices instead of registering them. An object of its own, unlike an
// annotation, is not reverted by tools that apply the manifests of the
// installation.
const DetachedConfigMap = "mcs-apiserver-detached"

// MigrationConfigMap is the name of the ConfigMap that says that the API moves in from CRDs
// of another implementation: while it exists, in the namespace of the installation,
// mcs-controller registers what the CRDs do not serve, and copies their objects. See package
// crdmigration for what it contains.
const MigrationConfigMap = "mcs-apiserver-crd-migration"

// PeerLabel is the label with the peer's cluster ID on all objects that
// `kubectl mcs join` creates for a peer.
const PeerLabel = GroupName + "/peer"

// PeerRole is the name of the ClusterRole that grants members read access.
const PeerRole = "mcs-apiserver:peer"

// RelayRole is the name of the ClusterRole that makes this cluster the hub of a peer:
// it grants RelayVerb on members, with which the peer also reads what the members of
// this cluster export.
const (
	RelayRole = "mcs-apiserver:relay"
	RelayVerb = "relay"
)

// SplitList splits a list in a member Secret or in the value of a ClusterClaim: its items
// are separated by commas or white space.
func SplitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// MemberSecretSelector returns the field selector of member Secrets.
func MemberSecretSelector() string {
	return fields.OneTermEqualSelector("type", string(MemberSecretType)).String()
}

// RenewedSecretSelector returns the field selector of Secrets with renewed credentials.
func RenewedSecretSelector() string {
	return fields.OneTermEqualSelector("type", string(RenewedSecretType)).String()
}

// RenewedSecretName returns the name of the Secret with the renewed credential of a member
// Secret. Conventional names of member Secrets have no dots.
func RenewedSecretName(memberSecret string) string { return memberSecret + renewedSuffix }

// MemberSecretOf returns the name of the member Secret that a Secret with a renewed
// credential belongs to, and false if its name is not that of such a Secret.
func MemberSecretOf(renewedSecret string) (string, bool) {
	return strings.CutSuffix(renewedSecret, renewedSuffix)
}

// MemberSecretName returns the conventional name of the Secret for the member with the given ID.
func MemberSecretName(id string) string { return "member-" + id }

// PeerAccountName returns the conventional name of the service account that the
// cluster with the given ID uses to read this cluster.
func PeerAccountName(id string) string { return "peer-" + id }

// PeerID returns the ID of the cluster that uses the service account with the given
// name to read this cluster, and false if the account is not that of a peer.
func PeerID(account string) (string, bool) {
	id, ok := strings.CutPrefix(account, PeerAccountName(""))
	return id, ok && id != ""
}

// PeerBindingName returns the conventional name of the RBAC objects that grant
// access to that service account.
func PeerBindingName(id string) string { return PeerRole + ":" + id }

// RelayBindingName returns the conventional name of the ClusterRoleBinding that makes
// this cluster the hub of that cluster.
func RelayBindingName(id string) string { return RelayRole + ":" + id }
