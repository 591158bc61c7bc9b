// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded_test

import (
	"fmt"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// typical returns imports of headless services.
func typical(count int) []runtime.Object {
	var objects []runtime.Object
	for i := range count {
		object := imported("")
		object.Name, object.ResourceVersion = fmt.Sprintf("service-%05d", i), fmt.Sprint(1e15+i)
		object.Spec.Type, object.Spec.IPs = multicluster.Headless, nil
		object.Spec.Ports = []multicluster.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}
		object.Status = multicluster.ServiceImportStatus{
			EndpointSliceObjects: multicluster.EndpointSliceObjectsPresent,
			Clusters:             []multicluster.ClusterStatus{{Cluster: "east"}, {Cluster: "west"}},
			Conditions: []metav1.Condition{{
				Type: multicluster.ServiceImportReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "imported", LastTransitionTime: metav1.Unix(1e9, 0),
			}},
		}
		objects = append(objects, object)
	}
	return objects
}

// BenchmarkList5000 encodes a list as usual, and from encodings of which none are kept, all
// are, or one of a hundred has changed since the last list.
func BenchmarkList5000(b *testing.B) {
	kind := kinds["ServiceImport"]
	budget := encoded.NewBudget(1 << 30)
	none, usual := both(b, kind, wrap(typical(5000), nil), metav1.ListMeta{ResourceVersion: "1"})
	all, _ := both(b, kind, wrap(typical(5000), budget), metav1.ListMeta{ResourceVersion: "1"})
	serializer := serializers()[runtime.ContentTypeJSON]
	run := func(name string, encoder runtime.Encoder, object runtime.Object, before func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			if err := encoder.Encode(object, io.Discard); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				before()
				if err := encoder.Encode(object, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("usual", codecs.EncoderForVersion(serializer, kind.versions[0]), usual, func() {})
	run("none kept", kept.EncoderForVersion(serializer, kind.versions[0]), none, func() {})
	run("all kept", kept.EncoderForVersion(serializer, kind.versions[0]), all, func() {})
	run("one percent changed", kept.EncoderForVersion(serializer, kind.versions[0]), all, func() {
		for i := 0; i < len(all.Items); i += 100 {
			content := encoded.Unwrap(&all.Items[i])
			all.Items[i].Release()
			all.Items[i] = *encoded.Wrap(content, budget)
		}
	})
}
