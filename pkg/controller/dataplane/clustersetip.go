// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// A shared ClusterSet IP is the ingress address of a load balancer: kube-proxy
// routes it, and it does not have to be within the Service CIDR of any cluster.

const (
	// loadBalancerClass keeps other load balancer controllers away.
	loadBalancerClass = clusterset.GroupName + "/clusterset-ip"
	// byAddress indexes Services by their external and ingress addresses.
	byAddress = "servicesByAddress"
	// byWantedIP indexes imports by their shared ClusterSet IPs.
	byWantedIP = "importsByWantedIP"
)

// variant is the form of a derived Service that depends on what the host accepts.
type variant struct {
	// ips are the shared ClusterSet IPs of the Service.
	ips []string
	// policy is the external traffic policy. Local preserves the client address,
	// and needs a health check node port.
	policy corev1.ServiceExternalTrafficPolicy
	// problem is why the Service lacks a shared ClusterSet IP or the policy Local.
	problem string
	// distribution replaces the traffic distribution of the import.
	distribution distributionFallback
	// notes are what is said about which clusters answer.
	notes preferenceNotes
}

// plain returns the variant without shared ClusterSet IPs.
func plain(problem string) variant { return variant{problem: problem} }

// wantedIPs returns the shared ClusterSet IPs that an import should have.
func wantedIPs(serviceImport *multiclusterxv1beta1.ServiceImport) []string {
	if headless(serviceImport) {
		return nil
	}
	return strings.FieldsFunc(serviceImport.Annotations[multicluster.ClusterSetIPAnnotation], func(r rune) bool { return r == ',' })
}

// apply applies the variant to a Service.
func (v variant) apply(service *corev1.Service) {
	spec := &service.Spec
	setAnnotation(service, multicluster.ClusterSetIPProblemAnnotation, v.problem)
	setAnnotation(service, multicluster.TrafficDistributionProblemAnnotation, v.distribution.problem)
	v.notes.apply(service)
	if v.distribution.problem != "" {
		spec.TrafficDistribution = v.distribution.value
	}
	if len(v.ips) == 0 {
		spec.Type = corev1.ServiceTypeClusterIP
		spec.LoadBalancerClass, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy, spec.HealthCheckNodePort = nil, nil, "", 0
		return
	}
	if spec.ExternalTrafficPolicy != v.policy && v.policy == corev1.ServiceExternalTrafficPolicyCluster {
		spec.HealthCheckNodePort = 0
	}
	spec.Type = corev1.ServiceTypeLoadBalancer
	spec.LoadBalancerClass = ptr.To(loadBalancerClass)
	spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	spec.ExternalTrafficPolicy = v.policy
}

// ingress returns the load balancer status of the Service.
func (v variant) ingress() corev1.LoadBalancerStatus {
	var status corev1.LoadBalancerStatus
	for _, ip := range v.ips {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
	}
	return status
}

// complete reports whether a Service, which may be nil, has all ingress addresses of the
// variant.
func (v variant) complete(service *corev1.Service) bool {
	return len(v.ips) == 0 || service != nil && apiequality.Semantic.DeepEqual(service.Status.LoadBalancer, v.ingress())
}

// fallback returns the variant to try after the host refused this one because of a
// quota or a policy, or because no health check node port is left. It returns false
// if the host refused for another reason, or if nothing is left to try.
func (v variant) fallback(refusal error) (variant, bool) {
	health := noHealthCheckPort(refusal)
	switch {
	case len(v.ips) == 0 || !health && !apierrors.IsForbidden(refusal):
		return v, false
	case health && v.policy == corev1.ServiceExternalTrafficPolicyLocal:
		return variant{ips: v.ips, policy: corev1.ServiceExternalTrafficPolicyCluster,
			problem: "client addresses are not preserved: no health check node port is available in this cluster"}, true
	default:
		return plain(fmt.Sprintf("shared ClusterSet IP %s is unavailable in this cluster: %.500s", strings.Join(v.ips, ","), refusal.Error())), true
	}
}

// noHealthCheckPort reports whether the host has no health check node port left.
// The API has no reason for that, so the message has to be matched; other errors
// may contain the same words in names and URLs.
func noHealthCheckPort(refusal error) bool {
	var status apierrors.APIStatus
	return errors.As(refusal, &status) && status.Status().Code == http.StatusInternalServerError &&
		strings.Contains(strings.ToLower(status.Status().Message), "healthcheck nodeport")
}

// variantFor returns the variant of a derived Service to try first.
func (c *Controller) variantFor(key types.NamespacedName, serviceImport *multiclusterxv1beta1.ServiceImport, existing *corev1.Service) variant {
	ips := wantedIPs(serviceImport)
	if len(ips) == 0 {
		return plain("")
	}
	for _, ip := range ips {
		users, err := c.services.ByIndex(byAddress, ip)
		if err != nil {
			continue // unreachable: the index exists
		}
		if other := firstUser(users, existing); other != nil {
			return plain(fmt.Sprintf("shared ClusterSet IP %s is unavailable in this cluster: Service %q in namespace %q uses it", ip, other.Name, other.Namespace))
		}
	}
	if instead, refused := c.refusals.addresses(key, ips); refused {
		return instead
	}
	if hasHealthPort(existing) {
		c.healthPorts.found(key) // it keeps it
	}
	if !c.healthPorts.take(key, c.healthPortOf) {
		return withoutHealthPort(ips)
	}
	return variant{ips: ips, policy: corev1.ServiceExternalTrafficPolicyLocal}
}

// firstUser returns the Service with a better claim to an address than the existing
// derived Service, nil if there is none. It is unknown when a Service of a user got
// an address, so a derived Service that has the address keeps it: otherwise any user
// could take it away. Of two derived Services the older one keeps it.
func firstUser(users []any, existing *corev1.Service) *corev1.Service {
	var others []*corev1.Service
	has := false
	for _, user := range users {
		if service := user.(*corev1.Service); existing != nil && service.UID == existing.UID {
			has = true
		} else {
			others = append(others, service)
		}
	}
	others = slices.DeleteFunc(others, func(other *corev1.Service) bool {
		return has && (!isDerived(other) || compareAge(existing, other) < 0)
	})
	if len(others) == 0 {
		return nil
	}
	return slices.MinFunc(others, compareAge)
}

// compareAge orders Services by age, the oldest first.
func compareAge(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}

// indexByWantedIP returns the shared ClusterSet IPs of an import.
func indexByWantedIP(object any) ([]string, error) {
	serviceImport, ok := object.(*multiclusterxv1beta1.ServiceImport)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T, want ServiceImport", object)
	}
	return wantedIPs(serviceImport), nil
}

// indexByAddress returns the external and ingress addresses of a Service, not its
// cluster IPs.
func indexByAddress(object any) ([]string, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T, want Service", object)
	}
	addresses := slices.Clone(service.Spec.ExternalIPs)
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			addresses = append(addresses, ingress.IP)
		}
	}
	return addresses, nil
}

// applyIngress writes the load balancer status of a Service if it differs.
func (c *Controller) applyIngress(ctx context.Context, service *corev1.Service, wanted variant) error {
	status := wanted.ingress()
	if apiequality.Semantic.DeepEqual(service.Status.LoadBalancer, status) {
		return nil
	}
	updated := service.DeepCopy()
	updated.Status.LoadBalancer = status
	if _, err := c.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update load balancer status of derived Service: %w", err)
	}
	return nil
}
