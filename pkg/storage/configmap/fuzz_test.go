// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/storage"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/install"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func newFuzzedConverter() converter {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return converter{Config: Config{
		Namespace: "mcs-storage", Resource: exports, ResourcePrefix: "/exports/",
		Codec:      serializer.NewCodecFactory(scheme).LegacyCodec(multiclusterxv1beta1.SchemeGroupVersion),
		NewFunc:    func() runtime.Object { return &multicluster.ServiceExport{} },
		Attributes: storage.DefaultNamespaceScopedAttr,
	}, decoded: newDecodedObjects()}
}

// FuzzDecode decodes ConfigMaps of the storage namespace that hold anything.
//
// R367: what cannot be decoded is an error that names the ConfigMap, never an absent or an empty
// object, and what can be is the same after it was stored again.
func FuzzDecode(f *testing.F) {
	const valid = `{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceExport","metadata":{"name":"web","namespace":"shop","labels":{"a":"b"}}}`
	f.Add("/exports/shop/web", valid, "7")
	f.Add("/exports/shop/web", strings.Replace(valid, "ServiceExport", "ServiceImport", 1), "7")
	f.Add("/exports/shop/web", strings.Replace(valid, "x-k8s.io/v1beta1", "k8s.io/v1", 1), "0")
	f.Add("", `{}`, "")
	f.Add("/exports/shop/web", `null`, "-1")
	f.Fuzz(func(t *testing.T, key, data, version string) {
		c := newFuzzedConverter()
		wrapper := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: wrapperName(exports, key), ResourceVersion: version}, Data: map[string]string{keyData: key, objectData: data},
		}
		read := &multicluster.ServiceExport{}
		got, err := c.unwrapInto(wrapper, read)
		if err != nil {
			if !storage.IsInternalError(err) || !strings.Contains(err.Error(), "ConfigMap mcs-storage/"+wrapper.Name) || storage.IsNotFound(err) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if got != key || read.ResourceVersion != version && (read.ResourceVersion != "" || strings.Trim(version, "0") != "") {
			t.Fatalf("decoded key %q and version %q of %q and %q", got, read.ResourceVersion, key, version)
		}
		again := &multicluster.ServiceExport{} // from what is kept
		if _, err := c.unwrapInto(wrapper, again); err != nil || !apiequality.Semantic.DeepEqual(read, again) {
			t.Fatalf("decoded\n%+v, and then\n%+v: %v", read, again, err)
		}
		moved := wrapper.DeepCopy()
		moved.Data[keyData] += "x"
		if _, err := c.unwrapInto(moved, again); err == nil {
			t.Fatal("an object with the key of another one was decoded")
		}
		expectStored(t, c, key, read)
	})
}

// expectStored checks that an object is the same after it was stored, in a valid ConfigMap.
func expectStored(t *testing.T, c converter, key string, object *multicluster.ServiceExport) {
	t.Helper()
	unversioned := object.DeepCopy()
	unversioned.ResourceVersion = ""
	data, err := c.encode(key, unversioned)
	if err != nil {
		t.Fatalf("failed to encode %+v: %v", object, err)
	}
	wrapper, err := c.wrapper(key, nil, object, data)
	if err != nil {
		t.Fatal(err)
	}
	wrapper.ResourceVersion = object.ResourceVersion
	for name, value := range wrapper.Labels {
		if problems := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Fatalf("label %s=%s: %v", name, value, problems)
		}
	}
	if problems := validation.IsDNS1123Subdomain(wrapper.Name); len(problems) > 0 {
		t.Fatalf("name %s: %v", wrapper.Name, problems)
	}
	pushed, err := selector(exports, namespaceOf(c.ResourcePrefix, key), labels.SelectorFromSet(object.Labels), fields.Everything())
	if err == nil && !pushed.Matches(labels.Set(wrapper.Labels)) {
		t.Fatalf("%s does not select %v", pushed, wrapper.Labels)
	}
	stored := &multicluster.ServiceExport{}
	if _, err := c.unwrapInto(wrapper, stored); err != nil || !apiequality.Semantic.DeepEqual(object, stored) {
		t.Fatalf("stored\n%+v, decoded\n%+v: %v", object, stored, err)
	}
}
