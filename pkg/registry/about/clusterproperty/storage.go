// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterproperty serves the ClusterClaims under upstream's name.
package clusterproperty

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource describes ClusterProperties.
func Resource() readonly.Resource {
	return readonly.Resource{
		Plural:      about.Resource("clusterproperties"),
		Singular:    about.Resource("clusterproperty"),
		NewFunc:     func() runtime.Object { return &about.ClusterProperty{} },
		NewListFunc: func() runtime.Object { return &about.ClusterPropertyList{} },
		Table: table.NewConvertor(clock.RealClock{}, table.Column[*about.ClusterProperty]{
			Name: "Value", Description: "What is claimed. A long value is shown in part.",
			Cell: func(property *about.ClusterProperty) any { return table.Shorten(property.Spec.Value) },
		}),
	}
}
