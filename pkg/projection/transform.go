// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
)

// transform drops what nobody reads of objects before caches hold them: all Services and endpoints
// of the host cluster are held, whether they are exported or not.
func transform(services, slices, exports, nodes cache.SharedIndexInformer) error {
	return errors.Join(
		services.SetTransform(essentialService), slices.SetTransform(essentialSlice),
		exports.SetTransform(withoutManagedFields), nodes.SetTransform(essentialNode),
	)
}

func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}

func essentialService(object any) (any, error) {
	if service, ok := object.(*corev1.Service); ok {
		delete(service.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return withoutManagedFields(object)
}

// essentialSlice drops from an EndpointSlice what is neither exported nor restored.
func essentialSlice(object any) (any, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	for i := range slice.Endpoints {
		slice.Endpoints[i].TargetRef, slice.Endpoints[i].DeprecatedTopology = nil, nil
	}
	slice.OwnerReferences, slice.GenerateName = nil, ""
	if importedslice.IsImported(slice) {
		slice.Annotations = only(slice.Annotations, multicluster.SourceSliceAnnotation)
	} else {
		slice.Annotations = only(slice.Annotations, corev1.EndpointsLastChangeTriggerTime)
	}
	return withoutManagedFields(slice)
}

// only returns one of the annotations, if there is such a one.
func only(annotations map[string]string, name string) map[string]string {
	if value, ok := annotations[name]; ok {
		return map[string]string{name: value}
	}
	return nil
}

// essentialNode drops everything from a Node that is not used.
func essentialNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Spec:       corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR, PodCIDRs: node.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}, nil
}
