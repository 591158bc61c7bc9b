// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// noon is when all tests take place.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(age time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-age)) }

// newCluster is a cluster, of context east, that has these objects.
func newCluster(objects ...runtime.Object) *cluster {
	var core, mcs []runtime.Object
	for _, object := range objects {
		switch object.(type) {
		case *corev1.Service, *corev1.Namespace:
			core = append(core, object)
		default:
			mcs = append(mcs, object)
		}
	}
	return &cluster{Context: "east", Kubernetes: kubernetesfake.NewClientset(core...), MCS: mcsfake.NewSimpleClientset(mcs...)}
}

func fakeOf(c *cluster) *mcsfake.Clientset { return c.MCS.(*mcsfake.Clientset) }

func newMember(name string, state clustersetv1alpha1.MemberState, changes ...func(*clustersetv1alpha1.MemberStatus)) *clustersetv1alpha1.Member {
	member := &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: name, ClusterSet: "production", State: state, TTLSeconds: 60, LostPolicy: clustersetv1alpha1.LostPolicyWithdraw},
	}
	for _, change := range changes {
		change(&member.Status)
	}
	return member
}

func seen(age time.Duration) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) { status.LastSeen = ptr.To(before(age)) }
}

func counts(exports, endpoints int32) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) { status.Exports, status.Endpoints = exports, endpoints }
}

func condition(name string, value metav1.ConditionStatus, reason, message string) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: name, Status: value, Reason: reason, Message: message})
	}
}

// newExported is the service shop/web as a cluster exports it. All clusters
// but east are others.
func newExported(cluster string, age time.Duration, changes ...func(*clustersetv1alpha1.ExportedServiceSpec)) *clustersetv1alpha1.ExportedService {
	exported := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web." + cluster, Labels: clusterset.SourceLabels(cluster, "web")},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: "web", ExportedAt: before(age), Type: clustersetv1alpha1.ClusterSetIP,
			Ports:           []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
		},
	}
	if cluster != "east" {
		exported.Spec.Path = []string{cluster}
	}
	for _, change := range changes {
		change(&exported.Spec)
	}
	return exported
}

func headless(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Type = clustersetv1alpha1.Headless }

// newSlice holds endpoints of shop/web that serve its port http at 8080. Their
// addresses are given; those that begin with ! are not ready.
func newSlice(cluster string, family discoveryv1.AddressType, addresses ...string) *clustersetv1alpha1.ExportedEndpointSlice {
	slice := &clustersetv1alpha1.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + strings.ToLower(string(family)) + "." + cluster, Labels: clusterset.SourceLabels(cluster, "web")},
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: "web", AddressType: family,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
		},
	}
	for _, address := range addresses {
		address, unready := strings.CutPrefix(address, "!")
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!unready)},
		})
	}
	return slice
}

// newImport is the import of shop/web with an IP.
func newImport(changes ...func(*multiclusterxv1beta1.ServiceImport)) *multiclusterxv1beta1.ServiceImport {
	result := &multiclusterxv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: multiclusterxv1beta1.ServiceImportSpec{
			Type: multiclusterxv1beta1.ClusterSetIP, IPs: []string{"10.0.0.7"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:           []multiclusterxv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
			SessionAffinity: corev1.ServiceAffinityNone,
		},
		Status: multiclusterxv1beta1.ServiceImportStatus{Conditions: []metav1.Condition{{Type: multicluster.ServiceImportReady, Status: metav1.ConditionTrue}}},
	}
	for _, change := range changes {
		change(result)
	}
	return result
}

func newService(name string, changes ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	for _, change := range changes {
		change(service)
	}
	return service
}

func newServiceExport(name string, conditions ...metav1.Condition) *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Status:     multiclusterxv1beta1.ServiceExportStatus{Conditions: conditions},
	}
}

func expectText(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
		t.Errorf("- want, + got:\n%s\nall of it:\n%s", diff, got)
	}
}

func expectError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want %q in it", err, text)
		}
	}
}
