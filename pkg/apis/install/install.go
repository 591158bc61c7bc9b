// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install registers every version of every API group with a scheme.
package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	aboutv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Install registers hub and versioned types and sets the version priorities.
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(multicluster.AddToScheme(scheme))
	utilruntime.Must(inventory.AddToScheme(scheme))
	utilruntime.Must(clusterset.AddToScheme(scheme))
	utilruntime.Must(about.AddToScheme(scheme))
	utilruntime.Must(multiclusterxv1beta1.Install(scheme))
	utilruntime.Must(multiclusterxv1alpha1.Install(scheme))
	utilruntime.Must(multiclusterv1.Install(scheme))
	utilruntime.Must(multiclusterv1alpha1.Install(scheme))
	utilruntime.Must(clustersetv1alpha1.Install(scheme))
	utilruntime.Must(aboutv1beta1.Install(scheme))
	utilruntime.Must(scheme.SetVersionPriority(multiclusterxv1beta1.SchemeGroupVersion, multiclusterxv1alpha1.SchemeGroupVersion))
	utilruntime.Must(scheme.SetVersionPriority(multiclusterv1.SchemeGroupVersion, multiclusterv1alpha1.SchemeGroupVersion))
	utilruntime.Must(scheme.SetVersionPriority(clustersetv1alpha1.SchemeGroupVersion))
	utilruntime.Must(scheme.SetVersionPriority(aboutv1beta1.SchemeGroupVersion))
}
