// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package clusterset contains the hub types of clusterset.mcs-apiserver.io: what
// a cluster exports to the other clusters of its ClusterSet, and what it knows
// of them. All of them are computed; none is stored.
package clusterset
