// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceexport looks up and describes ServiceExports.
package serviceexport

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Resource is the prefix of ServiceExports in the output, as kubectl prints them.
const Resource = "serviceexport.multicluster.x-k8s.io/"

// NotReadyReason returns why a ServiceExport is not ready.
func NotReadyReason(serviceExport *multiclusterxv1beta1.ServiceExport) string {
	for _, name := range []string{multicluster.ServiceExportValid, multicluster.ServiceExportReady} {
		condition := meta.FindStatusCondition(serviceExport.Status.Conditions, name)
		if condition != nil && condition.Status != metav1.ConditionTrue {
			return printer.Escape(condition.Message)
		}
	}
	return "mcs-controller has not processed it yet: `kubectl " + cluster.DescribeInstallation + "` shows whether mcs-controller is running"
}

// Selector returns the label selector for the objects of an exported service.
func Selector(name string) string {
	return labels.Set{multicluster.ServiceNameLabel: name}.String()
}

// Names lists the ServiceExports of a namespace.
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
