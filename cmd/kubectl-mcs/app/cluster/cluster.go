// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster connects to the clusters of kubeconfig contexts, explains
// failed requests, and completes names.
package cluster

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

// Cluster is the cluster of a context.
type Cluster struct {
	// Context is the name of the context.
	Context    string
	Config     *rest.Config
	Kubernetes kubernetes.Interface
	// MCS is the client for the API of mcs-apiserver.
	MCS versioned.Interface
}
