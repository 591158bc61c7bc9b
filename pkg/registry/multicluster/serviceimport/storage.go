// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceimport serves ServiceImports, which are computed and can only
// be read.
package serviceimport

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource describes ServiceImports.
func Resource() readonly.Resource {
	return readonly.Resource{
		Plural:      multicluster.XResource("serviceimports"),
		Singular:    multicluster.XResource("serviceimport"),
		NewFunc:     func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc: func() runtime.Object { return &multicluster.ServiceImportList{} },
		Namespaced:  true,
		Table:       newTable(clock.RealClock{}),
	}
}

// Storage is one store, shown with and without short names.
type Storage struct {
	Import *readonly.REST
	// NamedImport has the short names, which only one group may have.
	NamedImport *readonly.WithShortNames
}

// NewStorage serves what the options lead to.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*Storage, error) {
	imports, err := readonly.New(scheme, options, Resource())
	if err != nil {
		return nil, err
	}
	return &Storage{
		Import:      imports,
		NamedImport: &readonly.WithShortNames{REST: imports, Names: []string{"svcim", "svcimport"}},
	}, nil
}

func newTable(clock clock.PassiveClock) *table.Convertor[*multicluster.ServiceImport] {
	type column = table.Column[*multicluster.ServiceImport]
	return table.NewConvertor(clock,
		column{Name: "Type", Description: "ClusterSetIP or Headless.", Cell: func(i *multicluster.ServiceImport) any { return string(i.Spec.Type) }},
		column{Name: "IP", Description: "Where the service is reached.", Cell: func(i *multicluster.ServiceImport) any { return orNone(i.Spec.IPs) }},
		column{Name: "Ports", Description: "The ports of the service.", Cell: func(i *multicluster.ServiceImport) any { return orNone(ports(i)) }},
		column{Name: "Clusters", Description: "The clusters that export the service.", Cell: func(i *multicluster.ServiceImport) any { return orNone(clusters(i)) }},
		column{Name: "Ready", Description: "Whether the service can be used, or why not.", Wide: true, Cell: func(i *multicluster.ServiceImport) any { return problems(i) }},
	)
}

func ports(serviceImport *multicluster.ServiceImport) []string {
	var ports []string
	for _, port := range serviceImport.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
	}
	return ports
}

func clusters(serviceImport *multicluster.ServiceImport) []string {
	var clusters []string
	for _, cluster := range serviceImport.Status.Clusters {
		clusters = append(clusters, cluster.Cluster)
	}
	return clusters
}

// problems are the reasons of the conditions that are not as they should be.
func problems(serviceImport *multicluster.ServiceImport) string {
	reasons := conditions.Unmet(serviceImport.Status.Conditions, func(string) (metav1.ConditionStatus, bool) { return metav1.ConditionTrue, true })
	if len(reasons) == 0 {
		return "True"
	}
	return strings.Join(reasons, ",")
}

func orNone(values []string) string {
	if len(values) == 0 {
		return "<none>"
	}
	return strings.Join(values, ",")
}
