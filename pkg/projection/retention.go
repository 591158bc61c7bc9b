// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
)

// A derived Service that is found at startup shows that its import existed. If the
// import is not known to be exported any more, it was withdrawn while no server ran,
// or a member that exports it has not been read yet. The import is retained until that
// is known. Then its end is recorded, as that of any other import, before it is
// deleted.

const (
	// maxRetention limits how long imports are retained for members that no replica can
	// read.
	maxRetention = 5 * time.Minute
	// retentionCheck is how often it is checked after that whether another replica still
	// reads a member that this one cannot.
	retentionCheck = 30 * time.Second
)

// derivedServices returns all derived Services in a namespace, or in all, by import.
func (p *Projection) derivedServices(namespace string) (map[types.NamespacedName]*corev1.Service, error) {
	found, err := p.local.Services.Services(namespace).List(labels.SelectorFromSet(labels.Set{multicluster.ManagedByLabel: multicluster.ManagedBy}))
	derived := map[types.NamespacedName]*corev1.Service{}
	for _, service := range found {
		if name := service.Labels[multicluster.ServiceNameLabel]; service.Name == multicluster.DerivedServiceName(service.Namespace, name) {
			derived[types.NamespacedName{Namespace: service.Namespace, Name: name}] = service
		}
	}
	return derived, err
}

// retained returns the derived Service of an import that is retained, or nil. next is
// the identity of the import. One that is exported, or whose life is over, is not
// retained from then on.
func (p *Projection) retained(service types.NamespacedName, next *importidentity.Identity, exported bool) *corev1.Service {
	p.mu.Lock()
	defer p.mu.Unlock()
	derived := p.unverified[service]
	if derived == nil {
		return nil
	}
	if exported || next == nil || importidentity.Marked(derived.Annotations[multicluster.ImportLifeAnnotation], next.Scope.NamespaceUID) != next.Life {
		delete(p.unverified, service)
		return nil
	}
	return derived
}

// release ends the retention of imports once all members have been read, or if they
// have been retained for too long. What another replica may show does not end. release
// reports whether the retention ended.
func (p *Projection) release(expired bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.members.Settled() && (!expired || p.members.ReadElsewhere()) {
		return false
	}
	for service := range p.unverified {
		p.enqueueService(service)
	}
	p.unverified = nil
	return true
}

// newRetainedImport returns a retained import, as far as it is known from its derived
// Service. mcs-controller leaves that and the imported EndpointSlices as they are.
func newRetainedImport(key types.NamespacedName, identity importidentity.Identity, derived *corev1.Service, local localState) *multicluster.ServiceImport {
	result := newIdentified(key, identity)
	spec := derived.Spec
	result.Spec = multicluster.ServiceImportSpec{
		Type: multicluster.ClusterSetIP, IPFamilies: spec.IPFamilies,
		SessionAffinity: spec.SessionAffinity, SessionAffinityConfig: spec.SessionAffinityConfig,
		InternalTrafficPolicy: spec.InternalTrafficPolicy, TrafficDistribution: spec.TrafficDistribution,
	}
	if withoutIP(derived) {
		result.Spec.Type = multicluster.Headless
	}
	for _, port := range spec.Ports {
		result.Spec.Ports = append(result.Spec.Ports, multicluster.ServicePort{Name: port.Name, Protocol: port.Protocol, AppProtocol: port.AppProtocol, Port: port.Port})
	}
	decision := &clusterset.ClusterSetIPDecision{}
	for _, ingress := range derived.Status.LoadBalancer.Ingress {
		decision.IPs = append(decision.IPs, ingress.IP)
	}
	if len(decision.IPs) > 0 {
		result.Annotations[multicluster.ClusterSetIPAnnotation] = strings.Join(decision.IPs, ",")
	}
	copyAnnotations(result, derived,
		multicluster.ClusterPreferenceAnnotation, multicluster.PreferenceMinReadyAnnotation, multicluster.ActiveTierAnnotation, multicluster.ActiveTierReasonAnnotation)
	setAddresses(result, local.derived, decision)
	setSlices(result, local)
	result.Status.Conditions = []metav1.Condition{{
		Type: multicluster.ServiceImportReady, Status: metav1.ConditionUnknown, Reason: multicluster.ServiceImportReasonExportsUnknown,
		Message: fmt.Sprintf("no cluster is known to export the Service since mcs-apiserver was restarted; its derived Service and imported EndpointSlices stay as they are. "+
			"Unless it is exported, the ServiceImport is deleted when all members have been read, or after %s if no replica of mcs-apiserver reaches those that have not", maxRetention),
		LastTransitionTime: latest(derived.CreationTimestamp.Rfc3339Copy(), result.CreationTimestamp),
	}}
	result.Generation = generation(&result.Spec)
	return result
}
