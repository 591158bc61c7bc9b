// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

func newTable(clock clock.PassiveClock) *table.Convertor[*multicluster.ServiceExport] {
	return table.NewConvertor(clock,
		conditionColumn(multicluster.ServiceExportValid, "Whether the Service exists and can be exported."),
		conditionColumn(multicluster.ServiceExportReady, "Whether the Service is exported to the ClusterSet."),
		conditionColumn(multicluster.ServiceExportConflict, "Whether the export conflicts with exports of other clusters."),
		table.Column[*multicluster.ServiceExport]{
			Name:        "Problems",
			Description: "The reasons of all conditions that report a problem.",
			Wide:        true,
			Cell:        func(export *multicluster.ServiceExport) any { return problems(export.Status.Conditions) },
		},
	)
}

func conditionColumn(conditionType, description string) table.Column[*multicluster.ServiceExport] {
	return table.Column[*multicluster.ServiceExport]{
		Name:        conditionType,
		Description: description,
		Cell: func(export *multicluster.ServiceExport) any {
			if condition := meta.FindStatusCondition(export.Status.Conditions, conditionType); condition != nil {
				return string(condition.Status)
			}
			return string(metav1.ConditionUnknown)
		},
	}
}

// problems returns the reasons of all conditions that report a problem.
func problems(all []metav1.Condition) string {
	want := map[string]metav1.ConditionStatus{
		multicluster.ServiceExportValid:    metav1.ConditionTrue,
		multicluster.ServiceExportReady:    metav1.ConditionTrue,
		multicluster.ServiceExportConflict: metav1.ConditionFalse,
	}
	reasons := conditions.Unmet(all, func(conditionType string) (metav1.ConditionStatus, bool) {
		status, known := want[conditionType]
		return status, known
	})
	if len(reasons) == 0 {
		return "<none>"
	}
	return strings.Join(reasons, ",")
}
