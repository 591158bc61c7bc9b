// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member serves what is known of the clusters of the ClusterSet.
package member

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource describes Members.
func Resource() readonly.Resource {
	return readonly.Resource{
		Plural:      clusterset.Resource("members"),
		Singular:    clusterset.Resource("member"),
		NewFunc:     func() runtime.Object { return &clusterset.Member{} },
		NewListFunc: func() runtime.Object { return &clusterset.MemberList{} },
		Fed:         true,
		Table:       newTable(clock.RealClock{}),
	}
}

func newTable(clock clock.PassiveClock) *table.Convertor[*clusterset.Member] {
	type column = table.Column[*clusterset.Member]
	convertor := table.NewConvertor(clock,
		column{Name: "ClusterSet", Description: "The ClusterSet that the cluster claims to be in.", Cell: func(m *clusterset.Member) any { return orNone(m.Status.ClusterSet) }},
		column{Name: "State", Description: "How the cluster can be reached.", Cell: func(m *clusterset.Member) any { return string(m.Status.State) }},
		column{Name: "Last-Seen", Description: "How long ago the cluster last answered.", Cell: func(m *clusterset.Member) any {
			switch {
			case m.Status.State == clusterset.MemberLocal:
				return "-"
			case m.Status.LastSeen == nil:
				return "never"
			}
			return duration.HumanDuration(clock.Since(m.Status.LastSeen.Time))
		}},
		column{Name: "Exports", Description: "How many services the cluster exports.", Cell: func(m *clusterset.Member) any { return m.Status.Exports }},
		column{Name: "Endpoints", Description: "How many endpoints these have.", Cell: func(m *clusterset.Member) any { return m.Status.Endpoints }},
		column{Name: "ClusterSet-IPs", Description: "The cluster's part of the addresses for one IP in all clusters.", Wide: true, Cell: func(m *clusterset.Member) any {
			return orNone(strings.Join(m.Status.ClusterSetIPCIDRs, ","))
		}},
		column{Name: "Reason", Description: "What is wrong, if anything.", Wide: true, Cell: func(m *clusterset.Member) any {
			return orNone(strings.Join(conditions.Problems(m.Status.Conditions), "; "))
		}},
	)
	convertor.RenameFirst("ID")
	return convertor
}

func orNone(value string) string {
	if value == "" {
		return "<none>"
	}
	return value
}
