// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// FuzzConversion converts objects of every kind and version to the hub and to all other versions.
//
// R367: conversion loses nothing, neither directly nor through any other version, and every
// encoding that is served decodes to the same object.
func FuzzConversion(f *testing.F) {
	scheme := runtime.NewScheme()
	Install(scheme)
	var kinds []schema.GroupVersionKind
	for kind, of := range scheme.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal && strings.Contains(of.PkgPath(), "mcs-apiserver") {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for i := range kinds {
		f.Add(uint8(i), []byte(`{"metadata":{"name":"web","labels":{"a":"b"}},"items":[{"metadata":{"name":"x"},"spec":{"value":"v"}}],`+
			`"spec":{"value":"east","type":"Headless","ports":[{"name":"http","port":80,"appProtocol":"h2c"}],"ips":["10.0.0.1"],"ipFamilies":["IPv4"],"exportedLabels":{"a":"b"},`+
			`"cluster":"east","service":"web","audience":{"clusters":["north","west"]},"exportedAt":"2026-01-01T00:00:00Z","path":["a"],"endpoints":[{"addresses":["10.0.0.1"]}],"addressType":"IPv4"},`+
			`"status":{"clusters":[{"cluster":"east"}],"conditions":[{"type":"Valid","status":"True"}],"clusterID":"east","peers":["a"],"state":"Local"}}`))
		f.Add(uint8(i), []byte(`{"metadata":{"name":"east"},"spec":{"displayName":"East","clusterManager":{"name":"example"}},`+
			`"status":{"version":{"kubernetes":"v1.36.3"},"properties":[{"name":"a","value":"b","lastObservedTime":"2026-01-01T00:00:00Z"}],`+
			`"accessProviders":[{"name":"a","cluster":{"server":"https://a","certificate-authority-data":"YQ==","extensions":[{"name":"e","extension":{"a":[1,2.5,"b",null]}}]}}],`+
			`"credentialProviders":[{"name":"a","cluster":{"server":""}}]},`+
			`"decisions":[{"clusterProfileRef":{"name":"east","namespace":"fleet"},"reason":"c"}],"schedulerName":"s"}`))
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		kind := kinds[int(which)%len(kinds)]
		given, err := scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		// What cannot be encoded was never sent in this form.
		if json.Unmarshal(data, given) != nil || !survivesJSON(given) || joinsIDs(given) {
			return
		}
		given.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		hub, err := scheme.UnsafeConvertToVersion(given.DeepCopyObject(), schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
		if err != nil {
			t.Fatalf("%s cannot be converted to the hub: %v", kind, err)
		}
		for _, to := range append(versionsOf(scheme, kinds, kind.Kind, hub), kind) {
			converted, err := scheme.ConvertToVersion(hub, to.GroupVersion())
			if err != nil {
				t.Fatalf("%s cannot be converted to %s: %v", kind, to, err)
			}
			for _, info := range codecs.SupportedMediaTypes() {
				expectSame(t, info, scheme, converted, to)
			}
			back, err := scheme.ConvertToVersion(converted, schema.GroupVersion{Group: to.Group, Version: runtime.APIVersionInternal})
			if err != nil || !apiequality.Semantic.DeepEqual(hub, back) {
				t.Fatalf("%s as %s\n%+v\nand back\n%+v: %v", kind, to, hub, back, err)
			}
			if to == kind {
				converted.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
				if !apiequality.Semantic.DeepEqual(given, converted) {
					t.Fatalf("%s through the hub:\n%+v\nis\n%+v", kind, given, converted)
				}
			}
		}
	})
}

// versionsOf returns the kinds of all groups and versions that an object of the hub has.
func versionsOf(scheme *runtime.Scheme, kinds []schema.GroupVersionKind, kind string, hub runtime.Object) []schema.GroupVersionKind {
	of, _, err := scheme.ObjectKinds(hub)
	if err != nil {
		return nil
	}
	var versions []schema.GroupVersionKind
	for _, other := range kinds {
		sameGroup := func(k schema.GroupVersionKind) bool { return k.Group == other.Group }
		if other.Kind == kind && slices.ContainsFunc(of, sameGroup) {
			versions = append(versions, other)
		}
	}
	return versions
}

// joinsIDs reports whether an object is for clusters whose IDs have a comma, which the hub takes for
// several IDs.
func joinsIDs(object runtime.Object) bool {
	hasComma := func(service clustersetv1alpha1.ExportedService) bool {
		audience := service.Spec.Audience
		return audience != nil && slices.ContainsFunc(audience.Clusters, func(id string) bool { return strings.Contains(id, ",") })
	}
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		return hasComma(*object)
	case *clustersetv1alpha1.ExportedServiceList:
		return slices.ContainsFunc(object.Items, hasComma)
	}
	return false
}

// survivesJSON reports whether an object is the same after it was encoded: times of the year
// 10000 and the empty values of lists are not. Neither are extensions of a form that has no
// equivalent in other encodings, such as 1e400, or that is not the only one, such as 1e2.
func survivesJSON(object runtime.Object) bool {
	data, err := json.Marshal(object)
	if err != nil {
		return false
	}
	again := object.DeepCopyObject()
	if json.Unmarshal(data, again) != nil {
		return false
	}
	encoded, err := json.Marshal(again)
	if err != nil || !bytes.Equal(data, encoded) || !apiequality.Semantic.DeepEqual(object, again) {
		return false
	}
	var tree any
	if utiljson.Unmarshal(data, &tree) != nil {
		return false
	}
	canonical, err := json.Marshal(tree)
	again = object.DeepCopyObject()
	return err == nil && json.Unmarshal(canonical, again) == nil && apiequality.Semantic.DeepEqual(object, again)
}

// expectSame checks that an object is the same after it was encoded and decoded.
func expectSame(t *testing.T, info runtime.SerializerInfo, scheme *runtime.Scheme, object runtime.Object, kind schema.GroupVersionKind) {
	t.Helper()
	if info.MediaType == runtime.ContentTypeProtobuf {
		return // not served: the types have no such encoding
	}
	encoded, err := runtime.Encode(info.Serializer, object)
	if err != nil {
		t.Fatalf("encode %s as %s: %v", kind, info.MediaType, err)
	}
	into, err := scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DecodeInto(info.Serializer, encoded, into); err != nil {
		t.Fatalf("decode %s of %s: %v", info.MediaType, kind, err)
	}
	into.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	// An extension is kept in the encoding in which it was received.
	asJSON, err := json.Marshal(into)
	if err != nil {
		t.Fatalf("encode %s of %s as JSON: %v", info.MediaType, kind, err)
	}
	if into, err = scheme.New(kind); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(asJSON, into); err != nil {
		t.Fatalf("decode %s of %s as JSON: %v", info.MediaType, kind, err)
	}
	if !apiequality.Semantic.DeepEqual(object, into) {
		t.Fatalf("%s encoded as %s\n%+v\nis decoded as\n%+v", kind, info.MediaType, object, into)
	}
}
