// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// R264
func TestExportsCountInAllGroups(t *testing.T) {
	both := []string{"serviceexports.multicluster.x-k8s.io", "serviceexports.multicluster.k8s.io"}
	for _, test := range []struct {
		name        string
		resource    schema.GroupVersionResource
		subresource string
		want        []string
	}{
		{"upstream's group", schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}, "", both},
		{"the group of the KEP", schema.GroupVersionResource{Group: "multicluster.k8s.io", Version: "v1alpha1", Resource: "serviceexports"}, "", both},
		{"status", schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}, "status", nil},
		{"claims", schema.GroupVersionResource{Group: "multicluster.k8s.io", Version: "v1", Resource: "clusterclaims"}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "shop", "web", test.resource, test.subresource, admission.Create, nil, false, nil)
			var found []string
			for _, counted := range countedAs(request) {
				found = append(found, counted.GetResource().GroupResource().String())
				if counted.GetNamespace() != "shop" || counted.GetOperation() != admission.Create {
					t.Errorf("request is changed to %v", counted)
				}
			}
			if !slices.Equal(found, test.want) {
				t.Errorf("counted as %v, want %v", found, test.want)
			}
		})
	}
}
