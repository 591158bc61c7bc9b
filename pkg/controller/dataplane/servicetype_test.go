// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// becomeClusterSetIP is what an import has that is Headless until there is an IP.
func becomeClusterSetIP(serviceImport *multiclusterxv1beta1.ServiceImport) {
	makeHeadless(serviceImport)
	metav1.SetMetaDataAnnotation(&serviceImport.ObjectMeta, multicluster.PendingTypeAnnotation, string(multiclusterxv1beta1.ClusterSetIP))
}

// R45: the API does not allow changing a Service to or from headless.
func TestWhichServicesMustChangeTheirType(t *testing.T) {
	withIP, headless, pending := newImport(), newImport(makeHeadless), newImport(becomeClusterSetIP)
	for _, test := range []struct {
		name     string
		was, now *multiclusterxv1beta1.ServiceImport
		want     bool
	}{
		{"stays", withIP, withIP, false},
		{"stays headless", headless, headless, false},
		{"becomes headless", withIP, headless, true},
		{"gets an IP", headless, withIP, true},
		{"is to get an IP", headless, pending, true},
		{"has got an IP", withIP, pending, false},
	} {
		existing := defaulted(desiredService(nil, test.was, variant{}))
		if got := mustChangeType(existing, test.now); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
		if mustChangeType(changing(existing, test.now), test.now) {
			t.Errorf("%s: the change would begin again", test.name)
		}
	}
}

// updatedTypes records the Services that are updated, as type, cluster IPs and pending type.
func (w *world) updatedTypes() func() []string {
	var sent []string
	w.client.PrependReactor("update", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() == "" {
			service := action.(clienttesting.UpdateAction).GetObject().(*corev1.Service)
			sent = append(sent, fmt.Sprint(service.Spec.Type, service.Spec.ClusterIP, service.Spec.ExternalName, "/", service.Annotations[multicluster.PendingTypeAnnotation]))
		}
		return false, nil, nil
	})
	return func() []string {
		defer func() { sent = nil }()
		return sent
	}
}

// imported returns a world that has imported the endpoints of two clusters.
func imported(t *testing.T, change func(*multiclusterxv1beta1.ServiceImport)) *world {
	t.Helper()
	w := newWorld(t)
	w.hold(t, "import", newImport(change))
	w.export(t, exportedBy("east", ready("10.1.0.1")), exportedBy("west", ready("10.2.0.1")))
	for range 2 { // the Service, and then its slices
		w.sync1(t)
		w.settle(t)
	}
	if got := len(w.existingSlices(web)); got != 2 {
		t.Fatalf("got %d slices", got)
	}
	return w
}

// expectSync reconciles one key, and checks what it wrote.
func (w *world) expectSync(t *testing.T, which key, want string) {
	t.Helper()
	if err := w.sync(t.Context(), which); err != nil {
		t.Fatal(err)
	}
	if got := w.written(); got != want {
		t.Errorf("%v: wrote %q, want %q", which, got, want)
	}
	w.settle(t)
}

// labeled returns how many imported EndpointSlices kube-proxy ignores.
func (w *world) labeled() int {
	count := 0
	for _, slice := range w.existingSlices(web) {
		if isLabeledHeadless(slice) {
			count++
		}
	}
	return count
}

// R45, R509: a derived Service that becomes headless is not deleted, and neither are the
// imported EndpointSlices: they get their label after that, since kube-proxy would ignore them
// while there is an IP.
func TestServiceBecomesHeadless(t *testing.T) {
	w := imported(t, func(*multiclusterxv1beta1.ServiceImport) {})
	uid := w.existingService(web).UID
	w.hold(t, "import", newImport(makeHeadless))
	w.expectSync(t, key{web, "east"}, "")
	sent := w.updatedTypes()
	w.expectSync(t, ofService(web), "update services, update services")
	if got, want := sent(), []string{"ExternalNameweb.shop.svc.clusterset.local/Headless", "ClusterIPNone/"}; !slices.Equal(got, want) {
		t.Errorf("the Service became %q, want %q", got, want)
	}
	w.expectSync(t, key{web, "east"}, "update endpointslices")
	w.expectSync(t, key{web, "west"}, "update endpointslices")
	if got := w.existingService(web).UID; got != uid || w.labeled() != 2 {
		t.Errorf("got UID %s, was %s; %d labeled slices", got, uid, w.labeled())
	}
	w.sync1(t)
	if got := w.written(); got != "" {
		t.Errorf("wrote %q although nothing changed", got)
	}
}

// R45, R509: a derived Service that was headless gets its IP when kube-proxy ignores none of its
// endpoints any more, also of a cluster of which nothing else is written.
func TestHeadlessServiceGetsAnIP(t *testing.T) {
	for _, left := range []bool{false, true} {
		t.Run(fmt.Sprintf("of a silent cluster: %t", left), func(t *testing.T) {
			w := imported(t, makeHeadless)
			uid := w.existingService(web).UID
			w.hold(t, "import", newImport(becomeClusterSetIP))
			if left {
				w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
				w.findings = findings{"east " + web.String(): liveness.Pending}
			}
			w.expectSync(t, ofService(web), "")
			w.expectSync(t, key{web, "east"}, "update endpointslices")
			w.expectSync(t, ofService(web), "")
			w.expectSync(t, key{web, "east"}, "") // it does not get its label back
			w.expectSync(t, key{web, "west"}, "update endpointslices")
			sent := w.updatedTypes()
			w.expectSync(t, ofService(web), "update services, update services")
			if got, want := sent(), []string{"ExternalNameweb.shop.svc.clusterset.local/ClusterSetIP", "ClusterIP/"}; !slices.Equal(got, want) {
				t.Errorf("the Service became %q, want %q", got, want)
			}
			if got := w.existingService(web).UID; got != uid || w.labeled() != 0 || len(w.existingSlices(web)) != 2 {
				t.Errorf("got UID %s, was %s; %d labeled slices of %d", got, uid, w.labeled(), len(w.existingSlices(web)))
			}
			w.sync1(t)
			if got := w.written(); got != "" {
				t.Errorf("wrote %q although nothing changed", got)
			}
		})
	}
}

// R509: a member whose slices cannot be written does not keep a Service from getting an IP.
func TestHeadlessServiceDoesNotWaitForever(t *testing.T) {
	w := imported(t, makeHeadless)
	w.hold(t, "import", newImport(becomeClusterSetIP))
	w.expectSync(t, ofService(web), "")
	w.clock.Step(labelTime - 1)
	w.expectSync(t, ofService(web), "")
	w.clock.Step(1)
	w.expectSync(t, ofService(web), "") // no export explains the change
	w.clock.Step(causeDelay)
	w.expectSync(t, ofService(web), "update services, update services")
	// The next change waits again.
	w.hold(t, "import", newImport())
	w.expectSync(t, ofService(web), "")
	if len(w.labeling) > 0 {
		t.Errorf("%v is still waiting", w.labeling)
	}
}

// R48: an import that has an IP again has the one that it had, unless that is in use.
func TestServiceGetsItsIPBackWithItsType(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		w := newWorld(t)
		w.serviceChanged(defaulted(desiredService(nil, newImport(), variant{})))
		if err := w.client.Tracker().Add(defaulted(desiredService(nil, newImport(makeHeadless), variant{}))); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
		w.hold(t, "import", newImport(becomeClusterSetIP))
		w.client.PrependReactor("update", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if service := action.(clienttesting.UpdateAction).GetObject().(*corev1.Service); inUse && service.Spec.ClusterIP == "10.96.0.5" {
				return true, nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), derived, nil)
			}
			return false, nil, nil
		})
		want := []string{"ExternalNameweb.shop.svc.clusterset.local/ClusterSetIP", "ClusterIP10.96.0.5/"}
		if inUse {
			want = append(want, "ClusterIP/")
		}
		sent := w.updatedTypes()
		w.sync1(t)
		if got := sent(); !slices.Equal(got, want) {
			t.Errorf("in use %t: the Service became %q, want %q", inUse, got, want)
		}
	}
}

// R509: a derived Service is marked until it has its shared ClusterSet IP.
func TestServiceIsMarkedUntilItHasItsSharedIP(t *testing.T) {
	w := newWorld(t)
	if err := w.client.Tracker().Add(defaulted(desiredService(nil, newImport(makeHeadless), variant{}))); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	w.hold(t, "import", newImport(withIPs("243.1.0.1"), becomeClusterSetIP))
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	sent := w.updatedTypes()
	for _, want := range [][]string{{"ExternalNameweb.shop.svc.clusterset.local/ClusterSetIP", "LoadBalancer/ClusterSetIP"}, {"LoadBalancer/"}, nil} {
		if err := w.sync(t.Context(), ofService(web)); err != nil {
			t.Fatal(err)
		}
		w.settle(t)
		if got := sent(); !slices.Equal(got, want) {
			t.Errorf("the Service became %q, want %q", got, want)
		}
	}
	if got := w.existingService(web).Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != "243.1.0.1" {
		t.Errorf("got ingress %v", got)
	}
}

// R45: in a cluster that does not allow Services of type ExternalName, the Service is deleted
// first, and created after that.
func TestServiceOfAnotherTypeIsReplacedIfNecessary(t *testing.T) {
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(corev1.Resource("services"), derived, fmt.Errorf("a policy")),
		"invalid":   apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), derived, nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			existing := defaulted(desiredService(nil, newImport(), variant{}))
			w.hold(t, "import", newImport(makeHeadless))
			w.hold(t, "service", existing)
			w.export(t, exportedBy("east", ready("10.1.0.1")))
			w.client.PrependReactor("update", "services", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
			var deleted types.UID
			w.client.PrependReactor("delete", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
				deleted = *action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions.UID
				return true, nil, nil
			})
			if err := w.sync(t.Context(), ofService(web)); err != nil {
				t.Fatal(err)
			}
			if got := w.written(); got != "delete services, update services" || deleted != existing.UID {
				t.Errorf("got requests %q, deleted UID %s", got, deleted)
			}
			terminating := existing.DeepCopy()
			terminating.DeletionTimestamp = &metav1.Time{}
			w.hold(t, "service", terminating)
			w.sync1(t)
			if got := w.written(); got != "" {
				t.Errorf("got requests %q while it is terminating", got)
			}
			if err := w.services.Delete(terminating); err != nil {
				t.Fatal(err)
			}
			w.sync1(t)
			if got := w.written(); got != "create endpointslices, create services" {
				t.Errorf("got requests %q after it was deleted", got)
			}
		})
	}
}

// R509: endpoints change also while the type of a derived Service is being changed, or cannot
// be. Slices are not created meanwhile: the Service does not show which IP families there are.
func TestEndpointsChangeWhileTheTypeDoes(t *testing.T) {
	for _, begun := range []bool{false, true} {
		w := imported(t, func(*multiclusterxv1beta1.ServiceImport) {})
		w.hold(t, "import", newImport(makeHeadless))
		created := "create endpointslices"
		if begun {
			created = ""
			w.client.PrependReactor("update", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
				refused := action.(clienttesting.UpdateAction).GetObject().(*corev1.Service).Spec.ClusterIP == corev1.ClusterIPNone
				return refused, nil, apierrors.NewInternalError(fmt.Errorf("no"))
			})
			if err := w.sync(t.Context(), ofService(web)); !apierrors.IsInternalError(err) {
				t.Fatal(err)
			}
			w.settle(t)
			if !isChanging(w.existingService(web)) {
				t.Fatal("the change has not begun")
			}
		}
		w.export(t, exportedBy("east", ready("10.1.0.2")), exportedBy("west", nil), exportedBy("north", ready("10.3.0.1")))
		w.expectSync(t, key{web, "east"}, "update endpointslices")
		w.expectSync(t, key{web, "west"}, "update endpointslices")
		w.expectSync(t, key{web, "north"}, created)
	}
}

// R495: a Service whose type is being changed keeps its place among those that may have a
// health check node port.
func TestChangingServiceKeepsItsHealthPort(t *testing.T) {
	w := newWorld(t)
	shared := newImport(withIPs("243.1.0.1"))
	w.hold(t, "import", shared)
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	form := w.variantFor(web, shared, nil)
	existing := defaulted(desiredService(nil, shared, form))
	for _, step := range []struct {
		service *corev1.Service
		want    int
	}{{existing, 1}, {changing(existing, shared), 1}, {defaulted(desiredService(nil, newImport(makeHeadless), variant{})), 0}} {
		w.hold(t, "service", step.service)
		w.observeHealthPort(web)
		if got := len(w.healthPorts.members); got != step.want {
			t.Errorf("%s: %d Services have one, want %d", step.service.Spec.Type, got, step.want)
		}
	}
}
