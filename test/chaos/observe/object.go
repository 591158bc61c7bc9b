// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe has the clients of clusters that record what they see: watches and reads of
// imports and imported EndpointSlices, answers of DNS, and where connections arrive.
package observe

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

const (
	serviceNameLabel   = "multicluster.kubernetes.io/service-name"
	sourceClusterLabel = "multicluster.kubernetes.io/source-cluster"
)

// resources are those that are watched.
var resources = map[string]schema.GroupVersionResource{
	history.Imports: {Group: v1beta1.GroupName, Version: "v1beta1", Resource: "serviceimports"},
	history.Slices:  discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
}

// selectors select what is watched of a resource.
var selectors = map[string]string{history.Slices: sourceClusterLabel}

// convert returns what is recorded of an object.
func convert(resource string, from *unstructured.Unstructured) (history.Object, error) {
	object := history.Object{Namespace: from.GetNamespace(), Name: from.GetName(), UID: string(from.GetUID())}
	if resource == history.Slices {
		var slice discoveryv1.EndpointSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, &slice); err != nil {
			return object, err
		}
		object.Slice = &history.Slice{Service: slice.Labels[serviceNameLabel], Cluster: slice.Labels[sourceClusterLabel]}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				object.Slice.Addresses = append(object.Slice.Addresses, endpoint.Addresses...)
			}
		}
		slices.Sort(object.Slice.Addresses)
		return object, nil
	}
	var found v1beta1.ServiceImport
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, &found); err != nil {
		return object, err
	}
	object.Import = &history.Import{IPs: found.Spec.IPs}
	object.Import.Headless = found.Spec.Type == v1beta1.Headless
	object.Import.SessionAffinity = string(found.Spec.SessionAffinity)
	for _, port := range found.Spec.Ports {
		object.Import.Ports = append(object.Import.Ports, history.Port{Name: port.Name, Protocol: string(port.Protocol), Port: port.Port})
	}
	for _, cluster := range found.Status.Clusters {
		object.Import.Clusters = append(object.Import.Clusters, cluster.Cluster)
	}
	return object, nil
}
