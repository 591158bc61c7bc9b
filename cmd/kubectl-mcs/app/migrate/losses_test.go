// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

func serviceImport(name, ip string, labels map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"type": "ClusterSetIP"}, "status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "message": "name conflict: Service \"derived-a\""},
	}}}}
	if ip != "" {
		_ = unstructured.SetNestedStringSlice(object.Object, []string{ip}, "spec", "ips")
	}
	object.SetNamespace("shop")
	object.SetName(name)
	object.SetLabels(labels)
	return object
}

// R476: imports that would vanish, or lose their IP, are named with the reason.
func TestMissingImports(t *testing.T) {
	headless := serviceImport("a", "", nil)
	_ = unstructured.SetNestedField(headless.Object, "Headless", "spec", "type")
	for _, test := range []struct {
		name        string
		custom, own *unstructured.Unstructured
		want        string
	}{
		{"imported", serviceImport("a", "10.1.0.1", nil), serviceImport("a", "10.2.0.1", nil), ""},
		{"not imported", serviceImport("a", "10.1.0.1", nil), serviceImport("b", "10.2.0.1", nil), "ServiceImport shop/a exists in the CRD, but no cluster of the ClusterSet exports it"},
		{"without IP", serviceImport("a", "10.1.0.1", nil), serviceImport("a", "", nil), `would have none: name conflict: Service "derived-a"`},
		{"without IP in both", serviceImport("a", "", nil), serviceImport("a", "", nil), ""},
		{"headless", serviceImport("a", "10.1.0.1", nil), headless, ""},
		{"of one cluster", serviceImport("a-shop-west", "", map[string]string{multicluster.SourceClusterLabel: "west"}), serviceImport("a", "", nil), ""},
	} {
		got := strings.Join(missing([]*unstructured.Unstructured{test.custom}, []*unstructured.Unstructured{test.own}), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// R476: all CRDs count that the APIServices would hide.
func TestHiddenCRDs(t *testing.T) {
	beta, alpha := crdmigration.GroupVersions[0], crdmigration.GroupVersions[1]
	serving := map[schema.GroupVersion][]string{
		beta: {"clusterprofiles.multicluster.x-k8s.io", "serviceexports.multicluster.x-k8s.io"}, alpha: {"clusterprofiles.multicluster.x-k8s.io", "works.multicluster.x-k8s.io"},
	}
	for _, test := range []struct {
		held []schema.GroupVersion
		want []string
	}{
		{[]schema.GroupVersion{beta}, []string{"CustomResourceDefinition clusterprofiles.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1beta1"}},
		{[]schema.GroupVersion{alpha}, []string{"CustomResourceDefinition works.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1alpha1"}},
	} {
		got := hidden(serving, test.held)
		if len(got) != len(test.want) || !strings.Contains(got[0], test.want[0]) {
			t.Errorf("got %v, want %v", got, test.want)
		}
	}
}

// R476: objects that are refused, and those that stay as mcs-apiserver has them, count.
func TestObjectsThatAreNotCopiedCount(t *testing.T) {
	report := crdmigration.Report{Resources: map[string]crdmigration.ResourceReport{"serviceexports": {
		Refused: []crdmigration.Refusal{{Name: "shop/a", Reason: "too long"}}, RefusedCount: 2, Kept: []string{"shop/b"}, KeptCount: 1,
	}}}
	got := notCopied(report)
	if len(got) != 3 || !strings.Contains(got[0], "ServiceExport shop/a is refused by mcs-apiserver: too long") || !strings.Contains(got[1], "ServiceExport shop/b exists in mcs-apiserver already") {
		t.Errorf("got %v", got)
	}
}

// R478: objects that no CRD would serve prevent the return of their group-version.
func TestReturnHidesNoObjects(t *testing.T) {
	alpha := crdmigration.GroupVersions[1]
	profile := func(manager string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterManager": map[string]any{"name": manager}}}}
		object.SetAPIVersion(alpha.String())
		object.SetKind("ClusterProfile")
		object.SetNamespace("default")
		object.SetName("edge")
		return object
	}
	export := profile("")
	export.SetKind("ServiceExport")
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		plural string
		want   string
	}{
		"of a user":                     {profile("example"), "clusterprofiles", "ClusterProfile default/edge and 0 others would be hidden"},
		"of a member":                   {profile(multicluster.ManagedBy), "clusterprofiles", ""},
		"served by CRDs in one version": {export, "serviceexports", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeSite(t)
			s.crds["serviceexports"], s.held = definition("v1beta1"), s.held[:1]
			if err := s.objects.(*dynamicfake.FakeDynamicClient).Tracker().Create(alpha.WithResource(test.plural), test.object, "default"); err != nil {
				t.Fatal(err)
			}
			err := s.checkHidden(t.Context(), []schema.GroupVersion{alpha})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// R478: objects that mcs-apiserver refused are not deleted with those that users deleted there.
func TestRefusedObjectsAreNotDeleted(t *testing.T) {
	s := newFakeSite(t)
	gvr := crdmigration.Exports.In("v1beta1")
	s.objects.(*dynamicfake.FakeDynamicClient).PrependReactor("create", "serviceexports", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch name := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).GetName(); name {
		case "invalid":
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ServiceExport"}, name, nil)
		case "unavailable":
			return true, nil, apierrors.NewServiceUnavailable("no storage")
		default:
			return true, nil, apierrors.NewForbidden(gvr.GroupResource(), name, errors.New(freezeMessage))
		}
	})
	object := func(name string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetNamespace("shop")
		object.SetName(name)
		return object
	}
	got, err := s.deleted(t.Context(), crdmigration.Exports, gvr, []*unstructured.Unstructured{object("invalid"), object("deleted")})
	if err != nil || len(got) != 1 || got[0].GetName() != "deleted" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := s.deleted(t.Context(), crdmigration.Exports, gvr, []*unstructured.Unstructured{object("unavailable")}); err == nil {
		t.Errorf("got %v", got)
	}
}
