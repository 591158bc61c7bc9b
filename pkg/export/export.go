// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export determines what this cluster exports: the Services that have a
// ServiceExport, and their endpoints. Apart from the listers that it reads from,
// it is pure.
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
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
)

// Reasons of invalid exports, as defined upstream.
const (
	ReasonNoService          = "NoService"
	ReasonInvalidServiceType = "InvalidServiceType"
	// ReasonTooManyPorts is not defined upstream.
	ReasonTooManyPorts = "TooManyPorts"
)

// Problem is why a ServiceExport exports nothing.
type Problem struct {
	Reason, Message string
}

// Check returns why a Service cannot be exported, or nil if it can. service is
// nil if the Service does not exist.
func Check(namespace, name string, service *corev1.Service) *Problem {
	switch {
	case service == nil:
		return &Problem{ReasonNoService, fmt.Sprintf("Service %q does not exist in namespace %q; nothing is exported until the Service is created", name, namespace)}
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return &Problem{ReasonInvalidServiceType, fmt.Sprintf("Service %q in namespace %q has type ExternalName and cannot be exported; "+
			"export a Service that has endpoints", name, namespace)}
	case isDerived(service):
		imported := service.Labels[multicluster.ServiceNameLabel]
		return &Problem{ReasonInvalidServiceType, fmt.Sprintf("Service %q in namespace %q is the derived Service of ServiceImport %q and cannot be exported; "+
			"export Service %q of this cluster instead", name, namespace, imported, imported)}
	case len(service.Spec.Ports) > clusterset.MaxPorts:
		return &Problem{ReasonTooManyPorts, fmt.Sprintf("Service %q in namespace %q has %d ports and cannot be exported, at most %d can be; "+
			"export several Services with some of the ports each", name, namespace, len(service.Spec.Ports), clusterset.MaxPorts)}
	}
	return nil
}

// isDerived reports whether a Service is the derived Service of an import.
// Exporting it would export the endpoints of other clusters.
func isDerived(service *corev1.Service) bool {
	imported, labeled := service.Labels[multicluster.ServiceNameLabel]
	return labeled && service.Name == multicluster.DerivedServiceName(service.Namespace, imported)
}

// Local reads the exports of this cluster.
type Local struct {
	Exports  multiclusterxlisters.ServiceExportLister
	Services corev1listers.ServiceLister
	// Slices holds EndpointSlices and has the indexers of SliceIndexers.
	Slices cache.Indexer
}

const sliceIndex = "service"

// SliceIndexers returns indexers of EndpointSlices by Service, so that the cost
// of a lookup depends on the Service and not on its namespace.
func SliceIndexers() cache.Indexers {
	return cache.Indexers{sliceIndex: func(object any) ([]string, error) {
		slice, ok := object.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] == "" {
			return nil, nil
		}
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}}
}

// Origin is the exporting cluster.
type Origin struct {
	ID string
	// JoinedAt is when the cluster joined its ClusterSet.
	JoinedAt time.Time
	// UseClusterSetIP is whether its exports request a shared ClusterSet IP unless
	// their annotation says otherwise.
	UseClusterSetIP bool
	// Properties returns the ClusterProperties of the members, by their IDs.
	Properties func() map[string]map[string]string
	// Now is the present time: endpoints cannot have changed later.
	Now time.Time
}

// Exported returns what this cluster exports under a name, or nil if it exports
// nothing.
func (l Local) Exported(origin Origin, namespace, name string) (*clusterset.Export, error) {
	exports, err := l.Exports.ServiceExports(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if exports.DeletionTimestamp != nil {
		return nil, nil // withdrawn as soon as the deletion starts
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
		if exported := EndpointSlice(origin, result.Service, service, slice); exported != nil {
			result.Slices = append(result.Slices, exported)
		}
	}
	return result, nil
}

// Service returns a Service of this cluster, or nil if it does not exist.
func (l Local) Service(namespace, name string) (*corev1.Service, error) {
	service, err := l.Services.Services(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return service, err
}

// EndpointSlices returns the EndpointSlices of a Service of this cluster.
func (l Local) EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	objects, err := l.Slices.ByIndex(sliceIndex, namespace+"/"+service)
	slices := make([]*discoveryv1.EndpointSlice, 0, len(objects))
	for _, object := range objects {
		slices = append(slices, object.(*discoveryv1.EndpointSlice))
	}
	return slices, err
}

// Service returns the ExportedService of a Service. All fields but the exported
// labels and annotations come from the Service itself.
func Service(origin Origin, export *multiclusterxv1beta1.ServiceExport, service *corev1.Service) *clusterset.ExportedService {
	cluster := origin.ID
	exported := &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{
		Cluster:               cluster,
		Service:               service.Name,
		ExportedAt:            export.CreationTimestamp,
		EffectiveAt:           export.CreationTimestamp,
		UseClusterSetIP:       wantsClusterSetIP(export, origin.UseClusterSetIP),
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
	setPreference(&exported.Spec, export)
	if exported.Spec.Audience = clusterlist.Audience(export.Annotations, cluster, origin.Properties); exported.Spec.Audience != nil {
		exported.Spec.UseClusterSetIP, exported.Spec.ClusterSetIP = false, nil // all clusters that see an IP have to see its holder
	}
	exported.Name, exported.Namespace = clusterset.ObjectName(service.Name, cluster), service.Namespace
	exported.UID, exported.CreationTimestamp = export.UID, export.CreationTimestamp
	exported.Labels = clusterset.SourceLabels(cluster, service.Name)
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		exported.Spec.Type = clusterset.Headless
		exported.Spec.UseClusterSetIP = false // headless Services have no IP
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

// EndpointSlice returns the ExportedEndpointSlice of a slice, or nil if its
// addresses are not IPs.
func EndpointSlice(origin Origin, exportedService *clusterset.ExportedService, service *corev1.Service, slice *discoveryv1.EndpointSlice) *clusterset.ExportedEndpointSlice {
	cluster := origin.ID
	if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 {
		return nil
	}
	exported := &clusterset.ExportedEndpointSlice{Spec: clusterset.ExportedEndpointSliceSpec{
		Cluster:     cluster,
		Service:     service.Name,
		AddressType: slice.AddressType,
		Ports:       slice.Ports,
		Audience:    exportedService.Spec.Audience,
		ChangedAt:   changedAt(origin.Now, exportedService, service, slice),
	}}
	exported.Name, exported.Namespace = clusterset.ObjectName(slice.Name, cluster), slice.Namespace
	exported.UID, exported.CreationTimestamp = slice.UID, slice.CreationTimestamp
	exported.Labels = clusterset.SourceLabels(cluster, service.Name)
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

// sliceController is the value of the label managed-by of slices of the EndpointSlice controller.
const sliceController = "endpointslice-controller.k8s.io"

// changedAt returns when the Pods or the Service changed, because of which the EndpointSlice
// controller last changed a slice. It is nil for slices of others, if Pods were deleted, and if
// that was before the Service was exported. The controller writes the creation of the Service when
// it first sees it: also of an old one whose Pods changed before the controller was started. A time
// that cannot be right is left out, too: others may write the annotation.
func changedAt(now time.Time, exported *clusterset.ExportedService, service *corev1.Service, slice *discoveryv1.EndpointSlice) *metav1.MicroTime {
	at, err := time.Parse(time.RFC3339Nano, slice.Annotations[corev1.EndpointsLastChangeTriggerTime])
	since := exported.Spec.Since()
	switch {
	case err != nil, slice.Labels[discoveryv1.LabelManagedBy] != sliceController, !clusterset.PlausibleChange(at, now):
		return nil
	case !at.After(service.CreationTimestamp.Time), !at.After(since.Time):
		return nil
	}
	return ptr.To(metav1.NewMicroTime(at))
}
