// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}
	for text, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "1",
		"x$(A)y$(A)z":   "x1y1z",
		"$(B)":          "$(A)",
		"$(EMPTY)":      "",
		"$(UNKNOWN)":    "$(UNKNOWN)",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$1",
		"$A":            "$A",
		"$":             "$",
		"$$":            "$",
		"$(A":           "$(A",
		"cost: 5$ $(A)": "cost: 5$ 1",
	} {
		if got := Expand(text, values); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func builder() *Builder {
	return &Builder{Client: fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "config"}, Data: map[string]string{"KEY": "from config", "OTHER": "other"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "secret"}, Data: map[string][]byte{"KEY": []byte("from secret")}},
	)}
}

var pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "pod"}}

func reference(name string) corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: name}
}

func TestBuild(t *testing.T) {
	container := &corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference("config")}},
			{Prefix: "S_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference("secret")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference("absent"), Optional: ptr.To(true)}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference("absent"), Optional: ptr.To(true)}},
		},
		Env: []corev1.EnvVar{
			{Name: "OTHER", Value: "overridden"},
			{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "GREETING", Value: "hello $(NAME), $(BASE), $(LATER)"},
			{Name: "LATER", Value: "later"},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: reference("config"), Key: "KEY"}}},
			{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: reference("secret"), Key: "KEY"}}},
			{Name: "NONE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: reference("secret"), Key: "absent", Optional: ptr.To(true)}}},
			{Name: "NONE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: reference("absent"), Key: "absent", Optional: ptr.To(true)}}},
		},
	}
	base := map[string]string{"BASE": "base"}
	got, err := builder().Build(t.Context(), pod, container, base)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"BASE=base", "C=from config", "GREETING=hello pod, base, $(LATER)", "KEY=from config", "LATER=later",
		"NAME=pod", "OTHER=overridden", "S=from secret", "S_KEY=from secret",
	}
	if diff := cmp.Diff(want, List(got)); diff != "" {
		t.Error(diff)
	}
	if len(base) != 1 {
		t.Errorf("base was changed: %v", base)
	}
}

func TestBuildReportsMissingObjects(t *testing.T) {
	for missing, container := range map[string]*corev1.Container{
		`"gone"`: {EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference("gone")}}}},
		`"lost"`: {EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference("lost")}}}},
		`ConfigMap config has no key "k"`: {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: reference("config"), Key: "k"}}}}},
		`variable X`: {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nothing"}}}}},
	} {
		if _, err := builder().Build(t.Context(), pod, container, map[string]string{}); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: got %v", missing, err)
		}
	}
}

func TestServiceVariables(t *testing.T) {
	got := ServiceVariables(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}})
	want := []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443"}
	if diff := cmp.Diff(want, List(got)); diff != "" {
		t.Error(diff)
	}
}
