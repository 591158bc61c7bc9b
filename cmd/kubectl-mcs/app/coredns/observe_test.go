// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// R380: users of some providers may read only the namespace of the cluster DNS.
func TestNamespacesThatMustNotBeRead(t *testing.T) {
	openShift := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-dns", Name: "dns-default"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}}}
	forbid := func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetNamespace() == "kube-system", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "kube-dns", errors.New("no"))
	}
	client := fake.NewClientset(openShift)
	client.PrependReactor("get", "services", forbid)
	if found, err := findService(t.Context(), client, ""); err != nil || found.Name != "dns-default" {
		t.Errorf("got %v, %v", found, err)
	}
	client = fake.NewClientset()
	client.PrependReactor("get", "services", forbid)
	if _, err := findService(t.Context(), client, ""); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "kube-system/kube-dns") {
		t.Errorf("got %v", err)
	}
}

// R380: where no Pod of the cluster serves DNS, CoreDNS is to be installed.
func TestServiceWithoutPods(t *testing.T) {
	labels := map[string]string{"k8s-app": "kube-dns"}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{Selector: labels}}
	deployment := func(name string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		d.Spec.Template.Labels = labels
		return d
	}
	var unsupported *UnsupportedError
	if _, err := Observe(t.Context(), fake.NewClientset(service), ""); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "not by Pods of this cluster") {
		t.Errorf("got %v", err)
	}
	_, err := Observe(t.Context(), fake.NewClientset(service, deployment("a"), deployment("b")), "")
	if err == nil || strings.Contains(err.Error(), "remove") || !strings.Contains(err.Error(), "selects the Pods of both Deployment kube-system/a and Deployment kube-system/b") {
		t.Errorf("got %v", err)
	}
}
