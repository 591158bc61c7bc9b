// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	inventoryvalidation "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/validation"
)

// FuzzDecodeAndValidate decodes and validates arbitrary request bodies. Nothing
// may panic, and a valid object must survive encoding and decoding in every
// version.
func FuzzDecodeAndValidate(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceExport","metadata":{"name":"web","namespace":"shop"},"spec":{"exportedLabels":{"a":"b"},"exportedAnnotations":{"c":"d"}},"status":{"conditions":[{"type":"Valid","status":"True","reason":"Valid","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		`{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ServiceExport","metadata":{"generateName":"web-","namespace":"shop"}}`,
		`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ServiceImport","metadata":{"name":"web"},"spec":{"ports":[{"name":"http","protocol":"TCP","port":80}],"type":"ClusterSetIP","ips":["10.0.0.1"],"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":5}}},"status":{"clusters":[{"cluster":"east"}]}}`,
		`{"apiVersion":"multicluster.k8s.io/v1","kind":"ClusterClaim","metadata":{"name":"id.k8s.io"},"spec":{"value":"east"}}`,
		`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"ClusterProfile","metadata":{"name":"east","namespace":"fleet","labels":{"x-k8s.io/cluster-manager":"m"}},"spec":{"clusterManager":{"name":"m"}},"status":{"properties":[{"name":"a","value":"b"}],"accessProviders":[{"name":"a","cluster":{"server":"https://a","extensions":[{"name":"e","extension":{"a": "<b>"}}]}}]}}`,
		`{"apiVersion":"multicluster.x-k8s.io/v1alpha1","kind":"PlacementDecision","metadata":{"name":"web","namespace":"fleet"},"decisions":[{"clusterProfileRef":{"name":"east"}}],"schedulerName":"s"}`,
		"apiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: a}\n",
		`{"apiVersion":"v1","kind":"Status"}`, `{}`, `[]`, `null`, ``, "\x00", "k8s\x00\n\x04",
	} {
		f.Add([]byte(seed))
	}
	scheme := runtime.NewScheme()
	Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	decoder := codecs.UniversalDecoder(multicluster.XSchemeGroupVersion, multicluster.SchemeGroupVersion)
	f.Fuzz(func(t *testing.T, data []byte) {
		object, err := runtime.Decode(decoder, data)
		if err != nil || len(validate(object)) > 0 {
			return
		}
		compactExtensions(t, object)
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			for _, version := range scheme.VersionsForGroupKind(kind.GroupKind()) {
				if version.Version == runtime.APIVersionInternal {
					continue
				}
				written, err := runtime.Encode(codecs.LegacyCodec(version), object)
				if err != nil {
					t.Fatalf("failed to encode valid object %#v as %s: %v", object, version, err)
				}
				read, err := runtime.Decode(decoder, written)
				if err != nil {
					t.Fatalf("failed to decode %s: %v", written, err)
				}
				if !apiequality.Semantic.DeepEqual(object, read) {
					t.Fatalf("encoded\n%#v\ndecoded\n%#v", object, read)
				}
			}
		}
	})
}

// compactExtensions removes white space from extensions, as every encoding does. Otherwise
// they are kept as they are.
func compactExtensions(t *testing.T, object runtime.Object) {
	t.Helper()
	profile, ok := object.(*inventory.ClusterProfile)
	if !ok {
		return
	}
	for _, providers := range [][]inventory.AccessProvider{profile.Status.AccessProviders, profile.Status.CredentialProviders} {
		for _, provider := range providers {
			for i := range provider.Cluster.Extensions {
				extension := &provider.Cluster.Extensions[i].Extension
				compact, err := json.Marshal(extension)
				if err != nil {
					t.Fatalf("failed to encode valid extension %q: %v", extension.Raw, err)
				}
				extension.Raw = compact
			}
		}
	}
}

// validate runs all validation functions for the type of the object.
func validate(object runtime.Object) field.ErrorList {
	switch object := object.(type) {
	case *multicluster.ServiceExport:
		errs := validation.ValidateServiceExport(object)
		errs = append(errs, validation.ValidateServiceExportUpdate(object, object)...)
		return append(errs, validation.ValidateServiceExportStatusUpdate(object, object)...)
	case *multicluster.ClusterClaim:
		return append(validation.ValidateClusterClaim(object), validation.ValidateClusterClaimUpdate(object, object)...)
	case *inventory.ClusterProfile:
		errs := inventoryvalidation.ValidateClusterProfile(object)
		errs = append(errs, inventoryvalidation.ValidateClusterProfileUpdate(object, object)...)
		return append(errs, inventoryvalidation.ValidateClusterProfileStatusUpdate(object, object)...)
	case *inventory.PlacementDecision:
		return append(inventoryvalidation.ValidatePlacementDecision(object), inventoryvalidation.ValidatePlacementDecisionUpdate(object, object)...)
	}
	return nil
}
