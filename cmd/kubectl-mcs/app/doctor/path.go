// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/diagnosis"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// path reads everything about the service: of a cluster that does not import it here, only what it
// exports.
func (o *observer) path(ctx context.Context, importing bool) diagnosis.Path {
	var path diagnosis.Path
	export, err := o.MCS.MulticlusterXV1beta1().ServiceExports(o.namespace).Get(ctx, o.service, metav1.GetOptions{})
	path.ServiceExport = readObject(o, mcsAdvice, export, err)
	service, err := o.Kubernetes.CoreV1().Services(o.namespace).Get(ctx, o.service, metav1.GetOptions{})
	path.Service = readObject(o, kubernetesAdvice, service, err)
	if importing {
		o.exports(ctx, &path)
		o.imports(ctx, &path)
	}
	return path
}

// exports reads what all clusters export.
func (o *observer) exports(ctx context.Context, path *diagnosis.Path) {
	selected := metav1.ListOptions{LabelSelector: serviceexport.Selector(o.service)}
	var services []clustersetv1alpha1.ExportedService
	exported, err := o.MCS.ClusterSetV1alpha1().ExportedServices(o.namespace).List(ctx, selected)
	if err == nil {
		services = exported.Items
	}
	path.Exports = read(o, mcsAdvice, services, err)
	var exportedSlices []clustersetv1alpha1.ExportedEndpointSlice
	endpoints, err := o.MCS.ClusterSetV1alpha1().ExportedEndpointSlices(o.namespace).List(ctx, selected)
	if err == nil {
		exportedSlices = endpoints.Items
	}
	path.Endpoints = read(o, mcsAdvice, exportedSlices, err)
	if path.Exports.Failure == "" && len(services) == 0 {
		path.Elsewhere = o.elsewhere(ctx, selected)
	}
}

// elsewhere returns the other namespaces in which a service of the name is exported. It is unknown to
// users who may not read all namespaces.
func (o *observer) elsewhere(ctx context.Context, selected metav1.ListOptions) []string {
	exported, err := o.MCS.ClusterSetV1alpha1().ExportedServices(metav1.NamespaceAll).List(ctx, selected)
	if err != nil {
		return nil
	}
	var namespaces []string
	for i := range exported.Items {
		if namespace := exported.Items[i].Namespace; namespace != o.namespace {
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// imports reads the import, and what mcs-controller made of it.
func (o *observer) imports(ctx context.Context, path *diagnosis.Path) {
	namespace, err := o.Kubernetes.CoreV1().Namespaces().Get(ctx, o.namespace, metav1.GetOptions{})
	path.Namespace = readObject(o, kubernetesAdvice, namespace, err)
	imported, err := o.MCS.MulticlusterXV1beta1().ServiceImports(o.namespace).Get(ctx, o.service, metav1.GetOptions{})
	path.Import = readObject(o, mcsAdvice, imported, err)
	derived, err := o.Kubernetes.CoreV1().Services(o.namespace).Get(ctx, multicluster.DerivedServiceName(o.namespace, o.service), metav1.GetOptions{})
	path.Derived = readObject(o, kubernetesAdvice, derived, err)
	var importedSlices []discoveryv1.EndpointSlice
	list, err := o.Kubernetes.DiscoveryV1().EndpointSlices(o.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{discoveryv1.LabelServiceName: multicluster.DerivedServiceName(o.namespace, o.service)}.String(),
	})
	if err == nil {
		importedSlices = list.Items
	}
	path.Slices = read(o, kubernetesAdvice, importedSlices, err)
	path.Egress = o.policies(ctx)
}

// policies reads which NetworkPolicies of the namespace restrict what the Pod connects to.
func (o *observer) policies(ctx context.Context) diagnosis.Read[[]string] {
	list, err := o.Kubernetes.NetworkingV1().NetworkPolicies(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return read[[]string](o, kubernetesAdvice, nil, err)
	}
	var names []string
	for i := range list.Items {
		policy := &list.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err == nil && selector.Matches(o.podLabels) && slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			names = append(names, policy.Name)
		}
	}
	slices.Sort(names)
	return diagnosis.Of(names)
}
