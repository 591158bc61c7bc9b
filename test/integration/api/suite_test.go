// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

func adminConfig(t *testing.T) *rest.Config {
	t.Helper()
	config, err := suite.Plane.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// client returns the project's clientset for the administrator.
func client(t *testing.T) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(adminConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// serviceExports returns the dynamic client, as the administrator, for the
// ServiceExports of one group and version.
func serviceExports(t *testing.T, gv apischema.GroupVersion, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(adminConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(gv.WithResource("serviceexports")).Namespace(namespace)
}

// xGroup is the group of the upstream types, kepGroup the group in the KEP.
var (
	xGroup   = v1beta1.SchemeGroupVersion
	kepGroup = v1alpha1.SchemeGroupVersion
)

// decode converts what the dynamic client returned to the type T.
func decode[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatal(err)
	}
	return into
}

// unstructuredExport returns a ServiceExport with the given top-level fields.
func unstructuredExport(gv apischema.GroupVersion, name string, fields map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: maps.Clone(fields)}
	if object.Object == nil {
		object.Object = map[string]any{}
	}
	object.SetGroupVersionKind(gv.WithKind("ServiceExport"))
	object.SetName(name)
	return object
}

// namespace creates a namespace that is deleted when the test ends.
func namespace(t *testing.T) string {
	t.Helper()
	created, err := suite.Kubernetes.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = suite.Kubernetes.CoreV1().Namespaces().Delete(context.Background(), created.Name, metav1.DeleteOptions{})
	})
	return created.Name
}

// kubectl runs kubectl as the administrator. It must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := suite.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// kubectlFails runs kubectl as the administrator. It must not succeed.
func kubectlFails(t *testing.T, args ...string) string {
	t.Helper()
	output, err := suite.Kubectl(t.Context(), args...)
	if err == nil {
		t.Fatalf("kubectl %s succeeded:\n%s", strings.Join(args, " "), output)
	}
	return output
}

// export returns the manifest of a ServiceExport.
func export(apiVersion, namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: ServiceExport\nmetadata:\n  name: %s\n  namespace: %s\nspec: %s\n", apiVersion, name, namespace, spec)
}

// service creates a Service of the given type.
func service(t *testing.T, namespace, name string, serviceType corev1.ServiceType) {
	t.Helper()
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: serviceType, Ports: []corev1.ServicePort{{Port: 80}}}}
	if serviceType == corev1.ServiceTypeExternalName {
		object.Spec.ExternalName = "example.com"
	}
	if _, err := suite.Kubernetes.CoreV1().Services(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
