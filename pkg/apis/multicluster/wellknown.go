// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

// Key prefixes of labels and annotations that only this implementation sets.
// An export can neither set nor override them.
const (
	MulticlusterKeyPrefix = "multicluster.kubernetes.io/"
	ClusterSetKeyPrefix   = "clusterset.mcs-apiserver.io/"
)

// Conditions of a ServiceExport. Types and reasons are those of the upstream API.
const (
	ServiceExportValid    = "Valid"
	ServiceExportReady    = "Ready"
	ServiceExportConflict = "Conflict"
)
