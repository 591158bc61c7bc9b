// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceimport describes ServiceImports, which are computed and
// read-only.
package serviceimport

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource returns the description of ServiceImports.
func Resource() readonly.Resource {
	return readonly.Resource{
		Plural:      multicluster.XResource("serviceimports"),
		Singular:    multicluster.XResource("serviceimport"),
		NewFunc:     func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc: func() runtime.Object { return &multicluster.ServiceImportList{} },
		Namespaced:  true,
		ShortNames:  []string{"svcim", "svcimport"},
		Table:       newTable(clock.RealClock{}),
	}
}

func newTable(clock clock.PassiveClock) *table.Convertor[*multicluster.ServiceImport] {
	type column = table.Column[*multicluster.ServiceImport]
	return table.NewConvertor(clock,
		column{Name: "Type", Description: "ClusterSetIP or Headless.", Cell: func(i *multicluster.ServiceImport) any { return string(i.Spec.Type) }},
		column{Name: "IP", Description: "The IPs of the Service in this cluster.", Cell: func(i *multicluster.ServiceImport) any { return orNone(i.Spec.IPs) }},
		column{Name: "Ports", Description: "The ports of the Service.", Cell: func(i *multicluster.ServiceImport) any { return orNone(ports(i)) }},
		column{Name: "Clusters", Description: "The clusters that export the Service.", Cell: func(i *multicluster.ServiceImport) any { return orNone(clusters(i)) }},
		column{Name: "Ready", Description: "True, or the reasons of all conditions that are not True.", Wide: true, Cell: func(i *multicluster.ServiceImport) any { return problems(i) }},
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

// problems returns the reasons of all conditions that are not True.
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
