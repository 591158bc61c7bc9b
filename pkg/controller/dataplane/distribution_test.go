// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// olderHost makes the host refuse all traffic distributions but the supported ones,
// and returns a function that returns those that were sent since its last call.
func (w *world) olderHost(supported *[]string) (sent func() string) {
	var values []string
	for _, verb := range []string{"create", "update"} {
		w.client.PrependReactor(verb, "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
			service := action.(interface{ GetObject() runtime.Object }).GetObject().(*corev1.Service)
			value := ptr.Deref(service.Spec.TrafficDistribution, "none")
			values = append(values, value)
			if value == "none" || slices.Contains(*supported, value) {
				return false, nil, nil
			}
			return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), service.Name, field.ErrorList{
				field.NotSupported(field.NewPath("spec", "trafficDistribution"), value, *supported),
			})
		})
	}
	return func() string {
		result := strings.Join(values, " ")
		values = nil
		return result
	}
}

func distributed(name, value string) *multiclusterxv1beta1.ServiceImport {
	return newImport(func(s *multiclusterxv1beta1.ServiceImport) {
		s.Name, s.Spec.TrafficDistribution = name, ptr.To(value)
	})
}

// A host of an older release refuses a traffic distribution that this build knows.
// The derived Service falls back to what the host supports.
func TestUnsupportedTrafficDistributionFallsBack(t *testing.T) {
	const sameZone, sameNode, closest = corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode, corev1.ServiceTrafficDistributionPreferClose
	for _, test := range []struct {
		distribution string
		supported    []string
		sent         string
		problem      string
	}{
		{sameZone, []string{sameZone, closest}, sameZone, ""},
		{sameZone, []string{closest}, sameZone + " " + closest, `trafficDistribution "PreferSameZone" is not supported by this cluster, using the equivalent "PreferClose"`},
		{sameZone, nil, sameZone + " " + closest + " none", `trafficDistribution "PreferSameZone" is not supported by this cluster, using the default distribution`},
		{sameNode, []string{closest}, sameNode + " none", `trafficDistribution "PreferSameNode" is not supported by this cluster, using the default distribution`},
		{closest, nil, closest + " none", `trafficDistribution "PreferClose" is not supported by this cluster, using the default distribution`},
	} {
		t.Run(fmt.Sprint(test.distribution, " on a host with ", test.supported), func(t *testing.T) {
			w := newWorld(t)
			sent := w.olderHost(&test.supported)
			w.hold(t, "import", distributed("web", test.distribution))
			w.sync1(t)
			if got := sent(); got != test.sent {
				t.Errorf("sent %s, want %s", got, test.sent)
			}
			w.settle(t)
			if got := w.existingService(web).Annotations[multicluster.TrafficDistributionProblemAnnotation]; got != test.problem {
				t.Errorf("got problem %q, want %q", got, test.problem)
			}
		})
	}
}

// Hints follow the traffic distribution of the derived Service: kube-proxy applies them
// whatever the distribution, and a host that does not support a distribution drops the
// hints that only this distribution has, so that they would be written on every sync.
func TestHintsFollowTheFallback(t *testing.T) {
	zone := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z1"}}}
	for _, test := range []struct {
		distribution string
		want         *discoveryv1.EndpointHints
	}{
		{corev1.ServiceTrafficDistributionPreferSameZone, zone},
		{corev1.ServiceTrafficDistributionPreferSameNode, nil},
	} {
		t.Run(test.distribution, func(t *testing.T) {
			w := newWorld(t)
			w.olderHost(&[]string{corev1.ServiceTrafficDistributionPreferClose})
			endpoints := ready("10.1.0.1")
			endpoints[0].Zone, endpoints[0].NodeName = ptr.To("z1"), ptr.To("node-1")
			w.hold(t, "import", distributed("web", test.distribution))
			w.export(t, exportedBy("here", endpoints))
			w.sync1(t)
			w.settle(t)
			slice := only(t, w.existingSlices(web))
			if diff := cmp.Diff(test.want, slice.Endpoints[0].Hints); diff != "" {
				t.Errorf("unexpected hints (-want +got):\n%s", diff)
			}
		})
	}
}

// A refused traffic distribution is not sent again on every sync, but later, since
// the host may have been upgraded.
func TestRefusedTrafficDistributionIsRemembered(t *testing.T) {
	const sameZone, closest = corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferClose
	w := newWorld(t)
	supported := []string{closest}
	sent := w.olderHost(&supported)
	w.hold(t, "import", distributed("web", sameZone))
	w.hold(t, "import", distributed("other", sameZone))
	sync := func(name, want string) {
		t.Helper()
		if err := w.reconcile(t, types.NamespacedName{Namespace: "shop", Name: name}); err != nil {
			t.Fatal(err)
		}
		if got := sent(); got != want {
			t.Errorf("%s: sent %q, want %q", name, got, want)
		}
		w.settle(t)
	}
	sync("web", sameZone+" "+closest)
	sync("web", "")
	sync("other", closest)
	w.clock.Step(retryRefused)
	sync("web", sameZone) // refused again, and the Service is as it should be
	sync("other", "")
	supported = append(supported, sameZone)
	w.clock.Step(retryRefused)
	sync("web", sameZone)
	if service := w.existingService(web); service.Annotations[multicluster.TrafficDistributionProblemAnnotation] != "" || ptr.Deref(service.Spec.TrafficDistribution, "") != sameZone {
		t.Errorf("after the host was upgraded: got annotations %v and distribution %v", service.Annotations, service.Spec.TrafficDistribution)
	}
}

// A Service that is created again keeps its cluster IPs when the host refuses its
// traffic distribution.
func TestRefusedTrafficDistributionKeepsClusterIPs(t *testing.T) {
	w := newWorld(t)
	w.olderHost(&[]string{})
	serviceImport := distributed("web", corev1.ServiceTrafficDistributionPreferSameNode)
	w.hold(t, "import", serviceImport)
	w.serviceChanged(defaulted(desiredService(nil, serviceImport, variant{})))
	w.clock.Step(2 * reclaimTime)
	w.sync1(t)
	w.settle(t)
	if got := w.existingService(web).Spec.ClusterIPs; !slices.Equal(got, []string{"10.96.0.5"}) {
		t.Errorf("got cluster IPs %v, want the former ones", got)
	}
}

// Another invalid field is an error, and not a reason to change the distribution.
func TestOtherInvalidFieldsDoNotChangeTheTrafficDistribution(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", distributed("web", corev1.ServiceTrafficDistributionPreferSameZone))
	w.client.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), derived, field.ErrorList{
			field.Invalid(field.NewPath("spec", "ports"), nil, "spec.trafficDistribution"),
		})
	})
	if err := w.reconcile(t, web); !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want the error of the host", err)
	}
	if got := w.written(); got != "create services" {
		t.Errorf("got requests %q, want a single one", got)
	}
}
