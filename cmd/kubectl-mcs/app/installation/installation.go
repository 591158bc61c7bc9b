// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation finds the Deployment of mcs-apiserver in a cluster.
package installation

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
)

const (
	// Selector is that of the Deployment, and of its Pods.
	Selector = "app.kubernetes.io/name=mcs-apiserver"
	// Controller is the name of the container of mcs-controller, and of its program.
	Controller = "mcs-controller"
)

// Find returns the namespace of mcs-apiserver, and its Deployment there, nil if there is none.
func Find(ctx context.Context, c *cluster.Cluster) (string, *appsv1.Deployment, error) {
	registrations, err := aggregator.NewForConfig(c.Config)
	if err != nil {
		return "", nil, err
	}
	namespace, err := attachment.InstalledIn(ctx, registrations)
	if err != nil {
		return "", nil, err
	}
	deployment, err := find(ctx, c.Kubernetes, namespace)
	return namespace, deployment, err
}

func find(ctx context.Context, client kubernetes.Interface, namespace string) (*appsv1.Deployment, error) {
	list, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if deployment := &list.Items[i]; Image(deployment) != "" && deployment.Namespace == namespace {
			return deployment, nil
		}
	}
	return nil, nil
}

// Image returns the image of mcs-controller in a Deployment, empty if it has no such container.
func Image(deployment *appsv1.Deployment) string {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == Controller {
			return container.Image
		}
	}
	return ""
}
