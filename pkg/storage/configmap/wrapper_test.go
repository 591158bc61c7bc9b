// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

var exports = schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "serviceexports"}

func wrapped(objectLabels labels.Set, objectFields fields.Set) *corev1.ConfigMap {
	return wrap(wrapping{
		resource: exports, key: "/exports/shop/web", namespace: "shop",
		labels: objectLabels, fields: objectFields, data: []byte("{}"),
	})
}

func TestWrapperIsAValidConfigMap(t *testing.T) {
	long := strings.Repeat("x", 300)
	wrapper := wrap(wrapping{
		resource: exports, key: "/exports/" + long + "/" + long, namespace: long,
		labels: labels.Set{"a.example/" + strings.Repeat("y", 63): "v", "plain": ""}, fields: fields.Set{"metadata.name": long, "spec.node": ""},
	})
	for _, problem := range validation.IsDNS1123Subdomain(wrapper.Name) {
		t.Errorf("name %q: %s", wrapper.Name, problem)
	}
	for key, value := range wrapper.Labels {
		for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			t.Errorf("label %s=%s: %s", key, value, problem)
		}
	}
}

func TestUserLabelsCannotPassForLabelsOfTheWrapper(t *testing.T) {
	wrapper := wrapped(labels.Set{ResourceLabel: "other", NamespaceLabel: "other"}, nil)
	if got := wrapper.Labels[ResourceLabel] + " " + wrapper.Labels[NamespaceLabel]; got != exports.String()+" shop" {
		t.Errorf("labels of the wrapper are %s", got)
	}
}

func TestSelectorsSelectWrappersAsTheySelectObjects(t *testing.T) {
	objectLabels := labels.Set{"app": "web", "tier.example/level": "3"}
	objectFields := fields.Set{"metadata.namespace": "shop", "spec.nodeName": ""}
	wrapper := wrapped(objectLabels, objectFields)
	for _, text := range []string{
		"", "app", "!app", "app=web", "app!=web", "app in (web,api)", "app notin (web)", "missing", "!missing", "missing!=x",
		"tier.example/level>2", "tier.example/level<2",
	} {
		label, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		pushed, err := selector(exports, "shop", label, fields.Everything())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := pushed.Matches(labels.Set(wrapper.Labels)), label.Matches(objectLabels); got != want {
			t.Errorf("labels %q: wrapper matches %v, object %v", text, got, want)
		}
	}
	for _, text := range []string{"metadata.namespace=shop", "metadata.namespace!=shop", "metadata.namespace=other", "spec.nodeName=", "spec.nodeName!=", "spec.nodeName=a/b c"} {
		field := fields.ParseSelectorOrDie(text)
		pushed, err := selector(exports, "", labels.Everything(), field)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := pushed.Matches(labels.Set(wrapper.Labels)), field.Matches(objectFields); got != want {
			t.Errorf("fields %q: wrapper matches %v, object %v", text, got, want)
		}
	}
	pushed, err := selector(exports, "", labels.Everything(), fields.ParseSelectorOrDie("metadata.name=other"))
	if err != nil || !pushed.Matches(labels.Set(wrapper.Labels)) {
		t.Errorf("got %q, %v: names are selected by the predicate", pushed, err)
	}
	for namespace, want := range map[string]bool{"": true, "shop": true, "shop2": false} {
		pushed, err := selector(exports, namespace, labels.Everything(), fields.Everything())
		if err != nil {
			t.Fatal(err)
		}
		if got := pushed.Matches(labels.Set(wrapper.Labels)); got != want {
			t.Errorf("namespace %q: wrapper matches %v, want %v", namespace, got, want)
		}
	}
}

// The text of labels.Nothing is empty, which selects everything.
func TestSelectorOfNothingIsLimitedToTheResource(t *testing.T) {
	pushed, err := selector(exports, "", labels.Nothing(), nil)
	if err != nil || !strings.Contains(pushed.String(), ResourceLabel+"="+exports.String()) {
		t.Errorf("got %q, %v", pushed, err)
	}
}

func TestUnwrapRefusesForeignConfigMaps(t *testing.T) {
	if key, data, err := unwrap(exports, wrapped(nil, nil)); err != nil || key != "/exports/shop/web" || string(data) != "{}" {
		t.Errorf("got %q, %q, %v", key, data, err)
	}
	moved := wrapped(nil, nil)
	moved.Data[keyData] = "/exports/shop/other"
	for what, wrapper := range map[string]*corev1.ConfigMap{
		"empty":       {ObjectMeta: metav1.ObjectMeta{Name: wrapperName(exports, "/exports/shop/web")}},
		"another key": moved,
	} {
		if _, _, err := unwrap(exports, wrapper); err == nil {
			t.Errorf("%s: unwrapped", what)
		}
	}
}

func TestReplacementDropsOldLabels(t *testing.T) {
	existing := wrapped(labels.Set{"old": "x"}, nil)
	existing.UID, existing.ResourceVersion = "wrapper", "7"
	replaced := wrapped(labels.Set{"new": "y"}, nil)
	replace(replaced, existing)
	if replaced.UID != "wrapper" || replaced.ResourceVersion != "7" {
		t.Errorf("got %+v", replaced.ObjectMeta)
	}
	if _, old := replaced.Labels[objectLabel("old")]; old || replaced.Labels[objectLabel("new")] != "y" {
		t.Errorf("labels are %v", replaced.Labels)
	}
}
