// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package inventory contains the hub types of the Cluster Inventory API: ClusterProfiles
// (KEP-4322) and PlacementDecisions (KEP-5313).
//
// They are in the API group multicluster.x-k8s.io, as ServiceExports are, but have versions
// of their own: only v1alpha1 has them.
package inventory
