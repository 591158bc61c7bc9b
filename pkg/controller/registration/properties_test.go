// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
)

// R467, R468: who serves ClusterProperties, and what is said about it. The rest is registered.
func TestClusterPropertiesAreLeftToOthers(t *testing.T) {
	var properties served
	for _, gv := range groupVersions {
		if apiconflict.GivesWay(gv.GroupVersion) {
			properties = gv
		}
	}
	apiService := func(service *apiregistrationv1.ServiceReference, labels map[string]string) *apiregistrationv1.APIService {
		return &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: properties.apiServiceName(), Labels: labels},
			Spec:       apiregistrationv1.APIServiceSpec{Group: properties.Group, Version: properties.Version, Service: service},
		}
	}
	ours := &apiregistrationv1.ServiceReference{Namespace: ourService.Namespace, Name: ourService.Name}
	automanaged := map[string]string{apiconflict.AutomanagedLabel: "true"}
	for _, test := range []struct {
		name     string
		existing *apiregistrationv1.APIService
		// version is the one that a CRD serves.
		version  string
		takeOver bool
		// servedByUs is who serves them in the end, and notice is a part of what is said.
		servedByUs bool
		notice     string
	}{
		{name: "nobody", servedByUs: true},
		{name: "CRD", existing: apiService(nil, automanaged), version: "v1beta1", notice: "--take-over-cluster-properties"},
		{name: "CRD, to be taken over", existing: apiService(nil, automanaged), version: "v1beta1", takeOver: true, servedByUs: true},
		{name: "CRD of another version", version: "v1alpha1", servedByUs: true},
		{name: "CRD that was created later", existing: apiService(ours, nil), version: "v1beta1", notice: "--take-over-cluster-properties"},
		{name: "CRD that was created later, to be taken over", existing: apiService(ours, nil), version: "v1beta1", takeOver: true, servedByUs: true},
		{name: "CRD that was deleted", existing: apiService(ours, nil), servedByUs: true},
		{name: "another server", existing: apiService(&apiregistrationv1.ServiceReference{Namespace: "other", Name: "server"}, nil), takeOver: true, notice: "Service other/server"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, registered := newController(t)
			c.setLeading(true)
			c.takeOver = test.takeOver
			client := c.clients.Aggregator.ApiregistrationV1().APIServices()
			if test.existing != nil {
				if _, err := client.Create(t.Context(), test.existing, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := c.informer.GetIndexer().Add(test.existing); err != nil {
					t.Fatal(err)
				}
			}
			if test.version != "" {
				definition := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": apiconflict.PropertiesCRD},
					"spec": map[string]any{"group": properties.Group, "versions": []any{map[string]any{"name": test.version, "served": true}}},
				}}
				if _, err := c.clients.Dynamic.Resource(apiconflict.CRDResource).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.sync(t.Context(), queueKey); err != nil {
				t.Fatal(err)
			}
			rest := 0
			for _, name := range registered() {
				if name != properties.apiServiceName() {
					rest++
				}
			}
			if rest != len(groupVersions)-1 {
				t.Errorf("%d other APIServices are registered", rest)
			}
			if exports, err := client.Get(t.Context(), groupVersions[0].apiServiceName(), metav1.GetOptions{}); err != nil || exports.Spec.GroupPriorityMinimum != groupVersions[0].groupPriority {
				t.Errorf("others have priority %d, %v", exports.Spec.GroupPriorityMinimum, err)
			}
			existing, _ := client.Get(t.Context(), properties.apiServiceName(), metav1.GetOptions{})
			if got := isOurs(existing, ourService); got != test.servedByUs {
				t.Errorf("served by mcs-apiserver: %t, want %t", got, test.servedByUs)
			}
			if text, err := c.State(); text != "ok" || err != nil {
				t.Errorf("state is %q, %v", text, err)
			}
			if message := c.state.message; (message == "") != (test.notice == "") || !strings.Contains(message, test.notice) || c.state.isWarning() == (message != "") {
				t.Errorf("says %q (warning: %t), want %q", message, c.state.isWarning(), test.notice)
			}
		})
	}
}
