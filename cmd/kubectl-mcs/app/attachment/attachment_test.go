// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"slices"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
)

func TestAPIIsAvailableWhenAllItsAPIServicesAre(t *testing.T) {
	for _, test := range []struct {
		name   string
		states []apiService
		want   string
	}{
		{"none", nil, "APIService v1.a does not exist"},
		{"some", []apiService{{name: "v1.a"}}, "APIService v1.b does not exist"},
		{"unavailable", []apiService{{name: "v1.a"}, {name: "v1.b", problem: "no endpoints"}}, "APIService v1.b is not available: no endpoints"},
		{"another one unavailable", []apiService{{name: "v1.a"}, {name: "v1.b"}, {name: "v1.c", problem: "no endpoints"}}, "v1.c"},
		{"all", []apiService{{name: "v1.b"}, {name: "v1.a"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := unavailable([]string{"v1.a", "v1.b"}, test.states)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			expect.Error(t, err, test.want)
		})
	}
}

func TestRequiredAPIServicesAreThoseOfTheClients(t *testing.T) {
	if want := []string{"v1.multicluster.k8s.io", "v1alpha1.clusterset.mcs-apiserver.io", "v1alpha1.multicluster.x-k8s.io", "v1beta1.multicluster.x-k8s.io"}; !slices.Equal(required(), want) {
		t.Errorf("got %v, want %v", required(), want)
	}
}
