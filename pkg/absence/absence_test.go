// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package absence

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

// proxied is what clients make of the 404 page of a proxy, or of an API that is not served.
var proxied = apierrors.NewGenericServerResponse(http.StatusNotFound, "get", namespaces, "shop", "404 page not found", 0, true)

func TestOnlyA404OfTheObjectIsItsAbsence(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"found", nil, false},
		{"not found", apierrors.NewNotFound(namespaces, "shop"), true},
		{"another name", apierrors.NewNotFound(namespaces, "other"), false},
		{"another resource", apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "shop"), false},
		{"not an API server", proxied, false},
		{"forbidden", apierrors.NewForbidden(namespaces, "shop", nil), false},
		{"no response", errors.New("connection refused"), false},
	} {
		if got := Of(test.err, "namespaces", "shop"); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}

func namespace(name string, uid types.UID) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

// R505: namespaces are gone only if the kube-apiserver of this cluster says so.
func TestReaderIsSureOfAbsences(t *testing.T) {
	here := namespace(metav1.NamespaceSystem, "here")
	for _, test := range []struct {
		name   string
		after  []runtime.Object
		getErr error
		absent bool
		err    string
	}{
		{name: "exists", after: []runtime.Object{here, namespace("shop", "1")}},
		{name: "gone", after: []runtime.Object{here}, absent: true},
		{name: "not an API server", after: []runtime.Object{here}, getErr: proxied, err: "not that of a kube-apiserver"},
		{name: "kube-apiserver fails", after: []runtime.Object{here}, getErr: apierrors.NewServiceUnavailable("down"), err: "down"},
		{name: "kube-apiserver lost its data", err: "get namespace kube-system"},
		{name: "another cluster", after: []runtime.Object{namespace(metav1.NamespaceSystem, "there")}, err: "serves another cluster"},
		{name: "namespace of another cluster", after: []runtime.Object{namespace(metav1.NamespaceSystem, "there"), namespace("shop", "2")}, err: "serves another cluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewReader(kubernetesfake.NewClientset(here).CoreV1())
			r.Identify(t.Context())
			client := kubernetesfake.NewClientset(test.after...)
			if test.getErr != nil {
				client.PrependReactor("get", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
					return action.(clienttesting.GetAction).GetName() == "shop", nil, test.getErr
				})
			}
			r.namespaces = client.CoreV1()
			found, err := r.Get(t.Context(), "shop", metav1.GetOptions{})
			if absent := apierrors.IsNotFound(err); absent != test.absent || !absent && (found == nil) != (test.err != "") {
				t.Errorf("got %v, %v", found, err)
			}
			if test.err != "" && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}
