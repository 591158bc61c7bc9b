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
	"time"

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

// An IP that is the same in all clusters is the ingress of a load balancer:
// kube-proxy then takes it, and no cluster has to have it among the IPs of its
// Services.

const (
	// loadBalancerClass keeps every other load balancer away.
	loadBalancerClass = clusterset.GroupName + "/clusterset-ip"
	// byAddress indexes Services by all addresses that lead to them.
	byAddress = "servicesByAddress"
	// byWantedIP indexes imports by their addresses for all clusters.
	byWantedIP = "importsByWantedIP"
	// retryPlain is how long a Service stays without an address that was refused
	// before that is asked for again.
	retryPlain = 5 * time.Minute
)

// variant is how a Service has its addresses for all clusters.
type variant struct {
	ips []string
	// policy is the external traffic policy: Local keeps the address of clients,
	// and takes a port of the node for health checks.
	policy corev1.ServiceExternalTrafficPolicy
	// problem is why it is not as it should be.
	problem string
}

// plain is a Service without such addresses.
func plain(problem string) variant { return variant{problem: problem} }

// wantedIPs are the addresses for all clusters that an import should have.
func wantedIPs(serviceImport *multiclusterxv1beta1.ServiceImport) []string {
	if headless(serviceImport) {
		return nil
	}
	return strings.FieldsFunc(serviceImport.Annotations[multicluster.ClusterSetIPAnnotation], func(r rune) bool { return r == ',' })
}

// apply gives a Service its kind.
func (v variant) apply(service *corev1.Service) {
	spec := &service.Spec
	if v.problem != "" {
		if service.Annotations == nil {
			service.Annotations = map[string]string{}
		}
		service.Annotations[multicluster.ClusterSetIPProblemAnnotation] = v.problem
	} else {
		delete(service.Annotations, multicluster.ClusterSetIPProblemAnnotation)
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

// ingress is the status of a Service with these addresses.
func (v variant) ingress() corev1.LoadBalancerStatus {
	var status corev1.LoadBalancerStatus
	for _, ip := range v.ips {
		status.Ingress = append(status.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
	}
	return status
}

// nextBest is how a Service can be made that the cluster refuses to make like
// this, because of a quota or a policy, or because it has run out of ports for
// health checks; false if that is not why, or if there is no other way.
func (v variant) nextBest(refusal error) (variant, bool) {
	health := noHealthCheckPort(refusal)
	switch {
	case len(v.ips) == 0 || !health && !apierrors.IsForbidden(refusal):
		return v, false
	case health && v.policy == corev1.ServiceExternalTrafficPolicyLocal:
		return variant{v.ips, corev1.ServiceExternalTrafficPolicyCluster,
			"the address of clients is not kept, because the cluster has no port left for health checks of load balancers"}, true
	default:
		return plain(fmt.Sprintf("the IP %s, which the service has in all clusters, is not to be had in this one: %.500s", strings.Join(v.ips, ","), refusal.Error())), true
	}
}

// noHealthCheckPort says whether the cluster has no port left for health checks.
// It has no reason of its own for that, but says so in words. Other errors may
// have them in names and addresses.
func noHealthCheckPort(refusal error) bool {
	var status apierrors.APIStatus
	return errors.As(refusal, &status) && status.Status().Code == http.StatusInternalServerError &&
		strings.Contains(strings.ToLower(status.Status().Message), "healthcheck nodeport")
}

// variantFor is how the Service of an import should have its addresses.
func (c *Controller) variantFor(key types.NamespacedName, serviceImport *multiclusterxv1beta1.ServiceImport, existing *corev1.Service) variant {
	ips := wantedIPs(serviceImport)
	if len(ips) == 0 {
		return plain("")
	}
	for _, ip := range ips {
		users, err := c.services.ByIndex(byAddress, ip)
		if err != nil {
			continue // there is such an index
		}
		if other := firstUser(users, existing); other != nil {
			return plain(fmt.Sprintf("the IP %s, which the service has in all clusters, is used in this one by Service %q in namespace %q", ip, other.Name, other.Namespace))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused, ok := c.refused[key]; ok && c.clock.Now().Before(refused.until) && slices.Equal(refused.ips, ips) {
		return refused.instead
	}
	return variant{ips: ips, policy: corev1.ServiceExternalTrafficPolicyLocal}
}

// firstUser finds another Service that an address leads to, and that had it
// first. When somebody else's got it cannot be told, but a Service of ours that
// has it does not lose it: otherwise anybody could take it away. Of two that are
// ours the older keeps it.
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
		return has && (!ours(other) || byAge(existing, other) < 0)
	})
	if len(others) == 0 {
		return nil
	}
	return slices.MinFunc(others, byAge)
}

func byAge(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}

// indexByWantedIP indexes imports by their addresses for all clusters.
func indexByWantedIP(object any) ([]string, error) {
	serviceImport, ok := object.(*multiclusterxv1beta1.ServiceImport)
	if !ok {
		return nil, fmt.Errorf("%T is no ServiceImport", object)
	}
	return wantedIPs(serviceImport), nil
}

// indexByAddress indexes Services by the addresses that lead to them, other
// than the IPs that the cluster gives them.
func indexByAddress(object any) ([]string, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("%T is no Service", object)
	}
	addresses := slices.Clone(service.Spec.ExternalIPs)
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			addresses = append(addresses, ingress.IP)
		}
	}
	return addresses, nil
}

// refusal is an address that the cluster did not let a Service have.
type refusal struct {
	ips     []string
	instead variant
	until   time.Time
}

// refuse remembers for a while that a Service cannot have its addresses.
func (c *Controller) refuse(key types.NamespacedName, ips []string, instead variant) {
	c.mu.Lock()
	c.refused[key] = refusal{ips, instead, c.clock.Now().Add(retryPlain)}
	c.mu.Unlock()
	c.queue.AddAfter(key, retryPlain)
}

// applyIngress makes the addresses of a Service be as they should.
func (c *Controller) applyIngress(ctx context.Context, service *corev1.Service, wanted variant) (*corev1.Service, error) {
	status := wanted.ingress()
	if apiequality.Semantic.DeepEqual(service.Status.LoadBalancer, status) {
		return service, nil
	}
	updated := service.DeepCopy()
	updated.Status.LoadBalancer = status
	result, err := c.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("give the Service that stands for an import its IP for all clusters: %w", err)
	}
	return result, nil
}
