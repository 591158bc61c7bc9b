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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// onEveryChange returns a handler that calls handle for every event. For an
// update it passes the old and the new object.
func onEveryChange(handle func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: handle,
		UpdateFunc: func(old, object any) {
			handle(old)
			handle(object)
		},
		DeleteFunc: func(object any) { handle(tombstone.Unwrap(object)) },
	}
}

func (p *Projection) enqueueService(service types.NamespacedName) {
	p.queue.Add(key{kind: serviceKey, name: service})
}

// exportChanged handles Services that another cluster exports. What keeps changing is
// computed about once per exportInterval: every change is an event for all watchers.
func (p *Projection) exportChanged(ref exports.Ref) {
	changed := key{serviceKey, ref.Service, ref.Cluster}
	if wait := p.pace.Take(ref); wait > 0 {
		p.queue.AddAfter(changed, wait)
		return
	}
	p.queue.Add(changed)
}

// nameChanged handles objects that have the name of the Service.
func (p *Projection) nameChanged(object any) {
	if metadata, ok := object.(metav1.Object); ok {
		p.enqueueService(types.NamespacedName{Namespace: metadata.GetNamespace(), Name: metadata.GetName()})
	}
}

// serviceChanged handles exported Services and derived Services.
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

// onSliceChange returns a handler of exported and imported EndpointSlices. Of imported ones, an
// import shows whether there are any, so that updates of them, which are most of what
// mcs-controller writes, change nothing.
func (p *Projection) onSliceChange() cache.ResourceEventHandler {
	handler := onEveryChange(p.sliceChanged)
	updated := handler.UpdateFunc
	handler.UpdateFunc = func(old, object any) {
		if before, after := importOf(old), importOf(object); before != (exports.Ref{}) && before == after {
			p.members.EndpointsImported(after)
			return
		}
		updated(old, object)
	}
	return handler
}

// importOf returns the source of an imported EndpointSlice, and nothing for any other object.
func importOf(object any) exports.Ref {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok || !importedslice.IsImported(slice) {
		return exports.Ref{}
	}
	return exports.Ref{
		Cluster: slice.Labels[multicluster.SourceClusterLabel],
		Service: types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[multicluster.ServiceNameLabel]},
	}
}

// sliceChanged handles EndpointSlices of Services that may be exported, and imported ones that
// were added or deleted, or belong to another import than before.
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
	if ref := importOf(slice); ref != (exports.Ref{}) {
		p.members.EndpointsImported(ref)
	}
}

// namespaceChanged handles namespaces, with which imports come and go. The UID
// of kube-system is part of the identity of this cluster.
func (p *Projection) namespaceChanged(object any) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return
	}
	if namespace.Name == metav1.NamespaceSystem {
		p.queue.Add(key{kind: claimsKey})
	}
	p.config.Lives.NamespaceChanged(namespace.UID)
	p.enqueueNamespace(namespace.Name)
	if !importDisabled(namespace) { // it may have been, so that nothing was computed
		for _, service := range p.members.Services() {
			if service.Namespace == namespace.Name {
				p.enqueueService(service)
			}
		}
	}
}

// enqueueNamespace enqueues everything that is exported or imported in a namespace.
func (p *Projection) enqueueNamespace(namespace string) {
	for _, service := range p.imports.services(namespace) {
		p.enqueueService(service)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for service := range p.published.byNamespace[namespace] {
		p.enqueueService(service)
	}
}

// livesChanged handles imports whose lives changed, or all in a namespace if there
// are no names.
func (p *Projection) livesChanged(namespace string, names []string) {
	if len(names) == 0 {
		p.enqueueNamespace(namespace)
	}
	for _, name := range names {
		p.enqueueService(types.NamespacedName{Namespace: namespace, Name: name})
	}
}
