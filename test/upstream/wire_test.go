// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream compares the API types with those of sigs.k8s.io/mcs-api.
package upstream

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	upstreamv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	upstreamv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Objects that are encoded with one type are decoded and encoded with the other
// without any difference.
func TestWireFormatIsUpstreams(t *testing.T) {
	for _, pair := range []struct {
		name         string
		ours, theirs any
	}{
		{"v1beta1 ServiceExport", v1beta1.ServiceExport{}, upstreamv1beta1.ServiceExport{}},
		{"v1beta1 ServiceExportList", v1beta1.ServiceExportList{}, upstreamv1beta1.ServiceExportList{}},
		{"v1beta1 ServiceImport", v1beta1.ServiceImport{}, upstreamv1beta1.ServiceImport{}},
		{"v1beta1 ServiceImportList", v1beta1.ServiceImportList{}, upstreamv1beta1.ServiceImportList{}},
		{"v1alpha1 ServiceExport", v1alpha1.ServiceExport{}, upstreamv1alpha1.ServiceExport{}},
		{"v1alpha1 ServiceExportList", v1alpha1.ServiceExportList{}, upstreamv1alpha1.ServiceExportList{}},
		{"v1alpha1 ServiceImport", v1alpha1.ServiceImport{}, upstreamv1alpha1.ServiceImport{}},
		{"v1alpha1 ServiceImportList", v1alpha1.ServiceImportList{}, upstreamv1alpha1.ServiceImportList{}},
		// The KEP's group has the same format under another name.
		{"KEP ServiceExport", multiclusterv1alpha1.ServiceExport{}, upstreamv1alpha1.ServiceExport{}},
		{"KEP ServiceImport", multiclusterv1alpha1.ServiceImport{}, upstreamv1alpha1.ServiceImport{}},
	} {
		t.Run(pair.name, func(t *testing.T) {
			seed := rand.Int63()
			filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(runtime.NewScheme()))
			for range 200 {
				for _, direction := range [][2]any{{pair.ours, pair.theirs}, {pair.theirs, pair.ours}} {
					from := reflect.New(reflect.TypeOf(direction[0])).Interface()
					to := reflect.New(reflect.TypeOf(direction[1])).Interface()
					filler.Fill(from)
					written := encode(t, from)
					decoder := json.NewDecoder(bytes.NewReader(written))
					decoder.DisallowUnknownFields()
					if err := decoder.Decode(to); err != nil {
						t.Fatalf("seed %d: %T cannot read what %T wrote: %v\n%s", seed, to, from, err, written)
					}
					if reread := encode(t, to); !bytes.Equal(written, reread) {
						t.Fatalf("seed %d: %T wrote\n%s\n%T decoded and wrote\n%s", seed, from, written, to, reread)
					}
				}
			}
		})
	}
}

func encode(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatalf("encode %T: %v", object, err)
	}
	return data
}
