// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

// Key prefixes of labels and annotations that only this implementation sets.
// An export can neither set nor override them.
const (
	MulticlusterKeyPrefix = "multicluster.kubernetes.io/"
	ClusterSetKeyPrefix   = "clusterset.mcs-apiserver.io/"
)

// Labels and annotations of the KEP.
const (
	// ServiceNameLabel names the ServiceImport that an object belongs to.
	ServiceNameLabel = MulticlusterKeyPrefix + "service-name"
	// SourceClusterLabel names the cluster that an object comes from.
	SourceClusterLabel = MulticlusterKeyPrefix + "source-cluster"
	// DerivedServiceAnnotation names the Service that stands for an import.
	DerivedServiceAnnotation = MulticlusterKeyPrefix + "derived-service"
)

// ManagedBy is how objects that mcs-controller writes are marked, and
// ManagedByLabel the label for it where a resource has none of its own.
const (
	ManagedBy      = "mcs-controller.mcs-apiserver.io"
	ManagedByLabel = "app.kubernetes.io/managed-by"
)

// Well-known claims of KEP-2149.
const (
	ClusterIDClaim  = "id.k8s.io"
	ClusterSetClaim = "clusterset.k8s.io"
)

// Conditions of a ServiceExport. Types and reasons are those of the upstream API.
const (
	ServiceExportValid    = "Valid"
	ServiceExportReady    = "Ready"
	ServiceExportConflict = "Conflict"
)

// Conditions and reasons of a ServiceImport. Ready and its reasons are upstream's.
const (
	ServiceImportReady = "Ready"
	// ServiceImportMembersReachable is False while a cluster that exports the
	// service cannot be reached.
	ServiceImportMembersReachable = "MembersReachable"

	ServiceImportReasonReady                = "Ready"
	ServiceImportReasonPending              = "Pending"
	ServiceImportReasonIPFamilyNotSupported = "IPFamilyNotSupported"
	// ServiceImportReasonClusterSetIPUnavailable is why an import is not ready whose
	// IP for all clusters is not to be had in this one.
	ServiceImportReasonClusterSetIPUnavailable = "ClusterSetIPUnavailable"
)

// IgnoreUnreachableMembersAnnotation on the claim clusterset.k8s.io, with the
// value "true", lets a cluster join although not every member can be asked
// whether the id is taken.
const IgnoreUnreachableMembersAnnotation = ClusterSetKeyPrefix + "ignore-unreachable-members"

// ClaimVerb is what RBAC has to allow on a well-known claim for somebody to
// assert or remove it: create cannot be restricted to a name.
const ClaimVerb = "claim"

// What has to do with one IP for the whole ClusterSet.
const (
	// UseClusterSetIPAnnotation on a ServiceExport, "true" or "false", asks for
	// the same IP in all clusters, or not to. On a ServiceImport it says whether
	// it has one.
	UseClusterSetIPAnnotation = ClusterSetKeyPrefix + "use-clusterset-ip"
	// LighthouseUseClusterSetIPAnnotation is what Submariner calls it.
	LighthouseUseClusterSetIPAnnotation = "lighthouse.submariner.io/use-clusterset-ip"
	// ClusterSetIPDecisionAnnotation on a ServiceExport records, as JSON, the
	// decision about the shared ClusterSet IP for the lifetime of the export. It is
	// written through the status subresource only.
	ClusterSetIPDecisionAnnotation = ClusterSetKeyPrefix + "clusterset-ip-decision"
	// ClusterSetIPAnnotation on a ServiceImport lists the shared ClusterSet IPs,
	// separated by commas.
	ClusterSetIPAnnotation = ClusterSetKeyPrefix + "clusterset-ip"
	// ClusterSetIPAllocatedByAnnotation on a ServiceImport is the id of the
	// cluster that allocated the IPs.
	ClusterSetIPAllocatedByAnnotation = ClusterSetKeyPrefix + "clusterset-ip-allocated-by"
	// ClusterSetIPProblemAnnotation on the Service that stands for an import says
	// why it does not have the IPs, or not as it should.
	ClusterSetIPProblemAnnotation = ClusterSetKeyPrefix + "clusterset-ip-problem"
	// ClusterSetIPCIDRClaim is a claim for the part of the addresses that the
	// cluster allocates, unless it is started with another.
	ClusterSetIPCIDRClaim = "clusterset-ip-cidr.mcs-apiserver.io"
)

// TrafficDistributionProblemAnnotation on a derived Service is why it does not have
// the traffic distribution of its import.
const TrafficDistributionProblemAnnotation = ClusterSetKeyPrefix + "traffic-distribution-problem"

// GeneratedIDAnnotation on the claim id.k8s.io is the cluster ID that mcs-controller
// generated. mcs-controller removes it once the cluster is in a ClusterSet: until then
// the ID may be replaced without a warning.
const GeneratedIDAnnotation = ClusterSetKeyPrefix + "generated-id"
