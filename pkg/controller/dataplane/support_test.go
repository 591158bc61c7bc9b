// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"flag"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"go.uber.org/goleak"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

var rounds = flag.Uint64("rounds", 5, "how many random cases each property is tested with")

var (
	web     = types.NamespacedName{Namespace: "shop", Name: "web"}
	derived = multicluster.DerivedServiceName("shop", "web")
	ipv4    = []corev1.IPFamily{corev1.IPv4Protocol}
)

// newImport returns an import with one port, http at 80.
func newImport(changes ...func(*multiclusterxv1beta1.ServiceImport)) *multiclusterxv1beta1.ServiceImport {
	result := &multiclusterxv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name},
		Spec: multiclusterxv1beta1.ServiceImportSpec{
			Type: multiclusterxv1beta1.ClusterSetIP, IPFamilies: ipv4,
			Ports: []multiclusterxv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, change := range changes {
		change(result)
	}
	return result
}

func makeHeadless(serviceImport *multiclusterxv1beta1.ServiceImport) {
	serviceImport.Spec.Type = multiclusterxv1beta1.Headless
}

// defaulted returns a Service with the defaults of the API server.
func defaulted(service *corev1.Service) *corev1.Service {
	service = service.DeepCopy()
	service.UID, service.ResourceVersion = "uid", "7"
	spec := &service.Spec
	if spec.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIPs, spec.IPFamilies = []string{corev1.ClusterIPNone}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	} else {
		spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies = "10.96.0.5", []string{"10.96.0.5"}, ipv4
	}
	for i := range spec.Ports {
		if spec.Ports[i].TargetPort.IntValue() == 0 {
			spec.Ports[i].TargetPort.IntVal = spec.Ports[i].Port
		}
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP && (spec.SessionAffinityConfig == nil || spec.SessionAffinityConfig.ClientIP == nil || spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == nil) {
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](10800)}}
	}
	if spec.InternalTrafficPolicy == nil {
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	}
	return service
}

// ready returns ready endpoints with these addresses.
func ready(addresses ...string) []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for _, address := range addresses {
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	return endpoints
}

// exportedBy returns a cluster that exports the service with one port, http at 80 with
// target port 8080, and one slice. The cluster "here" is this one.
func exportedBy(cluster string, endpoints []discoveryv1.Endpoint, changes ...func(*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpointSlice)) exporter {
	var path []string
	if cluster != "here" {
		path = []string{cluster}
	}
	labels := clusterset.SourceLabels(cluster, web.Name)
	service := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: clusterset.ObjectName(web.Name, cluster), Labels: labels},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: web.Name, Path: path,
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	slice := &clustersetv1alpha1.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: clusterset.ObjectName("web-abc", cluster), Labels: labels},
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: web.Name, AddressType: discoveryv1.AddressTypeIPv4, Path: path, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](8080)}},
		},
	}
	for _, change := range changes {
		change(service, slice)
	}
	return exporter{service: service, slices: []*clustersetv1alpha1.ExportedEndpointSlice{slice}}
}

// slicesOf returns the desired slices of an import that has none yet.
func slicesOf(serviceImport *multiclusterxv1beta1.ServiceImport, exporters ...exporter) map[string]*discoveryv1.EndpointSlice {
	return slicesOfAll(serviceImport, defaulted(desiredService(nil, serviceImport, variant{})), exporters, nil)
}

// slicesOfAll returns the desired slices of all exporters.
func slicesOfAll(serviceImport *multiclusterxv1beta1.ServiceImport, owner *corev1.Service, exporters []exporter, existing map[string]*discoveryv1.EndpointSlice) map[string]*discoveryv1.EndpointSlice {
	desired := map[string]*discoveryv1.EndpointSlice{}
	for _, exporter := range exporters {
		maps.Copy(desired, desiredSlices(serviceImport, owner, exporter, existing))
	}
	return desired
}

// only returns the only slice.
func only(t *testing.T, slices map[string]*discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	t.Helper()
	if len(slices) != 1 {
		t.Fatalf("got %d slices, want one", len(slices))
	}
	for _, slice := range slices {
		return slice
	}
	return nil
}
