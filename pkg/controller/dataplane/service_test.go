// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

type changeImport = func(*multiclusterxv1beta1.ServiceImport)

func affinity(config *corev1.SessionAffinityConfig) changeImport {
	return func(s *multiclusterxv1beta1.ServiceImport) {
		s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityClientIP, config
	}
}

func timeout(seconds int32) *corev1.SessionAffinityConfig {
	return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(seconds)}}
}

func TestServiceHasThePropertiesOfTheImport(t *testing.T) {
	for _, test := range []struct {
		name   string
		change changeImport
		want   func(*corev1.ServiceSpec)
	}{
		{"defaults", func(*multiclusterxv1beta1.ServiceImport) {}, func(*corev1.ServiceSpec) {}},
		{"headless", makeHeadless, func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }},
		{"headless without ports", func(s *multiclusterxv1beta1.ServiceImport) { // R43
			makeHeadless(s)
			s.Spec.Ports = nil
		}, func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports = corev1.ClusterIPNone, nil }},
		{"ports", func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.Ports = []multiclusterxv1beta1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2, Protocol: corev1.ProtocolSCTP, AppProtocol: ptr.To("x")}}
		}, func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{
				{Name: "a", Port: 1, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(1)},
				{Name: "b", Port: 2, Protocol: corev1.ProtocolSCTP, AppProtocol: ptr.To("x"), TargetPort: intstr.FromInt32(2)},
			}
		}},
		{"session affinity", affinity(timeout(7)), func(s *corev1.ServiceSpec) {
			s.SessionAffinity, s.SessionAffinityConfig = corev1.ServiceAffinityClientIP, timeout(7)
		}},
		{"session affinity without timeout", affinity(nil), func(s *corev1.ServiceSpec) {
			s.SessionAffinity, s.SessionAffinityConfig = corev1.ServiceAffinityClientIP, timeout(10800)
		}},
		{"timeout without session affinity", func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.SessionAffinityConfig = timeout(7) }, func(*corev1.ServiceSpec) {}},
		{"internal traffic policy", func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}, func(s *corev1.ServiceSpec) {
			s.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}},
		{"traffic distribution", func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
		}, func(s *corev1.ServiceSpec) {
			s.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameNode)
		}},
		{"traffic distribution of a later release", func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.TrafficDistribution = ptr.To("PreferSameMoon")
		}, func(*corev1.ServiceSpec) {}},
		{"IP families are chosen by the cluster", func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
		}, func(*corev1.ServiceSpec) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone,
				IPFamilyPolicy:        ptr.To(corev1.IPFamilyPolicyPreferDualStack),
				InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyCluster),
				Ports:                 []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}},
			}
			test.want(&want)
			service := desiredService(nil, newImport(test.change), variant{})
			if diff := cmp.Diff(want, service.Spec); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
			// The defaults of the API server must not cause an update.
			existing := defaulted(service)
			again := desiredService(existing, newImport(test.change), variant{})
			if !sameService(existing, again) {
				t.Errorf("it would be updated: %s", cmp.Diff(existing, again))
			}
			if mustChangeType(existing, newImport(test.change)) {
				t.Error("its type would be changed")
			}
			// A property that the import loses is removed from the Service.
			if plain := newImport(); !mustChangeType(existing, plain) {
				back := desiredService(existing, plain, variant{})
				if diff := cmp.Diff(defaulted(desiredService(nil, plain, variant{})).Spec, back.Spec); diff != "" {
					t.Errorf("not removed: %s", diff)
				}
			}
		})
	}
}

func TestNameAndLabelsOfTheService(t *testing.T) {
	service := desiredService(nil, newImport(func(s *multiclusterxv1beta1.ServiceImport) {
		s.Labels, s.Annotations = map[string]string{"exported": "label"}, map[string]string{"exported": "annotation"}
	}), variant{})
	want := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: derived,
		Labels: map[string]string{multicluster.ServiceNameLabel: "web", "app.kubernetes.io/managed-by": multicluster.ManagedBy},
	}}
	if diff := cmp.Diff(want.ObjectMeta, service.ObjectMeta); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	if !isDerived(service) {
		t.Error("it is not recognized as a derived Service")
	}
}

func TestDerivedServiceHasBothLabels(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"none":          nil,
		"name only":     {multicluster.ServiceNameLabel: "web"},
		"manager only":  {multicluster.ManagedByLabel: multicluster.ManagedBy},
		"other manager": {multicluster.ServiceNameLabel: "web", multicluster.ManagedByLabel: "someone"},
	} {
		if isDerived(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: derived, Labels: labels}}) {
			t.Errorf("%s: recognized as a derived Service", name)
		}
	}
}

func TestForeignFieldsOfTheServiceArePreserved(t *testing.T) {
	existing := defaulted(desiredService(nil, newImport(), variant{}))
	existing.Labels["team"], existing.Annotations, existing.Finalizers = "platform", map[string]string{"note": "x"}, []string{"example.com/hold"}
	existing.Spec.PublishNotReadyAddresses = true
	reverted := desiredService(existing, newImport(), variant{})
	if diff := cmp.Diff(existing, reverted); diff != "" || !sameService(existing, reverted) {
		t.Errorf("it would be changed: %s", diff)
	}
}

func TestForeignChangesOfTheServiceAreReverted(t *testing.T) {
	want := defaulted(desiredService(nil, newImport(), variant{}))
	for name, change := range map[string]func(*corev1.Service){
		"label":    func(s *corev1.Service) { s.Labels[multicluster.ServiceNameLabel] = "other" },
		"selector": func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "mine"} },
		"port":     func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 },
		"more":     func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "x", Port: 1}) },
		"node port": func(s *corev1.Service) {
			s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30000
		},
		"families": func(s *corev1.Service) { s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack) },
	} {
		t.Run(name, func(t *testing.T) {
			existing := want.DeepCopy()
			change(existing)
			reverted := desiredService(existing, newImport(), variant{})
			if sameService(existing, reverted) {
				t.Error("the change would not be reverted")
			}
			if diff := cmp.Diff(want, reverted); diff != "" {
				t.Errorf("not reverted: %s", diff)
			}
		})
	}
}

// R163: mcs-apiserver recognizes the life of a withdrawn import by its derived
// Service.
func TestServiceHasTheLifeOfTheImport(t *testing.T) {
	first := defaulted(desiredService(nil, newImport(), variant{}))
	if _, marked := first.Annotations[multicluster.ImportLifeAnnotation]; marked {
		t.Errorf("annotations are %v in the first life", first.Annotations)
	}
	next := newImport(func(s *multiclusterxv1beta1.ServiceImport) {
		s.Annotations = map[string]string{multicluster.ImportLifeAnnotation: "1/uid"}
	})
	updated := desiredService(first, next, variant{})
	if got := updated.Annotations[multicluster.ImportLifeAnnotation]; got != "1/uid" || sameService(first, updated) {
		t.Errorf("the annotation is %q; it would be written: %t", got, !sameService(first, updated))
	}
	if again := desiredService(updated, next, variant{}); !sameService(updated, again) {
		t.Error("it would be written again")
	}
}
