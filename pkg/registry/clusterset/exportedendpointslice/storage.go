// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exportedendpointslice describes ExportedEndpointSlices, which are
// computed and read-only.
package exportedendpointslice

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// Resource returns the description of ExportedEndpointSlices.
func Resource() readonly.Resource {
	type column = table.Column[*clusterset.ExportedEndpointSlice]
	return readonly.Resource{
		Plural:      clusterset.Resource("exportedendpointslices"),
		Singular:    clusterset.Resource("exportedendpointslice"),
		NewFunc:     func() runtime.Object { return &clusterset.ExportedEndpointSlice{} },
		NewListFunc: func() runtime.Object { return &clusterset.ExportedEndpointSliceList{} },
		Namespaced:  true,
		Equal: func(held, updated runtime.Object) bool {
			return held.(*clusterset.ExportedEndpointSlice).Same(updated.(*clusterset.ExportedEndpointSlice))
		},
		Feed: &peerview.Feed{Select: peerview.BySource, Audience: audience, Redaction: encoded.NewDerivation(redact)},
		Table: table.NewConvertor(clock.RealClock{},
			column{Name: "Cluster", Description: "The exporting cluster.", Cell: func(s *clusterset.ExportedEndpointSlice) any { return s.Spec.Cluster }},
			column{Name: "Service", Description: "The exported Service.", Cell: func(s *clusterset.ExportedEndpointSlice) any { return s.Spec.Service }},
			column{Name: "AddressType", Description: "IPv4 or IPv6.", Cell: func(s *clusterset.ExportedEndpointSlice) any { return string(s.Spec.AddressType) }},
			column{Name: "Endpoints", Description: "The number of endpoints.", Cell: func(s *clusterset.ExportedEndpointSlice) any { return len(s.Spec.Endpoints) }},
		),
	}
}

func audience(object runtime.Object) *clusterset.Audience { return clusterset.AudienceOf(object) }
