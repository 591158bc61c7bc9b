// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustertest provides fake clusters and their objects.
package clustertest

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// Noon is the current time in tests.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Before returns the time before Noon.
func Before(age time.Duration) metav1.Time { return metav1.NewTime(Noon.Add(-age)) }

// NewCluster returns a cluster with these objects and the context east.
func NewCluster(objects ...runtime.Object) *cluster.Cluster {
	var core, mcs []runtime.Object
	for _, object := range objects {
		switch object.(type) {
		case *corev1.Service, *corev1.Namespace:
			core = append(core, object)
		default:
			mcs = append(mcs, object)
		}
	}
	return &cluster.Cluster{Context: "east", Kubernetes: kubernetesfake.NewClientset(core...), MCS: mcsfake.NewSimpleClientset(mcs...)}
}

// FakeOf returns the fake client for the API of mcs-apiserver.
func FakeOf(c *cluster.Cluster) *mcsfake.Clientset { return c.MCS.(*mcsfake.Clientset) }

// NewMember returns a member of the ClusterSet production.
func NewMember(name string, state clustersetv1alpha1.MemberState, changes ...func(*clustersetv1alpha1.MemberStatus)) *clustersetv1alpha1.Member {
	member := &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: name, ClusterSet: "production", State: state, TTLSeconds: 60, LostPolicy: clustersetv1alpha1.LostPolicyWithdraw},
	}
	for _, change := range changes {
		change(&member.Status)
	}
	return member
}

// Seen sets when a member was last seen.
func Seen(age time.Duration) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) { status.LastSeen = ptr.To(Before(age)) }
}

// Counts sets the number of exports and endpoints of a member.
func Counts(exports, endpoints int32) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) { status.Exports, status.Endpoints = exports, endpoints }
}

// Condition adds a condition to a member.
func Condition(name string, value metav1.ConditionStatus, reason, message string) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: name, Status: value, Reason: reason, Message: message})
	}
}

// NewExported returns the export of the service shop/web by a cluster. East is the
// local cluster.
func NewExported(cluster string, age time.Duration, changes ...func(*clustersetv1alpha1.ExportedServiceSpec)) *clustersetv1alpha1.ExportedService {
	exported := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web." + cluster, Labels: clusterset.SourceLabels(cluster, "web")},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, Service: "web", ExportedAt: Before(age), Type: clustersetv1alpha1.ClusterSetIP,
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

// Headless makes an exported service headless.
func Headless(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Type = clustersetv1alpha1.Headless }

// NewSlice returns a slice of shop/web with the target port 8080 and these
// addresses. Endpoints whose address starts with ! are not ready.
func NewSlice(cluster string, family discoveryv1.AddressType, addresses ...string) *clustersetv1alpha1.ExportedEndpointSlice {
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

// NewImport returns the import of shop/web with an IP.
func NewImport(changes ...func(*multiclusterxv1beta1.ServiceImport)) *multiclusterxv1beta1.ServiceImport {
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

// NewService returns a Service in the namespace shop.
func NewService(name string, changes ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	for _, change := range changes {
		change(service)
	}
	return service
}

// NewServiceExport returns a ServiceExport in the namespace shop.
func NewServiceExport(name string, conditions ...metav1.Condition) *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Status:     multiclusterxv1beta1.ServiceExportStatus{Conditions: conditions},
	}
}

// Local returns the entry of the local cluster east.
func Local() *clustersetv1alpha1.Member { return NewMember("east", clustersetv1alpha1.MemberLocal) }

// Forbidden is the error for users without permission to read the members.
var Forbidden = apierrors.NewForbidden(schema.GroupResource{Group: clustersetv1alpha1.SchemeGroupVersion.Group, Resource: "members"}, "", nil)

// WithoutMembers denies the permission to read the members.
func WithoutMembers(c *cluster.Cluster) *cluster.Cluster {
	FakeOf(c).PrependReactor("list", "members", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, Forbidden })
	return c
}

// Ready returns the condition Ready of a ServiceExport.
func Ready(status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: multicluster.ServiceExportReady, Status: status, Message: message}
}

// IsExported reports whether the ServiceExport shop/web exists.
func IsExported(ctx context.Context, c *cluster.Cluster) bool {
	_, err := c.MCS.MulticlusterXV1beta1().ServiceExports("shop").Get(ctx, "web", metav1.GetOptions{})
	return err == nil
}

// ServiceExports is the resource of ServiceExports.
var ServiceExports = multiclusterxv1beta1.SchemeGroupVersion.WithResource("serviceexports").GroupResource()
