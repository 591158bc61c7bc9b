// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Namespace creates a namespace, unless it exists.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	_, err := c.Kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Service creates a Service without a selector and with one port, http at 80.
// Options change the Service before it is created.
func (c *Cluster) Service(ctx context.Context, namespace, name string, options ...func(*corev1.Service)) (*corev1.Service, error) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
	for _, option := range options {
		option(service)
	}
	return c.Kubernetes.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
}

// EndpointSlice creates an EndpointSlice with the Service's ports, in which the
// addresses, all of one IP family, are ready endpoints. Another call for the
// same family replaces the endpoints.
func (c *Cluster) EndpointSlice(ctx context.Context, namespace, service string, addresses []string, options ...func(*discoveryv1.EndpointSlice)) (*discoveryv1.EndpointSlice, error) {
	of, err := c.Kubernetes.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	family, err := addressType(addresses)
	if err != nil {
		return nil, err
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service + "-" + strings.ToLower(string(family)), Namespace: namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: family,
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{address},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
		})
	}
	for _, port := range of.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(port.Name), Protocol: ptr.To(port.Protocol), AppProtocol: port.AppProtocol,
			Port: ptr.To(cmp.Or(port.TargetPort.IntVal, port.Port)),
		})
	}
	for _, option := range options {
		option(slice)
	}
	return createOrUpdate(ctx, c.Kubernetes.DiscoveryV1().EndpointSlices(namespace), slice)
}

func addressType(addresses []string) (discoveryv1.AddressType, error) {
	if len(addresses) == 0 {
		return "", errors.New("an EndpointSlice needs at least one address: delete it to remove all endpoints")
	}
	first, err := netip.ParseAddr(addresses[0])
	switch {
	case err != nil:
		return "", fmt.Errorf("create EndpointSlice: %w", err)
	case first.Is4():
		return discoveryv1.AddressTypeIPv4, nil
	default:
		return discoveryv1.AddressTypeIPv6, nil
	}
}

// Export exports a Service.
func (c *Cluster) Export(ctx context.Context, namespace, name string, options ...func(*multiclusterxv1beta1.ServiceExport)) (*multiclusterxv1beta1.ServiceExport, error) {
	export := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, option := range options {
		option(export)
	}
	return c.Clientset.MulticlusterXV1beta1().ServiceExports(namespace).Create(ctx, export, metav1.CreateOptions{})
}

// Unexport deletes the ServiceExport of a Service.
func (c *Cluster) Unexport(ctx context.Context, namespace, name string) error {
	return c.Clientset.MulticlusterXV1beta1().ServiceExports(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}
