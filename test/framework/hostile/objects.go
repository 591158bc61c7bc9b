// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// Service returns an ExportedService with one port, in JSON. Changes may make it invalid.
func Service(namespace, name, cluster string, changes ...func(*clustersetv1alpha1.ExportedService)) string {
	service := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: clusterset.ObjectName(name, cluster), UID: types.UID("uid-" + name), ResourceVersion: "7",
			Labels: clusterset.SourceLabels(cluster, name), CreationTimestamp: metav1.Now(),
		},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: name, ExportedAt: metav1.Now(), Type: clustersetv1alpha1.ClusterSetIP,
			Ports:      []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		},
	}
	for _, change := range changes {
		change(service)
	}
	return encode(service)
}

// Slice returns an ExportedEndpointSlice of a Service in which the addresses are
// ready endpoints, in JSON. Changes may make it invalid.
func Slice(namespace, service, name, cluster string, addresses []string, changes ...func(*clustersetv1alpha1.ExportedEndpointSlice)) string {
	slice := &clustersetv1alpha1.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: clusterset.ObjectName(name, cluster), UID: types.UID("uid-" + name), ResourceVersion: "7",
			Labels: clusterset.SourceLabels(cluster, service),
		},
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: service, AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](80)}},
		},
	}
	for _, address := range addresses {
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	for _, change := range changes {
		change(slice)
	}
	return encode(slice)
}

// ClaimsOf returns the claims of a cluster with an ID in a ClusterSet, in JSON.
func ClaimsOf(id, clusterSet string) []string {
	return []string{claim("id.k8s.io", id), claim("clusterset.k8s.io", clusterSet)}
}

func claim(name, value string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"uid":"uid-of-%s","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"value":%q}}`, name, name, value)
}

// Entry returns the entry of a cluster in its own members list, in JSON.
func Entry(id, clusterSet string, peers []string, changes ...func(*clustersetv1alpha1.Member)) string {
	entry := &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id, ResourceVersion: "7"},
		Status: clustersetv1alpha1.MemberStatus{
			ClusterID: id, ClusterUID: types.UID("uid-of-" + id), ClusterSet: clusterSet, State: clustersetv1alpha1.MemberLocal, Synced: true, Peers: peers,
		},
	}
	for _, change := range changes {
		change(entry)
	}
	return encode(entry)
}

func encode(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // API types can be encoded
	}
	return string(text)
}
