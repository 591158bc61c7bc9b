// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package about holds the hub types of about.k8s.io: upstream's present name
// for what KEP-2149 calls claims. They are a view of the ClusterClaims.
package about
