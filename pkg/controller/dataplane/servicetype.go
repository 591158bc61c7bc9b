// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// A Service with cluster IPs cannot become headless, nor vice versa. But it can become a
// Service of type ExternalName, and that can become any other. So the derived Service of an
// import whose type changes stays, and with it the imported EndpointSlices, which belong to
// it. While it is an ExternalName, the import is Headless, and DNS answers with the endpoints.

// mustChangeType reports whether a derived Service has cluster IPs and should be headless, or
// vice versa.
func mustChangeType(existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport) bool {
	return !isChanging(existing) && (existing.Spec.ClusterIP == corev1.ClusterIPNone) != headless(serviceImport)
}

// isChanging reports whether the type of a derived Service is being changed.
func isChanging(service *corev1.Service) bool {
	return service != nil && service.Spec.Type == corev1.ServiceTypeExternalName
}

// changing returns a derived Service that can become one for the import.
func changing(existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport) *corev1.Service {
	service := existing.DeepCopy()
	setAnnotation(service, multicluster.PendingTypeAnnotation, string(wantedType(serviceImport)))
	service.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, SessionAffinity: corev1.ServiceAffinityNone,
		TrafficDistribution: existing.Spec.TrafficDistribution, // hints of endpoints follow it
		ExternalName:        fmt.Sprintf("%s.%s.svc.clusterset.local", serviceImport.Name, serviceImport.Namespace),
	}
	return service
}

// beginTypeChange makes a derived Service one that can become headless or get cluster IPs. If
// the host refuses that, because it allows no Services of type ExternalName, the Service is
// deleted, which is an event, and nil is returned.
func (c *Controller) beginTypeChange(ctx context.Context, existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport) (*corev1.Service, error) {
	updated, err := c.updateService(ctx, changing(existing, serviceImport))
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil, c.deleteService(ctx, existing)
	}
	return updated, err
}

// labelTime is how long a derived Service waits for the labels of imported EndpointSlices.
const labelTime = 10 * time.Second

// awaitLabels reports whether a derived Service that is to get an IP should not get it yet:
// kube-proxy ignores EndpointSlices that have the label of headless Services, and would have no
// endpoints for the IP. The keys of the clusters remove the label; each is an event. A member
// that exceeds its limits delays the Service for labelTime only.
func (c *Controller) awaitLabels(name types.NamespacedName, getsIP bool) bool {
	labeled := false
	if getsIP {
		for _, slice := range c.existingSlices(name) {
			labeled = labeled || isLabeledHeadless(slice)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since, waiting := c.labeling[name]
	switch {
	case !labeled:
		delete(c.labeling, name)
	case !waiting:
		since = c.clock.Now()
		c.labeling[name] = since
		c.queue.AddAfter(ofService(name), labelTime)
	}
	return labeled && c.clock.Since(since) < labelTime
}

// shouldBeLabeled reports whether imported EndpointSlices are those of a headless Service that
// stays headless.
func shouldBeLabeled(owner *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport) bool {
	return owner.Spec.ClusterIP == corev1.ClusterIPNone && headless(serviceImport)
}

// isLabeledHeadless reports whether a slice that kube-proxy may read is one of a headless Service.
func isLabeledHeadless(slice *discoveryv1.EndpointSlice) bool {
	_, labeled := slice.Labels[corev1.IsHeadlessService]
	return labeled && !isOfImport(slice) && !isDetached(slice)
}
