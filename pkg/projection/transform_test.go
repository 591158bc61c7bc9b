// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
)

// held returns what caches hold of an object.
func held[T any](t *testing.T, of func(any) (any, error), object T) T {
	t.Helper()
	result, err := of(object)
	must(t, err)
	return result.(T)
}

// detailed returns an EndpointSlice that has all fields which Kubernetes sets.
func detailed(labels, annotations map[string]string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-abc", UID: "uid", GenerateName: "web-", Labels: labels, Annotations: annotations,
			CreationTimestamp: metav1.NewTime(epoch), OwnerReferences: []metav1.OwnerReference{{Name: "web"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}, Hostname: ptr.To("web-0"),
			NodeName: ptr.To("node"), Zone: ptr.To("zone"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "web-0"},
			DeprecatedTopology: map[string]string{"a": "b"}, Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone"}}},
		}},
	}
}

// R653: what caches hold of objects is enough to export them.
func TestCachedObjectsAreExportedAsTheyAre(t *testing.T) {
	changed := epoch.Add(time.Minute)
	slice := detailed(map[string]string{discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"},
		map[string]string{corev1.EndpointsLastChangeTriggerTime: changed.Format(time.RFC3339Nano), "other": "x"})
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", CreationTimestamp: metav1.NewTime(epoch), Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "c": "d"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	serviceExport := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: "uid", CreationTimestamp: metav1.NewTime(epoch), Annotations: map[string]string{clusterset.ImportAnnotation: "x"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
	origin := export.Origin{ID: "a", Now: changed.Add(time.Second)}
	wantService := export.Service(origin, serviceExport, service)
	wantSlice := export.EndpointSlice(origin, wantService, service, slice)

	cachedService, cachedExport := held(t, essentialService, service.DeepCopy()), held(t, withoutManagedFields, serviceExport.DeepCopy())
	cachedSlice := held(t, essentialSlice, slice.DeepCopy())
	gotService := export.Service(origin, cachedExport, cachedService)
	if diff := cmp.Diff(wantService, gotService); diff != "" {
		t.Error(diff)
	}
	if wantSlice.Spec.ChangedAt == nil {
		t.Error("it is not exported when endpoints changed")
	}
	if diff := cmp.Diff(wantSlice, export.EndpointSlice(origin, gotService, cachedService, cachedSlice)); diff != "" {
		t.Error(diff)
	}
	for name, object := range map[string]metav1.Object{"Service": cachedService, "ServiceExport": cachedExport, "EndpointSlice": cachedSlice} {
		if len(object.GetManagedFields())+len(object.GetOwnerReferences()) > 0 {
			t.Errorf("managed fields or owners of %s are held", name)
		}
	}
	if want := map[string]string{"c": "d"}; !cmp.Equal(cachedService.Annotations, want) {
		t.Errorf("annotations of the Service are %v, want %v", cachedService.Annotations, want)
	}
	if cachedSlice.Endpoints[0].TargetRef != nil || len(cachedSlice.Annotations) != 1 {
		t.Errorf("more is held of the EndpointSlice than is exported: %+v", cachedSlice)
	}
}

// R653: what caches hold of imported EndpointSlices is enough to restore what other clusters export.
func TestCachedSlicesAreRestoredAsTheyAre(t *testing.T) {
	source := importedslice.Source{Name: "web-abc.b", UID: "uid", CreationTimestamp: metav1.NewTime(epoch), Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}}
	slice := detailed(map[string]string{
		discoveryv1.LabelServiceName: "derived-x", discoveryv1.LabelManagedBy: multicluster.ManagedBy, multicluster.ServiceNameLabel: "web", multicluster.SourceClusterLabel: "b",
	}, map[string]string{multicluster.SourceSliceAnnotation: source.Annotation(), "other": "x"})
	want, errs := importedslice.Restore("b", []*discoveryv1.EndpointSlice{slice})
	if len(want) != 1 || len(errs) > 0 {
		t.Fatalf("%d slices are restored: %v", len(want), errs)
	}
	cached := held(t, essentialSlice, slice.DeepCopy())
	got, _ := importedslice.Restore("b", []*discoveryv1.EndpointSlice{cached})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(cached.Annotations) != 1 {
		t.Errorf("annotations %v are held", cached.Annotations)
	}
}
