// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterproperty describes ClusterProperties, a read-only view of the
// ClusterClaims with their upstream names.
package clusterproperty

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource returns the description of ClusterProperties.
func Resource() readonly.Resource {
	return readonly.Resource{
		Plural:      about.Resource("clusterproperties"),
		Singular:    about.Resource("clusterproperty"),
		NewFunc:     func() runtime.Object { return &about.ClusterProperty{} },
		NewListFunc: func() runtime.Object { return &about.ClusterPropertyList{} },
		Table: table.NewConvertor(clock.RealClock{}, table.Column[*about.ClusterProperty]{
			Name: "Value", Description: "The value of the property. Long values are truncated.",
			Cell: func(property *about.ClusterProperty) any { return table.Truncate(property.Spec.Value) },
		}),
	}
}
