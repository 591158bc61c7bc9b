// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.x-k8s.multicluster.v1beta1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster
// +k8s:defaulter-gen=TypeMeta
// +k8s:register-gen=package
// +groupName=multicluster.x-k8s.io
// +groupGoName=MulticlusterX

// Package v1beta1 is multicluster.x-k8s.io/v1beta1, wire-compatible with
// sigs.k8s.io/mcs-api. ServiceExports are stored in this version.
//
// The types mirror the upstream types instead of using them, because openapi-gen
// cannot process the upstream package: its patch tags are rejected, and without
// the openapi-model-package marker definitions have no group-version-kind
// extension. The tests in test/upstream verify that the JSON is the same.
package v1beta1
