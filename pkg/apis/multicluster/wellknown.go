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

// PendingTypeAnnotation on a ServiceImport is the type that it is about to have: it is
// Headless until its derived Service has an IP, so that its DNS name always has an
// answer. On a derived Service it is the type that mcs-controller is changing it to; the
// Service has no IP, or not all of them, as long as it has the annotation.
const PendingTypeAnnotation = ClusterSetKeyPrefix + "pending-type"

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

// EndpointSlicesAnnotation on a namespace, with the value EndpointSlicesSeparate, means
// that derived Services and imports in it have EndpointSlices of their own. Otherwise one
// slice is both: some readers then take it for one of a Service only, or ignore it because
// it is one of an import. On a ServiceImport it is that of its namespace.
const (
	EndpointSlicesAnnotation = ClusterSetKeyPrefix + "endpoint-slices"
	EndpointSlicesSeparate   = "separate"
)

const (
	// DerivedFromLabel on an EndpointSlice of a derived Service alone is the name of the
	// import, as ServiceNameLabel is on all others: that label makes a slice one of an import.
	DerivedFromLabel = ClusterSetKeyPrefix + "derived-from"
	// ImportOnlyLabel is on EndpointSlices of imports alone, for readers of all slices to leave
	// them out: CoreDNS cannot answer reverse queries for endpoints of slices without Service.
	ImportOnlyLabel = ClusterSetKeyPrefix + "import-only"
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

// ExportToAnnotation on a ServiceExport lists the clusters that it is exported to, separated by
// commas: IDs, and NAME=VALUE for clusters that have a ClusterProperty of that value. Without it, all
// clusters of the ClusterSet import the Service.
const ExportToAnnotation = ClusterSetKeyPrefix + "export-to"

// Annotations for the preference between clusters.
const (
	// ClusterPreferenceAnnotation on a ServiceExport lists which clusters should answer,
	// in tiers that are separated by commas, the most preferred first: "cluster" is the
	// cluster of the client, and "property:NAME" are the clusters whose ClusterProperty
	// NAME has the value of that cluster. All clusters follow. On a ServiceImport it is
	// that of the oldest export.
	ClusterPreferenceAnnotation = ClusterSetKeyPrefix + "cluster-preference"
	// PreferenceMinReadyAnnotation on a ServiceExport is how many ready endpoints a tier
	// needs to be used, by default 1. On a ServiceImport it is that of the oldest export.
	PreferenceMinReadyAnnotation = ClusterSetKeyPrefix + "preference-min-ready"
	// ClusterPreferenceProblemAnnotation on a derived Service is why the clusters that its
	// import prefers are not preferred.
	ClusterPreferenceProblemAnnotation = ClusterSetKeyPrefix + "cluster-preference-problem"
	// ActiveTierAnnotation on a derived Service and a ServiceImport is the tier of clusters
	// that answers the clients of this cluster, or "all". If it differs between IP families, it
	// is FAMILY=TIER for each, separated by commas.
	ActiveTierAnnotation = ClusterSetKeyPrefix + "active-tier"
	// ActiveTierReasonAnnotation on a derived Service and a ServiceImport is why that tier
	// answers.
	ActiveTierReasonAnnotation = ClusterSetKeyPrefix + "active-tier-reason"
	// DetachedLabel on an imported EndpointSlice says that it has the label of headless
	// Services because its cluster should not answer, so that kube-proxy does not use it.
	DetachedLabel = ClusterSetKeyPrefix + "detached"
)
