// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubernetestesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
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

// R180: an installation that has registered nothing is found by its Deployment.
func TestInstallationIsFoundByItsDeployment(t *testing.T) {
	labeled := func(namespace, name string) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mcs-apiserver", Labels: map[string]string{"app.kubernetes.io/name": name}}}
	}
	for _, test := range []struct {
		name    string
		objects []runtime.Object
		fails   error
		want    string
	}{
		{"none", nil, nil, "mcs-system"},
		{"another namespace", []runtime.Object{labeled("fleet", "mcs-apiserver"), labeled("shop", "web")}, nil, "fleet"},
		{"several", []runtime.Object{labeled("a", "mcs-apiserver"), labeled("b", "mcs-apiserver")}, nil, "mcs-system"},
		{"not permitted", []runtime.Object{labeled("fleet", "mcs-apiserver")}, apierrors.NewForbidden(appsv1.Resource("deployments"), "", nil), "mcs-system"},
		{"failed", nil, apierrors.NewInternalError(errors.New("broken")), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients := fake.NewClientset(test.objects...)
			if test.fails != nil {
				clients.PrependReactor("list", "deployments", func(kubernetestesting.Action) (bool, runtime.Object, error) { return true, nil, test.fails })
			}
			got, err := (&Attachment{Cluster: &cluster.Cluster{Kubernetes: clients}}).installed(t.Context())
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q and %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestRequiredAPIServicesAreThoseOfTheClients(t *testing.T) {
	if want := []string{"v1.multicluster.k8s.io", "v1alpha1.clusterset.mcs-apiserver.io", "v1alpha1.multicluster.x-k8s.io", "v1beta1.multicluster.x-k8s.io"}; !slices.Equal(required(), want) {
		t.Errorf("got %v, want %v", required(), want)
	}
}
