// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exportedservice describes ExportedServices, which are computed and
// read-only.
package exportedservice

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource returns the description of ExportedServices.
func Resource() readonly.Resource {
	type column = table.Column[*clusterset.ExportedService]
	return readonly.Resource{
		Plural:      clusterset.Resource("exportedservices"),
		Singular:    clusterset.Resource("exportedservice"),
		NewFunc:     func() runtime.Object { return &clusterset.ExportedService{} },
		NewListFunc: func() runtime.Object { return &clusterset.ExportedServiceList{} },
		Namespaced:  true,
		Feed:        &peerview.Feed{Select: peerview.BySource, Audience: audience},
		Table: table.NewConvertor(clock.RealClock{},
			column{Name: "Cluster", Description: "The exporting cluster.", Cell: func(s *clusterset.ExportedService) any { return s.Spec.Cluster }},
			column{Name: "Service", Description: "The exported Service.", Cell: func(s *clusterset.ExportedService) any { return s.Spec.Service }},
			column{Name: "Type", Description: "ClusterSetIP or Headless.", Cell: func(s *clusterset.ExportedService) any { return string(s.Spec.Type) }},
			column{Name: "Ports", Description: "The ports of the Service.", Cell: func(s *clusterset.ExportedService) any { return ports(s) }},
			column{Name: "For", Description: "The other clusters that it is for.", Wide: true, Cell: func(s *clusterset.ExportedService) any { return readers(s.Spec.Audience) }},
			column{Name: "Path", Description: "The clusters that relayed the export.", Wide: true, Cell: func(s *clusterset.ExportedService) any { return strings.Join(s.Spec.Path, ",") }},
		),
	}
}

func ports(service *clusterset.ExportedService) string {
	var ports []string
	for _, port := range service.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
	}
	if len(ports) == 0 {
		return "<none>"
	}
	return strings.Join(ports, ",")
}

func readers(audience *clusterset.Audience) string {
	switch {
	case audience == nil:
		return "all"
	case audience.Len() == 0:
		return "<none>"
	}
	return strings.Join(audience.Clusters(), ",")
}

func audience(object runtime.Object) *clusterset.Audience { return clusterset.AudienceOf(object) }
