// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := RegisterConversions(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// R620: whom an export is for survives the conversion: all, nobody, or some.
func TestAudienceOfServiceIsConverted(t *testing.T) {
	scheme := newScheme(t)
	for _, audience := range []*Audience{nil, {}, {Clusters: []string{"north"}}, {Clusters: []string{"north", "west"}}} {
		sent := &ExportedService{Spec: ExportedServiceSpec{Audience: audience}}
		var hub clusterset.ExportedService
		var back ExportedService
		if err := scheme.Convert(sent, &hub, nil); err != nil {
			t.Fatal(err)
		}
		if err := scheme.Convert(&hub, &back, nil); err != nil {
			t.Fatal(err)
		}
		if (hub.Spec.Audience == nil) != (audience == nil) || !apiequality.Semantic.DeepEqual(sent.Spec, back.Spec) {
			t.Errorf("%+v became %+v: %s", audience, hub.Spec.Audience, cmp.Diff(sent.Spec, back.Spec))
		}
	}
}

// The audience is sent once, with the Service, and not with each of its slices.
func TestAudienceOfEndpointsIsNotSent(t *testing.T) {
	hub := &clusterset.ExportedEndpointSliceList{Items: []clusterset.ExportedEndpointSlice{
		{Spec: clusterset.ExportedEndpointSliceSpec{Cluster: "east", Service: "web", Audience: clusterset.NewAudience("north"), Path: []string{"east"}}},
	}}
	var sent ExportedEndpointSliceList
	if err := newScheme(t).Convert(hub, &sent, nil); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(content); strings.Contains(text, "north") || !strings.Contains(text, `"path":["east"]`) {
		t.Errorf("sent is %s", text)
	}
}
