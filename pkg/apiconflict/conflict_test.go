// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconflict

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefusalNamesTheConflictAndTheRemedy(t *testing.T) {
	gv := schema.GroupVersion{Group: "multicluster.x-k8s.io", Version: "v1alpha1"}
	for _, test := range []struct {
		name  string
		crds  []string
		owner Owner
		want  []string
	}{
		{
			name: "CRDs", owner: Owner{CRD: true},
			crds: []string{"serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"},
			want: []string{
				"CustomResourceDefinition serviceexports.multicluster.x-k8s.io, serviceimports.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1alpha1",
				"kubectl mcs migrate",
			},
		},
		{
			name: "another server", owner: Owner{Service: "kube-system/other"},
			want: []string{"Service kube-system/other serves multicluster.x-k8s.io/v1alpha1", "kubectl delete apiservice v1alpha1.multicluster.x-k8s.io"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			message := Refusal(gv, test.owner, test.crds)
			for _, part := range test.want {
				if !strings.Contains(message, part) {
					t.Errorf("got %q, want it to contain %q", message, part)
				}
			}
		})
	}
}

// Only versions that are served are in the way.
func TestCRDServesItsServedVersions(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": "a", "versions": []any{
		map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v2", "served": false},
	}}}}
	for gv, want := range map[schema.GroupVersion]bool{{Group: "a", Version: "v1"}: true, {Group: "a", Version: "v2"}: false, {Group: "a", Version: "v3"}: false, {Group: "b", Version: "v1"}: false} {
		if got := Serves(crd, gv); got != want {
			t.Errorf("%s is served: %t, want %t", gv, got, want)
		}
	}
}
