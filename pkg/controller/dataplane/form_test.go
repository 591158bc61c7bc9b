// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

// separately lets the derived Service and the import have slices of their own.
func separately(serviceImport *multiclusterxv1beta1.ServiceImport) {
	serviceImport.Annotations = map[string]string{multicluster.EndpointSlicesAnnotation: multicluster.EndpointSlicesSeparate}
}

// together lets one slice be both.
func together(*multiclusterxv1beta1.ServiceImport) {}

// R485: separate slices of the derived Service lack the label of imports, those of imports lack
// that of Services, and kube-proxy reads each endpoint once. What is restored is in one of them.
func TestSlicesOfServicesAndImportsAreSeparate(t *testing.T) {
	for name, change := range map[string]changeImport{"with a cluster IP": together, "headless": makeHeadless} {
		t.Run(name, func(t *testing.T) {
			found := slicesOf(newImport(separately, change), exportedBy("east", ready("10.1.0.1")))
			want := map[form]map[string]string{
				ofDerivedService: {"kubernetes.io/service-name": derived, "clusterset.mcs-apiserver.io/derived-from": "web"},
				ofImport:         {"multicluster.kubernetes.io/service-name": "web", "service.kubernetes.io/headless": "", "clusterset.mcs-apiserver.io/import-only": ""},
			}
			if name == "headless" {
				want[ofDerivedService][corev1.IsHeadlessService] = ""
			}
			for form, labels := range want {
				labels["multicluster.kubernetes.io/source-cluster"] = "east"
				labels["endpointslice.kubernetes.io/managed-by"] = "mcs-controller.mcs-apiserver.io"
				slice := withForm(t, found, form)
				if diff := cmp.Diff(labels, slice.Labels); diff != "" {
					t.Errorf("labels of slice %s, want (-), got (+): %s", slice.Name, diff)
				}
				if diff := cmp.Diff(ready("10.1.0.1"), slice.Endpoints); diff != "" || len(slice.Ports) != 1 || len(slice.OwnerReferences) != 1 {
					t.Errorf("slice %s has ports %v, owners %v, endpoints that differ: %s", slice.Name, slice.Ports, slice.OwnerReferences, diff)
				}
			}
			restored, errs := importedslice.Restore("east", slices.Collect(maps.Values(found)))
			if len(errs) > 0 || len(restored) != 1 || len(restored[0].Spec.Endpoints) != 1 {
				t.Errorf("restored %v, errors %v", restored, errs)
			}
		})
	}
}

// withForm returns the only slice of a form.
func withForm(t *testing.T, in map[string]*discoveryv1.EndpointSlice, form form) *discoveryv1.EndpointSlice {
	t.Helper()
	for name := range in {
		if name == withoutForm(name)+string(form) {
			return in[name]
		}
	}
	t.Fatalf("no slice with suffix %q in %v", form, slices.Collect(maps.Keys(in)))
	return nil
}

// Endpoints that are divided among slices are divided in the same way in the other form.
func TestEndpointsStayWhereTheyAreWhenTheFormChanges(t *testing.T) {
	export := exportedBy("east", ready(addresses(250)...))
	shrunk := exportedBy("east", ready(addresses(250)[90:]...))
	service := defaulted(desiredService(nil, newImport(), variant{}))
	existing := slicesOf(newImport(), export)
	before := homes(t, slicesOfAll(newImport(), service, []exporter{shrunk}, existing))
	separate := slicesOfAll(newImport(separately), service, []exporter{shrunk}, existing)
	if len(separate) != 9 {
		t.Errorf("got %d slices, want those of all forms", len(separate))
	}
	for _, form := range allForms {
		ofForm := maps.Clone(separate)
		maps.DeleteFunc(ofForm, func(name string, _ *discoveryv1.EndpointSlice) bool { return name != withoutForm(name)+string(form) })
		for address, name := range homes(t, ofForm) {
			if before[address] != withoutForm(name) {
				t.Errorf("%s was in %s, is in %s", address, before[address], name)
			}
		}
	}
	again := slicesOfAll(newImport(separately), service, []exporter{shrunk}, separate)
	maps.DeleteFunc(separate, func(name string, _ *discoveryv1.EndpointSlice) bool { return name == withoutForm(name) })
	if !reflect.DeepEqual(separate, again) {
		t.Errorf("a second sync would write again: %s", cmp.Diff(separate, again))
	}
}

// wrote returns the requests for slices since the last call in their order, as "verb form".
func (w *world) wrote() string {
	var found []string
	for _, action := range w.client.Actions() {
		name := ""
		switch action := action.(type) {
		case clienttesting.CreateAction: // also an update
			name = action.GetObject().(metav1.Object).GetName()
		case clienttesting.GetAction: // also a deletion
			name = action.GetName()
		}
		found = append(found, action.GetVerb()+strings.TrimPrefix(name, withoutForm(name)))
	}
	w.client.ClearActions()
	return strings.Join(found, ", ")
}

// resettle lets the cache of slices be what was written.
func (w *world) resettle(t *testing.T) {
	t.Helper()
	if err := w.slices.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
}

// R486: slices are replaced by those of another form, and not changed to it. The former ones are
// deleted when the new ones exist.
func TestSlicesAreReplacedWithoutAGap(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.settle(t)
	for _, step := range []struct {
		name string
		to   changeImport
		want []string // per turn
	}{
		{"separate", separately, []string{"create-import, create-service", "get-service, get-import, delete", ""}},
		{"back", together, []string{"create", "get, delete-import, get, delete-service", ""}},
	} {
		t.Run(step.name, func(t *testing.T) {
			w.hold(t, "import", newImport(step.to))
			for turn, want := range step.want {
				w.sync1(t)
				if got := w.wrote(); got != want {
					t.Errorf("requests of turn %d are %q, want %q", turn, got, want)
				}
				w.resettle(t)
			}
		})
	}
}

// R486: slices that cannot be replaced stay, and follow all changes, so that nobody sends requests
// to endpoints that are gone. If a part was replaced, so does that part.
func TestSlicesThatCannotBeReplacedFollowChanges(t *testing.T) {
	for name, refused := range map[string]string{"none is created": "", "that of the derived Service is not created": string(ofDerivedService)} {
		for direction, to := range map[string][2]changeImport{"separate": {together, separately}, "back": {separately, together}} {
			t.Run(name+", "+direction, func(t *testing.T) {
				w := newWorld(t)
				w.hold(t, "import", newImport(to[0]))
				w.export(t, exportedBy("east", ready("10.1.0.1", "10.1.0.2")))
				w.sync1(t)
				w.settle(t)
				before := w.existingSlices(web)
				refuse := true
				w.client.PrependReactor("create", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
					name := action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName()
					return refuse && (before[name] == nil && strings.HasSuffix(name, refused)), nil, errors.New("quota exceeded")
				})
				w.hold(t, "import", newImport(to[1]))
				for _, address := range []string{"10.1.0.3", "10.1.0.4"} {
					w.export(t, exportedBy("east", ready("10.1.0.1", address)))
					if err := w.sync(t.Context(), key{web, "east"}); err == nil && refused == "" {
						t.Error("the failure is not reported")
					}
					w.resettle(t)
					for _, label := range []string{discoveryv1.LabelServiceName, multicluster.ServiceNameLabel} {
						for name, slice := range w.existingSlices(web) {
							if diff := cmp.Diff(ready("10.1.0.1", address), slice.Endpoints); slice.Labels[label] != "" && diff != "" {
								t.Errorf("endpoints of %s, want (-), got (+): %s", name, diff)
							}
						}
						if !slices.ContainsFunc(slices.Collect(maps.Values(w.existingSlices(web))), func(s *discoveryv1.EndpointSlice) bool { return s.Labels[label] != "" }) {
							t.Errorf("no slice has label %s", label)
						}
					}
				}
				refuse = false
				for range 2 {
					w.sync1(t)
					w.resettle(t)
				}
				if got, want := slices.Sorted(maps.Keys(w.existingSlices(web))), slices.Sorted(maps.Keys(slicesOf(newImport(to[1]), exportedBy("east", ready("10.1.0.1"))))); !slices.Equal(got, want) {
					t.Errorf("slices are %v in the end, want %v", got, want)
				}
			})
		}
	}
}

// R486: the cache still has slices that were deleted, because the annotation was removed and set
// again. Others are not deleted because of them.
func TestSlicesAreNotReplacedByDeletedOnes(t *testing.T) {
	for name, to := range map[string][2]changeImport{"separate": {together, separately}, "back": {separately, together}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hold(t, "import", newImport(to[1]))
			w.export(t, exportedBy("east", ready("10.1.0.1")))
			w.sync1(t)
			w.settle(t)
			w.hold(t, "import", newImport(to[0]))
			for range 2 {
				w.sync1(t)
				w.settle(t) // without the deletions
			}
			w.hold(t, "import", newImport(to[1]))
			w.sync1(t)
			if got := w.wrote(); strings.Contains(got, "delete") {
				t.Errorf("requests are %q", got)
			}
			for range 2 {
				w.resettle(t)
				w.sync1(t)
			}
			w.resettle(t)
			if got, want := slices.Sorted(maps.Keys(w.existingSlices(web))), slices.Sorted(maps.Keys(slicesOf(newImport(to[1]), exportedBy("east", ready("10.1.0.1"))))); !slices.Equal(got, want) {
				t.Errorf("slices are %v in the end, want %v", got, want)
			}
		})
	}
}

// R486: what is withdrawn while slices are replaced is deleted first, and does not wait. Slices
// that are replaced stay until those that replace them were written.
func TestReplacedSlicesWaitForTheirReplacement(t *testing.T) {
	w := newWorld(t)
	two := exportedBy("east", ready("10.1.0.1"))
	withdrawn := two.slices[0].DeepCopy()
	withdrawn.Name = "web-xyz.east"
	two.slices = append(two.slices, withdrawn)
	w.hold(t, "import", newImport())
	w.export(t, two)
	w.sync1(t)
	w.settle(t)
	w.hold(t, "import", newImport(separately))
	if err := w.exportedSlices.Delete(withdrawn); err != nil {
		t.Fatal(err)
	}
	w.volume = pace.NewTurns[key](w.clock, 1, 1) // less than a slice has
	w.sync1(t)
	if got := w.wrote(); got != "delete" {
		t.Errorf("requests are %q, want the deletion of the withdrawn slice only", got)
	}
	w.volume = pace.NewTurns[key](w.clock, 1<<20, 1<<20)
	for _, want := range []string{"create-import, create-service", "get-service, get-import, delete"} {
		w.resettle(t)
		w.sync1(t)
		if got := w.wrote(); got != want {
			t.Errorf("requests are %q, want %q", got, want)
		}
	}
}

// R485: all slices of an import that ended are deleted, and an event of any of them is one of its
// import.
func TestSeparateSlicesBelongToTheirImport(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport(separately))
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.resettle(t)
	for name, slice := range w.existingSlices(web) {
		w.queued()
		w.enqueueOwned(slice)
		if got := w.queued(); got != "shop/web,shop/web@east" {
			t.Errorf("event of %s enqueues %s", name, got)
		}
	}
	if err := w.caches["import"].Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	w.sync1(t)
	if got := w.written(); got != "delete endpointslices, delete endpointslices, delete services" {
		t.Errorf("got requests %q", got)
	}
}

// Labels that say whose slice it is are corrected.
func TestLabelsOfSeparateSlicesAreRestored(t *testing.T) {
	desired := slicesOf(newImport(separately), exportedBy("east", ready("10.1.0.1")))
	for name, slice := range desired {
		changed := slice.DeepCopy()
		changed.Labels["mine"] = "kept"
		for _, label := range whoseLabels {
			changed.Labels[label] = "other"
		}
		want := maps.Clone(slice.Labels)
		want["mine"] = "kept"
		if diff := cmp.Diff(want, updatedSlice(changed, slice).Labels); diff != "" {
			t.Errorf("%s: want (-), got (+): %s", name, diff)
		}
	}
}

// R485, R509: if an import gets an IP, its derived Service waits for the slices that kube-proxy
// reads, and not for those of the import, which kube-proxy ignores before and after. That is
// the same for slices that are otherwise left as they are.
func TestSeparateSlicesFollowTheTypeOfTheirImport(t *testing.T) {
	for _, left := range []bool{false, true} {
		t.Run(fmt.Sprintf("of a silent cluster: %t", left), func(t *testing.T) {
			w := newWorld(t)
			w.hold(t, "import", newImport(separately, makeHeadless))
			w.export(t, exportedBy("east", ready("10.1.0.1")))
			for range 2 { // the Service, and then its slices
				w.sync1(t)
				w.settle(t)
			}
			if existing := w.existingSlices(web); len(existing) != 2 || w.labeled() != 1 {
				t.Fatalf("%d of %d slices are labeled", w.labeled(), len(existing))
			}
			w.hold(t, "import", newImport(separately, becomeClusterSetIP))
			if left {
				w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
				w.findings = findings{"east " + web.String(): liveness.Pending}
			}
			w.expectSync(t, ofService(web), "")
			w.expectSync(t, key{web, "east"}, "update endpointslices")
			w.expectSync(t, ofService(web), "update services, update services")
			slice := withForm(t, w.existingSlices(web), ofImport)
			if _, ignored := slice.Labels[corev1.IsHeadlessService]; !ignored || w.labeled() != 0 {
				t.Errorf("the slice of the import has labels %v, and %d slices are those of a headless Service", slice.Labels, w.labeled())
			}
			w.expectSync(t, key{web, "east"}, "")
		})
	}
}

// R486, R509: slices are not replaced while the type of the derived Service is being changed.
func TestSlicesAreReplacedAfterAChangeOfType(t *testing.T) {
	w := imported(t, together)
	w.hold(t, "import", newImport(makeHeadless, separately))
	refuse := true
	w.client.PrependReactor("update", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		headless := action.(clienttesting.UpdateAction).GetObject().(*corev1.Service).Spec.ClusterIP == corev1.ClusterIPNone
		return refuse && headless, nil, apierrors.NewInternalError(errors.New("no"))
	})
	if err := w.sync(t.Context(), ofService(web)); !apierrors.IsInternalError(err) {
		t.Fatal(err)
	}
	w.settle(t)
	w.expectSync(t, key{web, "east"}, "")
	refuse = false
	w.expectSync(t, ofService(web), "update services")
	w.expectSync(t, key{web, "east"}, "create endpointslices, create endpointslices, update endpointslices")
}
