// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
)

var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func serviceExport(change ...func(*multiclusterxv1beta1.ServiceExport)) *multiclusterxv1beta1.ServiceExport {
	export := &multiclusterxv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "uid-of-the-export", CreationTimestamp: created,
			Labels: map[string]string{"private": "label"}, Annotations: map[string]string{"private": "annotation"},
		},
		Spec: multiclusterxv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"l": "1"}, ExportedAnnotations: map[string]string{"a": "1"}},
	}
	for _, change := range change {
		change(export)
	}
	return export
}

func service(change ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "uid-of-the-service",
			Labels: map[string]string{"private": "label"}, Annotations: map[string]string{"private": "annotation"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
			Selector:              map[string]string{"app": "web"},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports:                 []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080, AppProtocol: ptr.To("http")}, {Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 81}},
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](5)}},
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
			TrafficDistribution:   ptr.To(corev1.ServiceTrafficDistributionPreferSameZone),
		},
	}
	for _, change := range change {
		change(service)
	}
	return service
}

func endpointSlice(name, service string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: "uid-of-a-slice", CreationTimestamp: created,
			Labels: map[string]string{discoveryv1.LabelServiceName: service, "private": "label"},
		},
		AddressType: family,
		Endpoints:   endpoints,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
}

// local returns a Local with these objects.
func local(objects ...metav1.Object) Local {
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	exports, services, slices := indexer(), indexer(), cache.NewIndexer(cache.MetaNamespaceKeyFunc, SliceIndexers())
	for _, object := range objects {
		var err error
		switch object.(type) {
		case *multiclusterxv1beta1.ServiceExport:
			err = exports.Add(object)
		case *corev1.Service:
			err = services.Add(object)
		case *discoveryv1.EndpointSlice:
			err = slices.Add(object)
		}
		if err != nil {
			panic(err)
		}
	}
	return Local{multiclusterxlisters.NewServiceExportLister(exports), corev1listers.NewServiceLister(services), slices}
}

// now is the present.
var now = time.Date(2026, 11, 18, 8, 0, 0, 0, time.UTC)

func exported(t *testing.T, objects ...metav1.Object) *clusterset.Export {
	t.Helper()
	exported, err := local(objects...).Exported(Origin{ID: "east", Now: now}, "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	return exported
}

// R12, R13: all fields but the exported labels and annotations come from the
// Service, and no other metadata is exported.
func TestExportedServiceReflectsTheService(t *testing.T) {
	got := exported(t, serviceExport(), service()).Service
	want := &clusterset.ExportedService{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web.east", Namespace: "shop", UID: "uid-of-the-export", CreationTimestamp: created,
			Labels: map[string]string{multicluster.SourceClusterLabel: "east", multicluster.ServiceNameLabel: "web"},
		},
		Spec: clusterset.ExportedServiceSpec{
			Cluster: "east", Service: "web", ExportedAt: created, EffectiveAt: created, Type: clusterset.ClusterSetIP,
			Ports: []clusterset.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, AppProtocol: ptr.To("http")},
				{Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 81},
			},
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](5)}},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal),
			TrafficDistribution:   ptr.To(corev1.ServiceTrafficDistributionPreferSameZone),
			ExportedLabels:        map[string]string{"l": "1"},
			ExportedAnnotations:   map[string]string{"a": "1"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// R35, R42, R44: headless Services are Headless, all others ClusterSetIP.
func TestTypeOfAnExportedService(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Service)
		want   clusterset.ServiceType
	}{
		{"ClusterIP", func(*corev1.Service) {}, clusterset.ClusterSetIP},
		{"NodePort", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, clusterset.ClusterSetIP},
		{"LoadBalancer", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }, clusterset.ClusterSetIP},
		{"headless", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, clusterset.Headless},
		{"headless without ports", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone; s.Spec.Ports = nil }, clusterset.Headless},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := exported(t, serviceExport(), service(test.change)).Service.Spec.Type; got != test.want {
				t.Errorf("the type is %s, want %s", got, test.want)
			}
		})
	}
}

// R9, R11, R18, R19, R23: Services without a valid export are not exported.
func TestInvalidExportsAreNotExported(t *testing.T) {
	derived := multicluster.DerivedServiceName("shop", "other")
	for _, test := range []struct {
		name            string
		objects         []metav1.Object
		reason, message string
	}{
		{name: "no export", objects: []metav1.Object{service()}},
		{name: "an export of another name", objects: []metav1.Object{service(), serviceExport(func(e *multiclusterxv1beta1.ServiceExport) { e.Name = "other" })}},
		{name: "an export in another namespace", objects: []metav1.Object{service(), serviceExport(func(e *multiclusterxv1beta1.ServiceExport) { e.Namespace = "other" })}},
		{name: "an export that is being deleted", objects: []metav1.Object{service(), serviceExport(func(e *multiclusterxv1beta1.ServiceExport) { e.DeletionTimestamp = &created })}},
		{name: "no Service", objects: []metav1.Object{serviceExport()}, reason: ReasonNoService, message: `Service "web" does not exist in namespace "shop"`},
		{
			name: "ExternalName", objects: []metav1.Object{serviceExport(), service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
			reason: ReasonInvalidServiceType, message: "export a Service that has endpoints",
		},
		{ // R492: other clusters would refuse it
			name: "too many ports", objects: []metav1.Object{serviceExport(), service(func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, clusterset.MaxPorts+1) })},
			reason: ReasonTooManyPorts, message: "has 257 ports and cannot be exported, at most 256 can be",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := exported(t, test.objects...); got != nil {
				t.Errorf("exported %+v", got.Service)
			}
			if test.reason == "" {
				return
			}
			held, err := local(test.objects...).Service("shop", "web")
			if err != nil {
				t.Fatal(err)
			}
			problem := Check("shop", "web", held)
			if problem == nil || problem.Reason != test.reason || !strings.Contains(problem.Message, test.message) {
				t.Errorf("the problem is %+v", problem)
			}
		})
	}
	loop := service(func(s *corev1.Service) {
		s.Name, s.Labels = derived, map[string]string{multicluster.ServiceNameLabel: "other"}
	})
	problem := Check("shop", derived, loop)
	if problem == nil || problem.Reason != ReasonInvalidServiceType || !strings.Contains(problem.Message, `ServiceImport "other"`) {
		t.Errorf("a derived Service: %+v", problem)
	}
}

// R9: only endpoints of the exported Service are exported, with everything that
// routing and DNS need and without references to Pods.
func TestEndpointsOfAnExportedService(t *testing.T) {
	full := discoveryv1.Endpoint{
		Addresses:  []string{"10.1.0.1"},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
		Hostname:   ptr.To("web-0"), NodeName: ptr.To("node-1"), Zone: ptr.To("zone-1"),
		Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-1"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-1"}}},
	}
	withReference := full
	withReference.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "web-0", UID: "secret"}
	withReference.DeprecatedTopology = map[string]string{"kubernetes.io/hostname": "node-1"}
	got := exported(t, serviceExport(), service(),
		endpointSlice("web-4", "web", discoveryv1.AddressTypeIPv4, withReference),
		endpointSlice("web-6", "web", discoveryv1.AddressTypeIPv6, discoveryv1.Endpoint{Addresses: []string{"fd00::1"}}),
		endpointSlice("web-names", "web", discoveryv1.AddressTypeFQDN, discoveryv1.Endpoint{Addresses: []string{"example.com"}}),
		endpointSlice("other-4", "other", discoveryv1.AddressTypeIPv4, full),
	)
	families := map[discoveryv1.AddressType]*clusterset.ExportedEndpointSlice{}
	for _, slice := range got.Slices {
		families[slice.Spec.AddressType] = slice
	}
	if len(got.Slices) != 2 || len(families) != 2 {
		t.Fatalf("slices: %+v", got.Slices)
	}
	want := &clusterset.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-4.east", Namespace: "shop", UID: "uid-of-a-slice", CreationTimestamp: created,
			Labels: map[string]string{multicluster.SourceClusterLabel: "east", multicluster.ServiceNameLabel: "web"},
		},
		Spec: clusterset.ExportedEndpointSliceSpec{
			Cluster: "east", Service: "web", AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{full},
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
		},
	}
	if diff := cmp.Diff(want, families[discoveryv1.AddressTypeIPv4]); diff != "" {
		t.Error(diff)
	}
}

// R523: it is exported when the Pods or the Service changed, because of which endpoints changed,
// if the EndpointSlice controller says so, and the Service was exported then. Of what changed before
// it was started, it says when the Service was created.
func TestTimeOfAChangeIsExported(t *testing.T) {
	early, late := now.Add(-2*time.Hour), now.Add(-30*time.Minute)
	changed := func(text, manager string, serviceCreated, exportCreated, joined time.Time) *metav1.MicroTime {
		slice := endpointSlice("web-4", "web", discoveryv1.AddressTypeIPv4)
		slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: text}
		slice.Labels[discoveryv1.LabelManagedBy] = manager
		of := service(func(service *corev1.Service) { service.CreationTimestamp = metav1.NewTime(serviceCreated) })
		by := serviceExport(func(export *multiclusterxv1beta1.ServiceExport) {
			export.CreationTimestamp = metav1.NewTime(exportCreated)
		})
		exported, err := local(of, by, slice).Exported(Origin{ID: "east", JoinedAt: joined, Now: now}, "shop", "web")
		if err != nil {
			t.Fatal(err)
		}
		return exported.Slices[0].Spec.ChangedAt
	}
	for text, want := range map[string]*metav1.MicroTime{
		"":                            nil,
		"yesterday":                   nil,
		"2026-11-18T06:00:00Z":        nil,
		"2026-11-18T07:00:00Z":        ptr.To(metav1.NewMicroTime(time.Date(2026, 11, 18, 7, 0, 0, 0, time.UTC))),
		"2026-11-18T08:00:00.5+01:00": ptr.To(metav1.NewMicroTime(time.Date(2026, 11, 18, 7, 0, 0, 5e8, time.UTC))),
		"2026-11-18T08:00:01Z":        nil, // it is not that late yet
		"9999-12-31T23:59:59-01:00":   nil, // R366: clients could not read any endpoints
	} {
		if got := changed(text, sliceController, early, early, time.Time{}); !got.Equal(want) {
			t.Errorf("endpoints that changed at %q changed at %v", text, got)
		}
	}
	const at = "2026-11-18T07:00:00Z"
	for name, got := range map[string]*metav1.MicroTime{
		"slices of another controller":      changed(at, "example.com", early, early, time.Time{}),
		"Services that were created later":  changed(at, sliceController, late, early, time.Time{}),
		"Services that were exported later": changed(at, sliceController, early, late, time.Time{}),
		"clusters that joined later":        changed(at, sliceController, early, early, late),
		"what changed a long time ago":      changed("2026-11-16T07:00:00Z", sliceController, now.AddDate(-1, 0, 0), now.AddDate(-1, 0, 0), time.Time{}),
	} {
		if got != nil {
			t.Errorf("%s: endpoints changed at %s", name, got)
		}
	}
}
