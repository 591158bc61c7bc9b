// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

// ClusterManagerLabel on a ClusterProfile is the name of its cluster manager, so that
// profiles can be selected by it.
const ClusterManagerLabel = "x-k8s.io/cluster-manager"

// ClusterSetLabel on a namespace says that the ClusterProfiles in it are the clusters of a
// ClusterSet. Its value is the name of the ClusterSet.
const ClusterSetLabel = "multicluster.x-k8s.io/clusterset"

// ControlPlaneHealthy is the condition of a ClusterProfile that says whether the control
// plane of the cluster is healthy.
const ControlPlaneHealthy = "ControlPlaneHealthy"

// Labels of PlacementDecisions.
const (
	// DecisionKeyLabel is the same for all slices of one decision.
	DecisionKeyLabel = "multicluster.x-k8s.io/decision-key"
	// DecisionIndexLabel is the position of a slice in its decision, beginning with 0.
	DecisionIndexLabel = "multicluster.x-k8s.io/decision-index"
	// PlacementKeyLabel is what the decision was made for.
	PlacementKeyLabel = "multicluster.x-k8s.io/placement-key"
)
