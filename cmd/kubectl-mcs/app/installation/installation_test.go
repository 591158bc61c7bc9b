// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/attachment"
)

func deployed(namespace, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mcs-apiserver", Labels: map[string]string{"app.kubernetes.io/name": "mcs-apiserver"}},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: Controller, Image: image}}}}},
	}
}

func registered(name, service, namespace string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{
		Service: &apiregistrationv1.ServiceReference{Namespace: namespace, Name: service},
	}}
}

// R563, R564: only what the registered APIServices refer to is taken for mcs-apiserver. Users of other
// namespaces decide neither which image runs nor what is gathered.
func TestDeploymentsOfOtherNamespacesAreIgnored(t *testing.T) {
	forbidden := apierrors.NewForbidden(apiregistrationv1.Resource("apiservices"), "", nil)
	for _, test := range []struct {
		name          string
		registrations []runtime.Object
		fails         error
		// want is the image, and failure is a part of why it is not known.
		want, failure string
	}{
		{"registered elsewhere", []runtime.Object{registered("v1.x", "mcs-apiserver", "tools"), registered("v1.metrics", "metrics-server", "attack")}, nil, "good", ""},
		{"nothing is registered", nil, nil, "default", ""},
		{"not permitted", nil, forbidden, "default", ""},
		{"not answered", nil, errors.New("reset"), "default", ""},
		{"in doubt", []runtime.Object{registered("v1.x", "mcs-apiserver", "tools"), registered("v2.x", "mcs-apiserver", "attack")}, nil, "", "several namespaces: attack, tools"},
		{"not valid", []runtime.Object{registered("v1.x", "mcs-apiserver", "..")}, nil, "", "is not valid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := kubernetesfake.NewClientset(deployed("attack", "evil"), deployed("mcs-system", "default"), deployed("tools", "good"))
			registrations := aggregatorfake.NewSimpleClientset(test.registrations...)
			if test.fails != nil {
				registrations.PrependReactor("list", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.fails })
			}
			namespace, err := attachment.InstalledIn(t.Context(), registrations)
			if test.failure != "" {
				if err == nil || !strings.Contains(err.Error(), test.failure) {
					t.Errorf("namespace %q, error %v", namespace, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			deployment, err := find(t.Context(), client, namespace)
			if err != nil || Image(deployment) != test.want {
				t.Errorf("got %+v, error %v", deployment, err)
			}
			if nowhere, err := find(t.Context(), client, "empty"); nowhere != nil || err != nil {
				t.Errorf("got %+v, error %v where nothing is installed", nowhere, err)
			}
		})
	}
}
