// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

func localAPIService(gv schema.GroupVersion, labels map[string]string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiconflict.APIServiceName(gv), Labels: labels},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version},
	}
}

// newFakeSite returns a cluster in which a CRD serves ServiceExports in both versions, and
// mcs-controller copies them, but registers nothing. Changes are refused as soon as the policy
// says so.
func newFakeSite(t *testing.T, apiServices ...runtime.Object) *site {
	t.Helper()
	mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: clusterset.MigrationConfigMap}}
	crdmigration.SetPhase(mark, crdmigration.Copying)
	s := newSite(definition("v1beta1", "v1alpha1"))
	s.namespace, s.held, s.mark = "mcs-system", slices.Clone(crdmigration.GroupVersions), mark
	kubernetes := kubernetesfake.NewClientset(mark)
	kinds := map[schema.GroupVersionResource]string{
		apiconflict.CRDResource: "CustomResourceDefinitionList", multiclusterv1alpha1.SchemeGroupVersion.WithResource("serviceexports"): "ServiceExportList",
	}
	for _, resource := range resources() {
		for _, version := range resource.Versions {
			kinds[resource.In(version)] = resource.Kind + "List"
		}
	}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	objects.PrependReactor("create", "serviceexports", func(clienttesting.Action) (bool, runtime.Object, error) {
		_, err := kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), freezeName, metav1.GetOptions{})
		if err == nil {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "serviceexports"}, probeName, errors.New(freezeMessage))
		}
		return true, nil, nil
	})
	s.Kubernetes, s.objects, s.aggregator = kubernetes, objects, aggregatorfake.NewSimpleClientset(apiServices...)
	s.copies(t)
	return s
}

// copies lets mcs-controller report that these are all ServiceExports, and are copied.
func (s *site) copies(t *testing.T, exports ...*unstructured.Unstructured) {
	t.Helper()
	digest, err := crdmigration.Exports.Digest(exports)
	if err != nil {
		t.Fatal(err)
	}
	s.Kubernetes.(*kubernetesfake.Clientset).PrependReactor("update", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated := action.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap).DeepCopy()
		_, err := crdmigration.SetReport(updated, crdmigration.Report{
			Request: crdmigration.RequestOf(updated), Resources: map[string]crdmigration.ResourceReport{"serviceexports": {Digest: digest}},
		})
		if err == nil {
			err = s.Kubernetes.(*kubernetesfake.Clientset).Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), updated, updated.Namespace)
		}
		return true, updated, err
	})
}

func (s *site) labelsOf(t *testing.T, gv schema.GroupVersion) map[string]string {
	t.Helper()
	item, err := s.apiService(t.Context(), gv)
	if err != nil {
		t.Fatal(err)
	}
	return item.Labels
}

// R477: if mcs-controller does not register the group-versions, CRDs keep them, before changes
// are allowed again: mcs-controller would take them over later, without these changes.
func TestFailedHandOverLeavesGroupVersionsToCRDs(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"timed out": time.Hour, "interrupted": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				automanaged := map[string]string{apiconflict.AutomanagedLabel: "true"}
				beta, alpha := crdmigration.GroupVersions[0], crdmigration.GroupVersions[1]
				s := newFakeSite(t, localAPIService(beta, automanaged), localAPIService(alpha, automanaged))
				removed := false
				s.aggregator.(*aggregatorfake.Clientset).PrependReactor("patch", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
					removed = true
					return false, nil, nil
				})
				kept := false
				s.Kubernetes.(*kubernetesfake.Clientset).PrependReactor("delete", "validatingadmissionpolicybindings", func(clienttesting.Action) (bool, runtime.Object, error) {
					kept = s.labelsOf(t, beta)[apiconflict.AutomanagedLabel] != "" && s.labelsOf(t, alpha)[apiconflict.AutomanagedLabel] != ""
					return false, nil, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				err := (&options{timeout: time.Minute, allowMissing: true}).moveOne(ctx, s)
				if err == nil || !strings.Contains(err.Error(), "CRDs serve multicluster.x-k8s.io/v1beta1, multicluster.x-k8s.io/v1alpha1 as before") {
					t.Errorf("got %v", err)
				}
				if _, err := s.Kubernetes.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(t.Context(), guardName, metav1.GetOptions{}); err != nil {
					t.Errorf("copies can be changed: %v", err)
				}
				if !removed || !kept || s.frozen {
					t.Errorf("labels were removed: %t, and restored before changes were allowed: %t; changes are refused: %t", removed, kept, s.frozen)
				}
			})
		})
	}
}

// recorded are what happened to a cluster, and when.
type recorded struct {
	events []string
	times  []time.Time
}

func (r *recorded) add(event string) {
	if !slices.Contains(r.events, event) {
		r.events, r.times = append(r.events, event), append(r.times, time.Now())
	}
}

// record lets mcs-controller register what is handed over, and watches end when their CRD is
// changed. It records what happens.
func (s *site) record(t *testing.T) *recorded {
	t.Helper()
	r := &recorded{}
	aggregator, objects := s.aggregator.(*aggregatorfake.Clientset), s.objects.(*dynamicfake.FakeDynamicClient)
	aggregator.PrependReactor("patch", "apiservices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		r.add("registered")
		version, group, _ := strings.Cut(action.(clienttesting.PatchAction).GetName(), ".")
		item := localAPIService(schema.GroupVersion{Group: group, Version: version}, nil)
		item.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "mcs-system", Name: service}
		item.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, Reason: "Passed"}}
		return true, item, aggregator.Tracker().Update(apiregistrationv1.SchemeGroupVersion.WithResource("apiservices"), item, "")
	})
	watching := watch.NewFake()
	objects.PrependWatchReactor("serviceexports", clienttesting.DefaultWatchReactor(watching, nil))
	objects.PrependReactor("update", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		watching.Stop()
		r.add("watches ended")
		return false, nil, nil
	})
	objects.PrependReactor("patch", "serviceexports", func(clienttesting.Action) (bool, runtime.Object, error) {
		r.add("touched")
		return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
	})
	s.Kubernetes.(*kubernetesfake.Clientset).PrependReactor("delete", "validatingadmissionpolicybindings", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.(clienttesting.DeleteAction).GetName() == freezeName {
			r.add("changes allowed")
		}
		return false, nil, nil
	})
	export := &unstructured.Unstructured{Object: map[string]any{}}
	export.SetAPIVersion(crdmigration.GroupVersions[0].String())
	export.SetKind("ServiceExport")
	export.SetNamespace("shop")
	export.SetName("web")
	definition := s.crds["serviceexports"].DeepCopy()
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	for gvr, object := range map[schema.GroupVersionResource]*unstructured.Unstructured{crdmigration.Exports.In("v1beta1"): export, apiconflict.CRDResource: definition} {
		if err := objects.Tracker().Create(gvr, object, object.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	s.copies(t, export)
	return r
}

// R476: objects are touched when the watches of clients have ended, or these would continue
// behind the touches. Other kube-apiservers get time to notice each step.
func TestStepsOfTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		automanaged := map[string]string{apiconflict.AutomanagedLabel: "true"}
		s := newFakeSite(t, localAPIService(crdmigration.GroupVersions[0], automanaged), localAPIService(crdmigration.GroupVersions[1], automanaged))
		r := s.record(t)
		if err := (&options{timeout: time.Minute, allowMissing: true}).moveOne(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(r.events, ", "), "registered, watches ended, changes allowed, touched"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		for i, margin := range []time.Duration{freezeMargin, watchMargin} {
			if took := r.times[i+1].Sub(r.times[i]); took < margin {
				t.Errorf("%s after %s: %s", r.events[i+1], r.events[i], took)
			}
		}
	})
}

// R476: a migration that was interrupted after the hand-over is completed in the same order.
func TestStepsAfterAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSite(t)
		s.ours, s.held = s.held, nil
		r := s.record(t)
		if err := s.completion()[0].do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(r.events, ", "), "watches ended, touched"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if took := r.times[1].Sub(r.times[0]); took < watchMargin {
			t.Errorf("touched after %s", took)
		}
	})
}

// R477: what a command that was killed left behind is undone before anything else.
func TestLeftoversAreClearedAway(t *testing.T) {
	beta, alpha := crdmigration.GroupVersions[0], crdmigration.GroupVersions[1]
	automanaged := map[string]string{apiconflict.AutomanagedLabel: "true"}
	ours := localAPIService(alpha, nil)
	ours.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "mcs-system", Name: service}
	for _, test := range []struct {
		name        string
		apiServices []runtime.Object
		change      func(*site)
		back        bool
		want        string
	}{
		{name: "nothing", apiServices: []runtime.Object{localAPIService(beta, automanaged), localAPIService(alpha, automanaged)}},
		{name: "half handed over", apiServices: []runtime.Object{localAPIService(beta, nil), localAPIService(alpha, automanaged)}, want: "let CRDs keep multicluster.x-k8s.io/v1beta1"},
		{
			name: "refused changes", apiServices: []runtime.Object{localAPIService(beta, automanaged), localAPIService(alpha, automanaged)},
			change: func(s *site) { s.frozen = true }, want: "allow changes again",
		},
		{
			name: "version", apiServices: []runtime.Object{localAPIService(beta, automanaged), localAPIService(alpha, automanaged)},
			change: func(s *site) { _ = addVersion(s.crds["serviceexports"]) }, want: `remove version "migration" of the CRDs`,
		},
		{name: "APIService", apiServices: []runtime.Object{localAPIService(beta, automanaged), localAPIService(alpha, automanaged), sideAPIService()}, want: `remove version "migration" of the CRDs`},
		{
			name: "half returned", apiServices: []runtime.Object{localAPIService(beta, automanaged), ours}, back: true, change: func(s *site) {
				s.frozen, s.held, s.ours = true, s.held[:1], s.held[1:]
				crdmigration.SetPhase(s.mark, crdmigration.Returning)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFakeSite(t, test.apiServices...)
			if test.change != nil {
				test.change(s)
			}
			steps, err := s.leftovers(t.Context(), test.back)
			var got []string
			for _, step := range steps {
				got = append(got, step.description)
			}
			if err != nil || strings.Join(got, ", ") != test.want {
				t.Errorf("got %v, %v, want %q", got, err, test.want)
			}
		})
	}
}

// R476, R478: a migration that was interrupted is completed, and what a return left is removed.
func TestCompletion(t *testing.T) {
	for phase, want := range map[crdmigration.Phase]string{
		"":                     "",
		crdmigration.Copying:   "end watches of clients, and show them what was copied; remove the ConfigMap and the service account of the migration",
		crdmigration.Returning: "remove the ConfigMap and the service account of the migration",
		crdmigration.Returned:  "remove the ConfigMap and the service account of the migration",
	} {
		s := newSite(nil)
		if phase != "" {
			s.mark = &corev1.ConfigMap{}
			crdmigration.SetPhase(s.mark, phase)
		}
		var got []string
		for _, step := range s.completion() {
			got = append(got, step.description)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: got %v, want %s", phase, got, want)
		}
	}
}

// R476: the state of an APIService before it referred to mcs-apiserver does not count.
func TestAvailable(t *testing.T) {
	for _, test := range []struct {
		reason string
		status apiregistrationv1.ConditionStatus
		want   bool
	}{
		{"Local", apiregistrationv1.ConditionTrue, false},
		{"Passed", apiregistrationv1.ConditionTrue, true},
		{"FailedDiscoveryCheck", apiregistrationv1.ConditionFalse, false},
	} {
		item := &apiregistrationv1.APIService{Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: test.status, Reason: test.reason}}}}
		if err := available(item); (err == nil) != test.want {
			t.Errorf("%s: %v", test.reason, err)
		}
	}
}
