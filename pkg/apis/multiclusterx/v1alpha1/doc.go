// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.x-k8s.multicluster.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster
// +k8s:conversion-gen=github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory
// +k8s:defaulter-gen=TypeMeta
// +k8s:register-gen=package
// +groupName=multicluster.x-k8s.io
// +groupGoName=MulticlusterX

// Package v1alpha1 is multicluster.x-k8s.io/v1alpha1, wire-compatible with
// sigs.k8s.io/mcs-api and sigs.k8s.io/cluster-inventory-api, which share this group and
// version. CoreDNS watches this version.
package v1alpha1
