// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import "strings"

// Key prefixes of labels and annotations that are reserved for this
// implementation. An export can neither set nor override them.
const (
	MulticlusterKeyPrefix = "multicluster.kubernetes.io/"
	ClusterSetKeyPrefix   = "clusterset.mcs-apiserver.io/"
)

// Labels and annotations defined by KEP-1645.
const (
	// ServiceNameLabel is the name of the ServiceImport that an object belongs to.
	ServiceNameLabel = MulticlusterKeyPrefix + "service-name"
	// SourceClusterLabel is the ID of the cluster that an object originates from.
	SourceClusterLabel = MulticlusterKeyPrefix + "source-cluster"
	// DerivedServiceAnnotation is the name of the derived Service of an import.
	DerivedServiceAnnotation = MulticlusterKeyPrefix + "derived-service"
)

// ManagedBy marks objects that mcs-controller manages. ManagedByLabel is the label
// for this mark on resources that do not define one themselves.
const (
	ManagedBy      = "mcs-controller.mcs-apiserver.io"
	ManagedByLabel = "app.kubernetes.io/managed-by"
)

// Well-known ClusterClaims defined by KEP-2149.
const (
	ClusterIDClaim  = "id.k8s.io"
	ClusterSetClaim = "clusterset.k8s.io"
)

// ReservedDomain returns the domain of the name of a ClusterClaim that is reserved for
// Kubernetes projects, such as those above; empty if the name is not reserved.
func ReservedDomain(name string) string {
	for _, domain := range []string{"k8s.io", "kubernetes.io"} {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			return domain
		}
	}
	return ""
}

// Conditions of a ServiceExport, as defined by the upstream API.
const (
	ServiceExportValid    = "Valid"
	ServiceExportReady    = "Ready"
	ServiceExportConflict = "Conflict"
)

// Conditions and reasons of a ServiceImport. Ready and its reasons are defined by
// the upstream API.
const (
	ServiceImportReady = "Ready"
	// ServiceImportMembersReachable is False while a member that exports the
	// service is unreachable.
	ServiceImportMembersReachable = "MembersReachable"

	ServiceImportReasonReady                = "Ready"
	ServiceImportReasonPending              = "Pending"
	ServiceImportReasonIPFamilyNotSupported = "IPFamilyNotSupported"
	// ServiceImportReasonClusterSetIPUnavailable means that the shared ClusterSet IP
	// of the import is unavailable in this cluster.
	ServiceImportReasonClusterSetIPUnavailable = "ClusterSetIPUnavailable"
	// ServiceImportReasonExportsUnknown means that it is unknown whether any cluster
	// exports the service. Derived Service and imported EndpointSlices stay as they are.
	ServiceImportReasonExportsUnknown = "ExportsUnknown"
)

// ImportLifeAnnotation on a ServiceImport is how many ServiceImports of the same
// name there were before in its namespace, and the UID of the namespace, separated
// by a slash. It is absent if there were none. On a derived Service it is that of
// its ServiceImport.
const ImportLifeAnnotation = ClusterSetKeyPrefix + "import-life"

// IgnoreUnreachableMembersAnnotation on the ClusterClaim clusterset.k8s.io, with
// the value "true", allows a cluster to join although some members are unreachable
// and cannot confirm that the cluster ID is unique.
const IgnoreUnreachableMembersAnnotation = ClusterSetKeyPrefix + "ignore-unreachable-members"

// ClaimVerb is the RBAC verb required for creating, changing or deleting a
// well-known ClusterClaim. RBAC cannot restrict create by name.
const ClaimVerb = "claim"

// Annotations and claims for shared ClusterSet IPs.
const (
	// UseClusterSetIPAnnotation on a ServiceExport, "true" or "false", requests
	// that the service have a shared ClusterSet IP or not. On a ServiceImport it
	// reports whether the service has one.
	UseClusterSetIPAnnotation = ClusterSetKeyPrefix + "use-clusterset-ip"
	// LighthouseUseClusterSetIPAnnotation is the equivalent annotation of Submariner.
	LighthouseUseClusterSetIPAnnotation = "lighthouse.submariner.io/use-clusterset-ip"
	// ClusterSetIPDecisionAnnotation on a ServiceExport records, as JSON, the
	// decision about the shared ClusterSet IP for the lifetime of the export. It is
	// written through the status subresource only.
	ClusterSetIPDecisionAnnotation = ClusterSetKeyPrefix + "clusterset-ip-decision"
	// ClusterSetIPAnnotation on a ServiceImport lists the shared ClusterSet IPs,
	// separated by commas.
	ClusterSetIPAnnotation = ClusterSetKeyPrefix + "clusterset-ip"
	// ClusterSetIPAllocatedByAnnotation on a ServiceImport is the ID of the
	// cluster that allocated the IPs.
	ClusterSetIPAllocatedByAnnotation = ClusterSetKeyPrefix + "clusterset-ip-allocated-by"
	// ClusterSetIPProblemAnnotation on a derived Service explains why the Service
	// does not have the shared ClusterSet IPs, or has them with restrictions.
	ClusterSetIPProblemAnnotation = ClusterSetKeyPrefix + "clusterset-ip-problem"
	// ClusterSetIPCIDRClaim is the name of the ClusterClaim with the allocation
	// CIDRs of the cluster. The flag --clusterset-ip-cidr overrides the claim.
	ClusterSetIPCIDRClaim = "clusterset-ip-cidr.mcs-apiserver.io"
)

// SourceSliceAnnotation on an imported EndpointSlice describes, as JSON, the slice of
// the exporting cluster that it was made from. mcs-apiserver restores the endpoints of
// members from it after a restart.
const SourceSliceAnnotation = ClusterSetKeyPrefix + "source-slice"

// TrafficDistributionProblemAnnotation on a derived Service is why it does not have
// the traffic distribution of its import.
const TrafficDistributionProblemAnnotation = ClusterSetKeyPrefix + "traffic-distribution-problem"

// GeneratedIDAnnotation on the claim id.k8s.io is the cluster ID that mcs-controller
// generated. mcs-controller removes it once the cluster is in a ClusterSet: until then
// the ID may be replaced without a warning.
const GeneratedIDAnnotation = ClusterSetKeyPrefix + "generated-id"
