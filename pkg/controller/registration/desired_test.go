// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/install"
)

var (
	ourService = types.NamespacedName{Namespace: "mcs-system", Name: "mcs-apiserver"}
	owner      = metav1.OwnerReference{Kind: "ClusterRole", Name: "mcs-controller", UID: "1"}
)

func apiService(change func(*apiregistrationv1.APIService)) *apiregistrationv1.APIService {
	object := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: groupVersions[0].apiServiceName(), ResourceVersion: "5"}}
	change(object)
	return object
}

func TestEveryServedVersionIsRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	want, got := map[schema.GroupVersion]bool{}, map[schema.GroupVersion]bool{}
	for _, gv := range scheme.PrioritizedVersionsAllGroups() {
		if gv.Group != "" { // options and Status, which are in every scheme
			want[gv] = true
		}
	}
	for _, gv := range groupVersions {
		got[gv.GroupVersion] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("served (-) and registered (+) differ: %s", diff)
	}
}

func TestConflict(t *testing.T) {
	for _, test := range []struct {
		name     string
		existing *apiregistrationv1.APIService
		want     apiconflict.Owner
	}{
		{name: "not served"},
		{name: "served by mcs-apiserver", existing: apiService(func(a *apiregistrationv1.APIService) {
			a.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "mcs-system", Name: "mcs-apiserver"}
		})},
		{name: "served by another server", want: apiconflict.Owner{Service: "kube-system/other"}, existing: apiService(func(a *apiregistrationv1.APIService) {
			a.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: "other"}
		})},
		{name: "served by a CRD", want: apiconflict.Owner{CRD: true}, existing: apiService(func(a *apiregistrationv1.APIService) {
			a.Labels = map[string]string{apiconflict.AutomanagedLabel: "true"}
		})},
		{name: "handed over by a CRD", existing: apiService(func(*apiregistrationv1.APIService) {})},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := conflict(test.existing, ourService); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestAPIServiceIsWrittenOnlyIfItDiffers(t *testing.T) {
	gv, ca := groupVersions[0], []byte("ca")
	first := desired(nil, gv, ourService, ca, owner)
	if again := desired(first, gv, ourService, ca, owner); !unchanged(first, again) {
		t.Error("an unchanged APIService would be written")
	}
	for name, change := range map[string]func(*apiregistrationv1.APIService){
		"the authority":  func(a *apiregistrationv1.APIService) { a.Spec.CABundle = []byte("old") },
		"the owner":      func(a *apiregistrationv1.APIService) { a.OwnerReferences = nil },
		"the service":    func(a *apiregistrationv1.APIService) { a.Spec.Service = nil },
		"the priority":   func(a *apiregistrationv1.APIService) { a.Spec.GroupPriorityMinimum++ },
		"skipped checks": func(a *apiregistrationv1.APIService) { a.Spec.InsecureSkipTLSVerify = true },
	} {
		t.Run(name, func(t *testing.T) {
			existing := first.DeepCopy()
			change(existing)
			restored := desired(existing, gv, ourService, ca, owner)
			if unchanged(existing, restored) {
				t.Error("the change would not be reverted")
			}
			if diff := cmp.Diff(first.Spec, restored.Spec); diff != "" {
				t.Errorf("not restored: %s", diff)
			}
		})
	}
}

func TestForeignMetadataIsPreserved(t *testing.T) {
	existing := apiService(func(a *apiregistrationv1.APIService) {
		a.Labels = map[string]string{"team": "platform"}
		a.Annotations = map[string]string{"note": "ours"}
	})
	restored := desired(existing, groupVersions[0], ourService, nil, owner)
	if restored.Labels["team"] != "platform" || restored.Annotations["note"] != "ours" || restored.ResourceVersion != "5" {
		t.Errorf("labels %v, annotations %v, resourceVersion %q", restored.Labels, restored.Annotations, restored.ResourceVersion)
	}
}
