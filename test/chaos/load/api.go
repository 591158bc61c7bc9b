// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// serverPort is the port of the servers behind all endpoints.
const serverPort = 8080

var exports = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}

// Cluster changes and reads services through the API of a cluster.
type Cluster struct {
	Name       string
	kubernetes kubernetes.Interface
	dynamic    dynamic.Interface
}

// NewCluster returns a client of a cluster.
func NewCluster(name string, config *rest.Config) (*Cluster, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	return &Cluster{name, typed, untyped}, err
}

// Unknown reports whether an error leaves open whether a change happened. An object that exists
// already may have been created by the same request, which client-go repeats.
func Unknown(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= 500 || code == 0 || apierrors.IsTimeout(err) || apierrors.IsAlreadyExists(err)
}

// Make implements API.
func (c *Cluster) Make(ctx context.Context, change history.Change) (created time.Time, err error) {
	ns, name := change.Namespace, change.Name
	switch change.Operation {
	case history.CreateNamespace:
		_, err = c.kubernetes.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	case history.DeleteNamespace:
		return time.Time{}, c.deleteNamespace(ctx, ns)
	case history.CreateService:
		_, err = c.kubernetes.CoreV1().Services(ns).Create(ctx, service(name, *change.Spec), metav1.CreateOptions{})
	case history.DeleteService:
		err = ignoreNotFound(c.kubernetes.CoreV1().Services(ns).Delete(ctx, name, metav1.DeleteOptions{}))
	case history.Export:
		var made *unstructured.Unstructured
		if made, err = c.dynamic.Resource(exports).Namespace(ns).Create(ctx, export(change.Service), metav1.CreateOptions{}); err == nil {
			created = made.GetCreationTimestamp().Time
		}
	case history.Unexport:
		err = ignoreNotFound(c.dynamic.Resource(exports).Namespace(ns).Delete(ctx, name, metav1.DeleteOptions{}))
	case history.SetEndpoints:
		err = c.setEndpoints(ctx, ns, name, change.Endpoints)
	default:
		err = fmt.Errorf("unknown operation %q", change.Operation)
	}
	return created, err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteNamespace returns when the namespace is gone.
func (c *Cluster) deleteNamespace(ctx context.Context, name string) error {
	if err := ignoreNotFound(c.kubernetes.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		return err
	}
	for {
		_, err := c.kubernetes.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return fmt.Errorf("namespace %s is not gone: %w", name, errors.Join(err, ctx.Err()))
		}
	}
}

// setEndpoints creates or replaces the EndpointSlice of a Service.
func (c *Cluster) setEndpoints(ctx context.Context, ns, name string, addresses []string) error {
	slice := discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, port := range []string{"http", "alt", "other"} {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(port), Port: ptr.To(int32(serverPort)), Protocol: ptr.To(corev1.ProtocolTCP)})
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	data, err := json.Marshal(slice)
	if err != nil {
		return err
	}
	_, err = c.kubernetes.DiscoveryV1().EndpointSlices(ns).Patch(ctx, name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "chaos", Force: ptr.To(true)})
	return err
}

func service(name string, spec history.Spec) *corev1.Service {
	made := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{SessionAffinity: corev1.ServiceAffinity(spec.SessionAffinity)}}
	if spec.Headless {
		made.Spec.ClusterIP = corev1.ClusterIPNone
	}
	for _, port := range spec.Ports {
		made.Spec.Ports = append(made.Spec.Ports, corev1.ServicePort{Name: port.Name, Protocol: corev1.Protocol(port.Protocol), Port: port.Port})
	}
	return made
}

func export(of history.Service) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": exports.GroupVersion().String(), "kind": "ServiceExport", "metadata": map[string]any{"name": of.Name},
	}}
	if shared(of) {
		made.SetAnnotations(map[string]string{"clusterset.mcs-apiserver.io/use-clusterset-ip": "true"})
	}
	return made
}

// specOf returns what is merged of a Service.
func specOf(service *corev1.Service) *history.Spec {
	spec := history.Spec{Headless: service.Spec.ClusterIP == corev1.ClusterIPNone}
	if service.Spec.SessionAffinity != corev1.ServiceAffinityNone {
		spec.SessionAffinity = string(service.Spec.SessionAffinity)
	}
	for _, port := range service.Spec.Ports {
		spec.Ports = append(spec.Ports, history.Port{Name: port.Name, Protocol: string(port.Protocol), Port: port.Port})
	}
	return &spec
}

// Happened implements API.
func (c *Cluster) Happened(ctx context.Context, change history.Change) (bool, error) {
	if change.Name == "" {
		_, err := c.kubernetes.CoreV1().Namespaces().Get(ctx, change.Namespace, metav1.GetOptions{})
		return (err == nil) == (change.Operation == history.CreateNamespace), ignoreNotFound(err)
	}
	found, err := c.read(ctx, change.Service)
	if err != nil {
		return false, err
	}
	switch change.Operation {
	case history.CreateService:
		return reflect.DeepEqual(found.Spec, change.Spec), nil
	case history.DeleteService:
		return found.Spec == nil, nil
	case history.Export, history.Unexport:
		return found.Exported.IsZero() == (change.Operation == history.Unexport), nil
	default:
		return slices.Equal(found.Endpoints, change.Endpoints), nil
	}
}

// read returns a service as it is in the cluster.
func (c *Cluster) read(ctx context.Context, of history.Service) (history.FinalService, error) {
	found := history.FinalService{Service: of}
	service, serviceErr := c.kubernetes.CoreV1().Services(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if serviceErr == nil {
		found.Spec = specOf(service)
	}
	export, exportErr := c.dynamic.Resource(exports).Namespace(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if exportErr == nil {
		found.Exported = export.GetCreationTimestamp().Time
	}
	slice, sliceErr := c.kubernetes.DiscoveryV1().EndpointSlices(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if sliceErr == nil {
		for _, endpoint := range slice.Endpoints {
			found.Endpoints = append(found.Endpoints, endpoint.Addresses...)
		}
		slices.Sort(found.Endpoints)
	}
	return found, errors.Join(ignoreNotFound(serviceErr), ignoreNotFound(exportErr), ignoreNotFound(sliceErr))
}

// Final returns what exists of the load in the cluster.
func (c *Cluster) Final(ctx context.Context) (*history.Final, error) {
	final := &history.Final{Cluster: c.Name}
	for _, of := range Services() {
		found, err := c.read(ctx, of)
		if err != nil {
			return nil, err
		}
		final.Services = append(final.Services, found)
	}
	for _, name := range Namespaces() {
		switch _, err := c.kubernetes.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			final.Namespaces = append(final.Namespaces, name)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return final, nil
}
