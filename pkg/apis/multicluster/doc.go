// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package multicluster holds the hub types of the Multi-Cluster Services API
// (KEP-1645) and of cluster identity (KEP-2149).
//
// ServiceExport and ServiceImport are served under two API groups:
// multicluster.x-k8s.io, which is what every client in use today speaks, and
// multicluster.k8s.io, which is what the KEP calls it. They are the very same
// objects, so both groups share one hub type, and an object written through
// one group is read through the other.
//
// Nothing outside the API machinery sees hub types: on the wire and in etcd
// only the versioned ones exist.
package multicluster
