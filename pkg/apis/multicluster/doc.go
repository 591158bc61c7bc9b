// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package multicluster contains the hub types of the Multi-Cluster Services API
// (KEP-1645) and of the cluster identity API (KEP-2149).
//
// ServiceExport and ServiceImport are served under two API groups:
// multicluster.x-k8s.io, which existing clients use, and multicluster.k8s.io,
// which KEP-1645 uses. Both groups serve the same objects and share the hub types:
// an object written through one group can be read through the other.
//
// Hub types are internal to the server. Only versioned types are served and
// stored.
package multicluster
