// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.k8s.about.v1beta1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about
// +k8s:defaulter-gen=TypeMeta
// +k8s:register-gen=package
// +groupName=about.k8s.io

// Package v1beta1 is about.k8s.io/v1beta1: the ClusterClaims of a cluster, served
// as ClusterProperties.
package v1beta1
