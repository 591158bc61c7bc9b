// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package clusterset holds the hub types of clusterset.mcs-apiserver.io: what
// one cluster of a ClusterSet shows the others, and what it knows of them.
// None of them is stored.
package clusterset
