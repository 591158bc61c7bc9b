// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importedslice defines what of another cluster's endpoints is imported,
// and restores ExportedEndpointSlices from imported EndpointSlices: nothing else
// stores the endpoints of members. It is pure.
package importedslice

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Source is what the source annotation of an imported EndpointSlice says about
// the ExportedEndpointSlice that it was made from. Its other fields are those of
// the imported EndpointSlice, or follow from its labels.
type Source struct {
	Name              string      `json:"name"`
	UID               types.UID   `json:"uid,omitempty"`
	CreationTimestamp metav1.Time `json:"creationTimestamp,omitzero"`
	// Ports have the names of the exporting cluster. The imported EndpointSlice has
	// only the ports of the import, with the names of the import.
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
}

// Annotation returns the value of the source annotation.
func (s Source) Annotation() string {
	value, err := json.Marshal(s)
	if err != nil {
		return "" // unreachable: all fields can be encoded
	}
	return string(value)
}

// Endpoint returns what is imported of an endpoint of another cluster: node names
// and hints have no meaning outside of their cluster.
func Endpoint(endpoint discoveryv1.Endpoint) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: endpoint.Addresses, Conditions: endpoint.Conditions, Hostname: endpoint.Hostname, Zone: endpoint.Zone,
	}
}

// Sort sorts endpoints by address: another order at the source must not cause a
// write.
func Sort(endpoints []discoveryv1.Endpoint) {
	slices.SortStableFunc(endpoints, func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
}

// IsImported reports whether an EndpointSlice was created by mcs-controller for
// an import.
func IsImported(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == multicluster.ManagedBy && slice.Labels[multicluster.ServiceNameLabel] != ""
}

// Restore returns the ExportedEndpointSlices of a cluster that imported
// EndpointSlices of one import were made from, sorted by name. The path is not
// restored: it is the same as that of the ExportedService. It also returns the
// errors for slices whose source annotation cannot be decoded; they are left out.
func Restore(cluster string, imported []*discoveryv1.EndpointSlice) ([]*clusterset.ExportedEndpointSlice, []error) {
	sources := map[string]*clusterset.ExportedEndpointSlice{}
	var errs []error
	for _, slice := range imported {
		annotation, recorded := slice.Annotations[multicluster.SourceSliceAnnotation]
		if !recorded || !IsImported(slice) || slice.Labels[multicluster.SourceClusterLabel] != cluster {
			continue
		}
		var source Source
		if err := json.Unmarshal([]byte(annotation), &source); err != nil {
			errs = append(errs, fmt.Errorf("decode annotation %s of EndpointSlice %s/%s: %w", multicluster.SourceSliceAnnotation, slice.Namespace, slice.Name, err))
			continue
		}
		// A source with many endpoints is divided among several slices.
		restored := sources[source.Name]
		if restored == nil {
			restored = newExported(cluster, source, slice)
			sources[source.Name] = restored
		}
		for _, endpoint := range slice.Endpoints {
			restored.Spec.Endpoints = append(restored.Spec.Endpoints, Endpoint(endpoint))
		}
	}
	result := make([]*clusterset.ExportedEndpointSlice, 0, len(sources))
	for _, restored := range sources {
		Sort(restored.Spec.Endpoints)
		// While slices are replaced by those of another form, there are both.
		restored.Spec.Endpoints = slices.CompactFunc(restored.Spec.Endpoints, func(a, b discoveryv1.Endpoint) bool { return apiequality.Semantic.DeepEqual(a, b) })
		result = append(result, restored)
	}
	slices.SortFunc(result, func(a, b *clusterset.ExportedEndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return result, errs
}

func newExported(cluster string, source Source, slice *discoveryv1.EndpointSlice) *clusterset.ExportedEndpointSlice {
	service := slice.Labels[multicluster.ServiceNameLabel]
	return &clusterset.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: source.Name, UID: source.UID, CreationTimestamp: source.CreationTimestamp,
			Labels: clusterset.SourceLabels(cluster, service),
		},
		Spec: clusterset.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: service, AddressType: slice.AddressType, Ports: source.Ports,
		},
	}
}
