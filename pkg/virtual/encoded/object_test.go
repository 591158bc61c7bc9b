// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded_test

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

func imported(ip string) *multicluster.ServiceImport {
	return &multicluster.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid", ResourceVersion: "1"},
		Spec:       multicluster.ServiceImportSpec{Type: multicluster.ClusterSetIP, IPs: []string{ip}},
	}
}

func compact(version int) runtime.Encoder {
	return kept.EncoderForVersion(serializers()[runtime.ContentTypeJSON], kinds["ServiceImport"].versions[version])
}

// changed returns a copy of an object with another IP, and the same UID and version.
func changed(object runtime.Object) runtime.Object {
	copied := *object.(*multicluster.ServiceImport)
	copied.Spec.IPs = []string{"10.0.0.2"}
	return &copied
}

// R641: what does not have the content of an object does not get its encoding, whatever its
// UID and resourceVersion are.
func TestOtherContentHasOtherEncodings(t *testing.T) {
	object := encoded.Wrap(imported("10.0.0.1"), encoded.NewBudget(1<<20))
	first := encode(t, compact(0), object)
	derivation, other := encoded.NewDerivation(changed), encoded.NewDerivation(func(object runtime.Object) runtime.Object {
		return imported("10.0.0.3")
	})
	deleted := object.DeepCopyObject()
	deleted.(metav1.Object).SetResourceVersion("2")
	for name, test := range map[string]struct {
		object runtime.Object
		want   string
	}{
		"another version":           {encoded.Wrap(changed(encoded.Unwrap(object)), encoded.NewBudget(1<<20)), "10.0.0.2"},
		"what it wraps, changed":    {changed(encoded.Unwrap(object)), "10.0.0.2"},
		"a derivation":              {derivation.Of(object), "10.0.0.2"},
		"the derivation once more":  {derivation.Of(object.DeepCopyObject()), "10.0.0.2"},
		"another derivation":        {other.Of(object), "10.0.0.3"},
		"a derivation of a copy":    {derivation.Of(deleted), "10.0.0.2"},
		"the deleted object":        {deleted, `"resourceVersion":"2"`},
		"another group":             {object, "10.0.0.1"},
		"a derivation of hub types": {derivation.Of(imported("10.0.0.9")), "10.0.0.2"},
	} {
		version := 0
		if name == "another group" {
			version = 2
		}
		for range 2 {
			if got := encode(t, compact(version), test.object); !strings.Contains(got, test.want) || got == first {
				t.Errorf("%s: got %s, want %s", name, got, test.want)
			}
		}
	}
	if again := encode(t, compact(0), object); again != first {
		t.Errorf("got %s, want %s", again, first)
	}
}

// An object is encoded once for all readers, also for those that read at the same time.
func TestObjectIsEncodedOnce(t *testing.T) {
	object := encoded.Wrap(imported("10.0.0.1"), encoded.NewBudget(1<<20))
	var encodings atomic.Int32
	encoder := compact(0)
	var readers sync.WaitGroup
	for range 20 {
		readers.Go(func() {
			err := object.DeepCopyObject().(runtime.CacheableObject).CacheEncode(encoder.Identifier(), func(object runtime.Object, w io.Writer) error {
				encodings.Add(1)
				return encoder.Encode(object, w)
			}, io.Discard)
			if err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	if encodings.Load() != 1 {
		t.Errorf("encoded %d times", encodings.Load())
	}
}

// R642: encodings are kept as long as the store holds the object, and within the budget.
func TestEncodingsAreBounded(t *testing.T) {
	budget := encoded.NewBudget(1500)
	derivation := encoded.NewDerivation(changed)
	var objects []*encoded.Object
	size := 0
	for range 10 {
		object := encoded.Wrap(imported("10.0.0.1"), budget)
		objects = append(objects, object)
		size += len(encode(t, compact(0), object)) + len(encode(t, compact(1), object)) + len(encode(t, compact(0), derivation.Of(object)))
	}
	if used := budget.Used(); used > 1500 || used < 1000 || size <= 1500 {
		t.Errorf("%d of %d bytes are kept", used, size)
	}
	for _, object := range objects {
		late := derivation.Of(object)
		object.Release()
		encode(t, compact(0), object)
		encode(t, compact(0), late)
		encode(t, compact(0), derivation.Of(object))
	}
	if used := budget.Used(); used != 0 {
		t.Errorf("%d bytes are kept of objects that were released", used)
	}
}

func TestSettingMetadataLeavesTheContentAlone(t *testing.T) {
	content := imported("10.0.0.1")
	before := content.DeepCopy()
	object := encoded.Wrap(content, encoded.NewBudget(1<<20))
	copied := object.DeepCopyObject().(*encoded.Object)
	second := copied.DeepCopyObject().(*encoded.Object)
	now := metav1.Now()
	for name, set := range map[string]func(metav1.Object){
		"namespace":         func(o metav1.Object) { o.SetNamespace("x") },
		"name":              func(o metav1.Object) { o.SetName("x") },
		"generateName":      func(o metav1.Object) { o.SetGenerateName("x") },
		"uid":               func(o metav1.Object) { o.SetUID(types.UID("x")) },
		"resourceVersion":   func(o metav1.Object) { o.SetResourceVersion("9") },
		"generation":        func(o metav1.Object) { o.SetGeneration(9) },
		"selfLink":          func(o metav1.Object) { o.SetSelfLink("x") },
		"creationTimestamp": func(o metav1.Object) { o.SetCreationTimestamp(now) },
		"deletionTimestamp": func(o metav1.Object) { o.SetDeletionTimestamp(&now) },
		"gracePeriod":       func(o metav1.Object) { o.SetDeletionGracePeriodSeconds(new(int64)) },
		"labels":            func(o metav1.Object) { o.SetLabels(map[string]string{"x": "y"}) },
		"annotations":       func(o metav1.Object) { o.SetAnnotations(map[string]string{"x": "y"}) },
		"finalizers":        func(o metav1.Object) { o.SetFinalizers([]string{"x"}) },
		"ownerReferences":   func(o metav1.Object) { o.SetOwnerReferences([]metav1.OwnerReference{{Name: "x"}}) },
		"managedFields":     func(o metav1.Object) { o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}}) },
	} {
		fresh := object.DeepCopyObject().(*encoded.Object)
		set(fresh)
		if cmp.Equal(encoded.Unwrap(fresh), runtime.Object(before)) {
			t.Errorf("%s was not set", name)
		}
		set(copied)
	}
	if diff := cmp.Diff(before, content); diff != "" {
		t.Errorf("the content was modified: %s", diff)
	}
	if encoded.Unwrap(second) != runtime.Object(content) {
		t.Error("a copy that was not modified does not share the content")
	}
	owned := copied.DeepCopyObject().(*encoded.Object)
	owned.SetName("other")
	if copied.GetName() != "x" {
		t.Error("a copy shares content that may be modified")
	}
}
