// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member describes Members, which are computed and read-only.
package member

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// Resource returns the description of Members, of which peers see what is visible to them.
func Resource(visible Visible) readonly.Resource {
	return readonly.Resource{
		Plural:      clusterset.Resource("members"),
		Singular:    clusterset.Resource("member"),
		NewFunc:     func() runtime.Object { return &clusterset.Member{} },
		NewListFunc: func() runtime.Object { return &clusterset.MemberList{} },
		Feed:        &peerview.Feed{Redact: visible.redact},
		Table:       newTable(clock.RealClock{}),
	}
}

func newTable(clock clock.PassiveClock) *table.Convertor[*clusterset.Member] {
	type column = table.Column[*clusterset.Member]
	convertor := table.NewConvertor(clock,
		column{Name: "ClusterSet", Description: "The ClusterSet that the cluster claims.", Cell: func(m *clusterset.Member) any { return orNone(m.Status.ClusterSet) }},
		column{Name: "State", Description: "Whether the cluster is reachable.", Cell: func(m *clusterset.Member) any { return string(m.Status.State) }},
		column{Name: "Last-Seen", Description: "The time since the cluster was last reachable.", Cell: func(m *clusterset.Member) any {
			switch {
			case m.Status.State == clusterset.MemberLocal:
				return "-"
			case m.Status.LastSeen == nil:
				return "never"
			}
			return duration.HumanDuration(clock.Since(m.Status.LastSeen.Time))
		}},
		column{Name: "Exports", Description: "The number of Services that the cluster exports.", Cell: func(m *clusterset.Member) any { return m.Status.Exports }},
		column{Name: "Endpoints", Description: "The number of endpoints of the exported Services.", Cell: func(m *clusterset.Member) any { return m.Status.Endpoints }},
		column{Name: "Allocation-CIDRs", Description: "The allocation CIDRs of the cluster.", Wide: true, Cell: func(m *clusterset.Member) any {
			return orNone(strings.Join(m.Status.ClusterSetIPCIDRs, ","))
		}},
		column{Name: "Reason", Description: "The reasons and messages of all problems.", Wide: true, Cell: func(m *clusterset.Member) any {
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
