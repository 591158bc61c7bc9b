// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterprofile

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

type column = table.Column[*inventory.ClusterProfile]

// newTable has the columns of the upstream CRD.
func newTable(clock clock.PassiveClock) *table.Convertor[*inventory.ClusterProfile] {
	return table.NewConvertor(clock,
		column{
			Name:        "Display Name",
			Description: "The name of the cluster for people.",
			Cell:        func(profile *inventory.ClusterProfile) any { return table.Truncate(profile.Spec.DisplayName) },
		},
		column{
			Name:        "Manager",
			Description: "The cluster manager that maintains the profile.",
			Cell:        func(profile *inventory.ClusterProfile) any { return profile.Spec.ClusterManager.Name },
		},
		column{
			Name:        "Version",
			Description: "The version of Kubernetes.",
			Cell:        func(profile *inventory.ClusterProfile) any { return table.Truncate(profile.Status.Version.Kubernetes) },
		},
		column{
			Name:        "Healthy",
			Description: "Whether the control plane of the cluster is healthy.",
			Cell:        func(profile *inventory.ClusterProfile) any { return healthy(profile.Status.Conditions) },
		},
	)
}

func healthy(conditions []metav1.Condition) string {
	if condition := meta.FindStatusCondition(conditions, inventory.ControlPlaneHealthy); condition != nil {
		return string(condition.Status)
	}
	return string(metav1.ConditionUnknown)
}
