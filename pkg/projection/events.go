// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// onEveryChange calls one function for all events, with the object as it was
// and as it is.
func onEveryChange(handle func(any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: handle,
		UpdateFunc: func(old, object any) {
			handle(old)
			handle(object)
		},
		DeleteFunc: func(object any) {
			handle(tombstone.Unwrap(object))
		},
	}
}

func (p *Projection) enqueueService(service types.NamespacedName) {
	p.queue.Add(key{aService, service})
}

// nameChanged is for objects that have the name of the service.
func (p *Projection) nameChanged(object any) {
	if metadata, ok := object.(metav1.Object); ok {
		p.enqueueService(types.NamespacedName{Namespace: metadata.GetNamespace(), Name: metadata.GetName()})
	}
}

// serviceChanged is for Services that are exported, and for those that stand
// for imports.
func (p *Projection) serviceChanged(object any) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return
	}
	p.nameChanged(service)
	if imported := service.Labels[multicluster.ServiceNameLabel]; imported != "" {
		p.enqueueService(types.NamespacedName{Namespace: service.Namespace, Name: imported})
	}
}

// sliceChanged is for endpoints that are exported, and for imported ones.
func (p *Projection) sliceChanged(object any) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	for _, label := range []string{discoveryv1.LabelServiceName, multicluster.ServiceNameLabel} {
		if name := slice.Labels[label]; name != "" {
			p.enqueueService(types.NamespacedName{Namespace: slice.Namespace, Name: name})
		}
	}
}

// namespaceChanged is for imports that come and go with their namespace, and
// for the one namespace that tells clusters apart.
func (p *Projection) namespaceChanged(object any) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return
	}
	if namespace.Name == metav1.NamespaceSystem {
		p.queue.Add(key{what: theClaims})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for service := range p.byNamespace[namespace.Name] {
		p.enqueueService(service)
	}
}
