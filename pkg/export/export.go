// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export decides what this cluster shows the others: the Services that
// ServiceExports name, and the endpoints of these Services. It is pure but for
// the listers that it reads from.
package export

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
)

// Reasons why an export is not valid. They are upstream's.
const (
	ReasonNoService          = "NoService"
	ReasonInvalidServiceType = "InvalidServiceType"
)

// Problem is why a ServiceExport contributes nothing.
type Problem struct {
	Reason, Message string
}

// Check says what keeps a Service from being exported: nil if nothing does.
// The Service is nil when there is none.
func Check(namespace, name string, service *corev1.Service) *Problem {
	switch {
	case service == nil:
		return &Problem{ReasonNoService, fmt.Sprintf("nothing is exported until there is a Service %q in namespace %q", name, namespace)}
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return &Problem{ReasonInvalidServiceType, fmt.Sprintf("Service %q in namespace %q is of type ExternalName, which cannot be exported: "+
			"export a Service that has endpoints", name, namespace)}
	case isDerived(service):
		imported := service.Labels[multicluster.ServiceNameLabel]
		return &Problem{ReasonInvalidServiceType, fmt.Sprintf("Service %q in namespace %q stands for the ServiceImport %q and cannot be exported again: "+
			"export a Service %q of this cluster instead", name, namespace, imported, imported)}
	}
	return nil
}

// isDerived says whether a Service stands for an import. Exporting it would
// export what other clusters export.
func isDerived(service *corev1.Service) bool {
	imported, labelled := service.Labels[multicluster.ServiceNameLabel]
	return labelled && service.Name == multicluster.DerivedServiceName(service.Namespace, imported)
}

// Local reads what this cluster exports.
type Local struct {
	Exports  multiclusterxlisters.ServiceExportLister
	Services corev1listers.ServiceLister
	// Slices are EndpointSlices, indexed as SliceIndexers says.
	Slices cache.Indexer
}

const sliceIndex = "service"

// SliceIndexers index EndpointSlices by the Service that they belong to, so
// that a change costs what the Service has and not what its namespace has.
func SliceIndexers() cache.Indexers {
	return cache.Indexers{sliceIndex: func(object any) ([]string, error) {
		slice, ok := object.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
			return nil, nil
		}
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}}
}

// Origin is the cluster that exports.
type Origin struct {
	ID string
	// JoinedAt is since when it claims its id in the ClusterSet.
	JoinedAt time.Time
	// UseClusterSetIP is whether its exports ask for one IP in all clusters, unless
	// they say otherwise.
	UseClusterSetIP bool
}

// Exported is what a cluster exports under a name: nil when it exports nothing.
func (l Local) Exported(origin Origin, namespace, name string) (*clusterset.Export, error) {
	exports, err := l.Exports.ServiceExports(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if exports.DeletionTimestamp != nil {
		return nil, nil // being deleted, it is no export any more
	}
	service, err := l.Service(namespace, name)
	if err != nil || Check(namespace, name, service) != nil {
		return nil, err
	}
	result := &clusterset.Export{Service: Service(origin, exports, service)}
	slices, err := l.EndpointSlices(namespace, name)
	if err != nil {
		return nil, err
	}
	for _, slice := range slices {
		if exported := EndpointSlice(origin.ID, name, slice); exported != nil {
			result.Slices = append(result.Slices, exported)
		}
	}
	return result, nil
}

// Service is a Service of this cluster, nil when there is none.
func (l Local) Service(namespace, name string) (*corev1.Service, error) {
	service, err := l.Services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return service, err
}

// EndpointSlices are those of a Service of this cluster.
func (l Local) EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	objects, err := l.Slices.ByIndex(sliceIndex, namespace+"/"+service)
	slices := make([]*discoveryv1.EndpointSlice, 0, len(objects))
	for _, object := range objects {
		slices = append(slices, object.(*discoveryv1.EndpointSlice))
	}
	return slices, err
}

// Service is what a cluster shows of an exported Service. Everything but the
// exported labels and annotations comes from the Service.
func Service(origin Origin, export *multiclusterxv1beta1.ServiceExport, service *corev1.Service) *clusterset.ExportedService {
	cluster := origin.ID
	exported := &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{
		Cluster:               cluster,
		Service:               service.Name,
		ExportedAt:            export.CreationTimestamp,
		EffectiveAt:           export.CreationTimestamp,
		UseClusterSetIP:       wants(export, origin.UseClusterSetIP),
		ClusterSetIP:          RecordedDecision(export, origin.JoinedAt),
		Type:                  clusterset.ClusterSetIP,
		SessionAffinity:       service.Spec.SessionAffinity,
		SessionAffinityConfig: service.Spec.SessionAffinityConfig.DeepCopy(),
		IPFamilies:            append([]corev1.IPFamily(nil), service.Spec.IPFamilies...),
		InternalTrafficPolicy: service.Spec.InternalTrafficPolicy,
		TrafficDistribution:   service.Spec.TrafficDistribution,
		ExportedLabels:        export.Spec.ExportedLabels,
		ExportedAnnotations:   export.Spec.ExportedAnnotations,
	}}
	exported.Name, exported.Namespace = clusterset.ObjectName(service.Name, cluster), service.Namespace
	exported.UID, exported.CreationTimestamp = export.UID, export.CreationTimestamp
	exported.Labels = clusterset.SourceLabels(cluster, service.Name)
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		exported.Spec.Type = clusterset.Headless
		exported.Spec.UseClusterSetIP = false // there is none to be had
	}
	if origin.JoinedAt.After(export.CreationTimestamp.Time) {
		exported.Spec.EffectiveAt = metav1.NewTime(origin.JoinedAt)
	}
	for _, port := range service.Spec.Ports {
		exported.Spec.Ports = append(exported.Spec.Ports, clusterset.ServicePort{
			Name: port.Name, Protocol: port.Protocol, AppProtocol: port.AppProtocol, Port: port.Port,
		})
	}
	return exported
}

// EndpointSlice is what a cluster shows of a slice of an exported Service: nil
// for slices whose addresses are not IPs.
func EndpointSlice(cluster, service string, slice *discoveryv1.EndpointSlice) *clusterset.ExportedEndpointSlice {
	if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 {
		return nil
	}
	exported := &clusterset.ExportedEndpointSlice{Spec: clusterset.ExportedEndpointSliceSpec{
		Cluster:     cluster,
		Service:     service,
		AddressType: slice.AddressType,
		Ports:       slice.Ports,
	}}
	exported.Name, exported.Namespace = clusterset.ObjectName(slice.Name, cluster), slice.Namespace
	exported.UID, exported.CreationTimestamp = slice.UID, slice.CreationTimestamp
	exported.Labels = clusterset.SourceLabels(cluster, service)
	for _, endpoint := range slice.Endpoints {
		exported.Spec.Endpoints = append(exported.Spec.Endpoints, discoveryv1.Endpoint{
			Addresses:  endpoint.Addresses,
			Conditions: endpoint.Conditions,
			Hostname:   endpoint.Hostname,
			NodeName:   endpoint.NodeName,
			Zone:       endpoint.Zone,
			Hints:      endpoint.Hints,
		})
	}
	return exported
}
