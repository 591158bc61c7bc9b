// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceexport has what commands about ServiceExports share.
package serviceexport

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Resource is how a ServiceExport is called in what is printed of it.
const Resource = "serviceexport.multicluster.x-k8s.io/"

// NotReadyReason is what an export's conditions say against it.
func NotReadyReason(serviceExport *multiclusterxv1beta1.ServiceExport) string {
	for _, name := range []string{multicluster.ServiceExportValid, multicluster.ServiceExportReady} {
		condition := meta.FindStatusCondition(serviceExport.Status.Conditions, name)
		if condition != nil && condition.Status != metav1.ConditionTrue {
			return condition.Message
		}
	}
	return "mcs-controller has not looked at it yet: `kubectl describe deployment -n mcs-system mcs-apiserver` tells whether it runs"
}

// Selector selects what belongs to a service.
func Selector(name string) string {
	return labels.Set{multicluster.ServiceNameLabel: name}.String()
}

// Names are the names of a namespace's ServiceExports.
func Names(ctx context.Context, c *cluster.Cluster, namespace string) ([]string, error) {
	exports, err := c.MCS.MulticlusterXV1beta1().ServiceExports(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range exports.Items {
		names = append(names, exports.Items[i].Name)
	}
	return names, nil
}
