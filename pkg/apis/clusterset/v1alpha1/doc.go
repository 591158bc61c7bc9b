// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.mcs-apiserver.clusterset.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset
// +k8s:defaulter-gen=TypeMeta
// +k8s:register-gen=package
// +groupName=clusterset.mcs-apiserver.io
// +groupGoName=ClusterSet

// Package v1alpha1 is clusterset.mcs-apiserver.io/v1alpha1: what a cluster
// exports to the other clusters of its ClusterSet, and what it knows of them.
package v1alpha1
