// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package about contains the hub types of about.k8s.io, the current upstream API
// for what KEP-2149 calls ClusterClaims. ClusterProperties are a read-only view
// of the ClusterClaims.
package about
