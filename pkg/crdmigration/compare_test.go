// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crdmigration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

const (
	uidA = types.UID("0a1b2c3d-0000-4000-8000-00000000000a")
	uidB = types.UID("0a1b2c3d-0000-4000-8000-00000000000b")
)

var created = metav1.NewTime(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))

type option func(*unstructured.Unstructured)

func newObject(r Resource, name string, uid types.UID, options ...option) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("multicluster.x-k8s.io/" + r.Versions[0])
	object.SetKind(r.Kind)
	object.SetNamespace("shop")
	object.SetName(name)
	object.SetUID(uid)
	object.SetCreationTimestamp(created)
	object.SetResourceVersion("7")
	for _, option := range options {
		option(object)
	}
	return object
}

func field(value any, path ...string) option {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func annotated(key, value string) option {
	return func(object *unstructured.Unstructured) { annotate(object, key, value) }
}

func copiedFrom(uid types.UID) option {
	return annotated(multicluster.MigratedFromAnnotation, multicluster.MigratedFrom{UID: uid, CreationTimestamp: created}.String())
}

func deleting(object *unstructured.Unstructured) { object.SetDeletionTimestamp(&created) }

func list(objects ...*unstructured.Unstructured) []*unstructured.Unstructured { return objects }

// describe returns the changes in one line.
func describe(changes Changes) string {
	var parts []string
	for _, object := range changes.Release {
		parts = append(parts, "release "+object.GetName())
	}
	for _, object := range changes.Delete {
		parts = append(parts, "delete "+object.GetName())
	}
	for _, object := range changes.Create {
		parts = append(parts, "create "+object.GetName())
	}
	for _, update := range changes.Update {
		parts = append(parts, fmt.Sprintf("update %s %t %t", update.Existing.GetName(), update.Content, update.Status))
	}
	for _, name := range changes.Kept {
		parts = append(parts, "keep "+name)
	}
	for _, refusal := range changes.Refused {
		parts = append(parts, "refuse "+refusal.Name)
	}
	return strings.Join(parts, ", ")
}

// R473: the objects of mcs-apiserver become those of the CRDs, nothing is written where
// nothing changed, and what was not copied is left alone.
func TestMirror(t *testing.T) {
	labels := field(map[string]any{"a": "b"}, "spec", "exportedLabels")
	status := field("v1.36.0", "status", "version", "kubernetes")
	manager := field("example", "spec", "clusterManager", "name")
	for _, test := range []struct {
		name        string
		resource    Resource
		custom, own []*unstructured.Unstructured
		want        string
	}{
		{"new", Exports, list(newObject(Exports, "b", uidB), newObject(Exports, "a", uidA)), nil, "create a, create b"},
		{"same", Exports, list(newObject(Exports, "a", uidA, labels)), list(newObject(Exports, "a", uidA, labels, copiedFrom(uidA))), ""},
		{"empty spec", Exports, list(newObject(Exports, "a", uidA)), list(newObject(Exports, "a", uidA, field(map[string]any{}, "spec"), copiedFrom(uidA))), ""},
		{"another version", Exports, list(newObject(Exports, "a", uidA, field("multicluster.x-k8s.io/v1alpha1", "apiVersion"))), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), ""},
		{"changed", Exports, list(newObject(Exports, "a", uidA, labels)), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), "update a true false"},
		{"annotated", Exports, list(newObject(Exports, "a", uidA, annotated("x", "y"))), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), "update a true false"},
		{
			"annotations of the copy", Exports, list(newObject(Exports, "a", uidA)),
			list(newObject(Exports, "a", uidA, copiedFrom(uidA), annotated(multicluster.OriginAnnotation, "x/y"), annotated(multicluster.ClusterSetIPDecisionAnnotation, "{}"))), "",
		},
		{"status of an export", Exports, list(newObject(Exports, "a", uidA, field([]any{}, "status", "conditions"))), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), ""},
		{"finalizer of an export", Exports, list(newObject(Exports, "a", uidA, field([]any{"x/y"}, "metadata", "finalizers"))), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), ""},
		{"deleted", Exports, nil, list(newObject(Exports, "a", uidA, copiedFrom(uidA))), "delete a"},
		{"deleted already", Exports, nil, list(newObject(Exports, "a", uidA, copiedFrom(uidA), deleting)), ""},
		{"being deleted", Exports, list(newObject(Exports, "a", uidA, deleting)), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), "delete a"},
		{"being deleted, not copied", Exports, list(newObject(Exports, "a", uidA, deleting)), nil, ""},
		{"created again", Exports, list(newObject(Exports, "a", uidB)), list(newObject(Exports, "a", uidA, copiedFrom(uidA))), "delete a, create a"},
		{"never copied", Exports, list(newObject(Exports, "a", uidA, labels)), list(newObject(Exports, "a", uidB), newObject(Exports, "b", uidB)), "keep shop/a"},
		{"returned and changed", Exports, list(newObject(Exports, "a", uidA, labels, annotated(ReturnedFromAnnotation, string(uidB)))), list(newObject(Exports, "a", uidB)), "update a true false"},
		{"time only", Exports, nil, list(newObject(Exports, "a", uidA, copiedFrom(""))), ""},
		{"invalid", Exports, list(newObject(Exports, "a", uidA, field("text", "spec"))), nil, "refuse shop/a"},
		{"unknown field", profiles, list(newObject(profiles, "a", uidA, manager, field("x", "spec", "unknown"))), list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA))), ""},
		{"status", profiles, list(newObject(profiles, "a", uidA, manager, status)), list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA))), "update a false true"},
		{"same status", profiles, list(newObject(profiles, "a", uidA, manager, status)), list(newObject(profiles, "a", uidA, manager, status, copiedFrom(uidA))), ""},
		{
			"label of the manager", profiles, list(newObject(profiles, "a", uidA, manager)),
			list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA), field(map[string]any{"x-k8s.io/cluster-manager": "example"}, "metadata", "labels"))), "",
		},
		{"finalizer of a profile", profiles, list(newObject(profiles, "a", uidA, manager, field([]any{"x/y"}, "metadata", "finalizers"))), list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA))), "update a true false"},
		{"finalizer of a deleted profile", profiles, nil, list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA), field([]any{"x/y"}, "metadata", "finalizers"))), "release a, delete a"},
		{"finalizer of a profile that is gone", profiles, nil, list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA), deleting, field([]any{"x/y"}, "metadata", "finalizers"))), "release a"},
		{
			"finalizer of a profile that is being deleted", profiles, list(newObject(profiles, "a", uidA, manager, deleting, field([]any{"x/y"}, "metadata", "finalizers"))),
			list(newObject(profiles, "a", uidA, manager, copiedFrom(uidA), field([]any{"x/y"}, "metadata", "finalizers"))), "delete a",
		},
		{"decisions", decisions, list(newObject(decisions, "a", uidA, field("s", "schedulerName"))), list(newObject(decisions, "a", uidA, copiedFrom(uidA))), "update a true false"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := fmt.Sprint(test.custom, test.own)
			changes := test.resource.Mirror(test.custom, test.own, time.Time{})
			if got := describe(changes); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if changes.Empty() != !strings.Contains(test.want, "e a") {
				t.Errorf("empty: %t", changes.Empty())
			}
			if after := fmt.Sprint(test.custom, test.own); after != before {
				t.Errorf("objects were changed from\n%s to\n%s", before, after)
			}
		})
	}
}

// R478: what mcs-apiserver had when the API returned to CRDs counts as copied, so that what users
// deleted or created again since then does not come back.
func TestMirrorAfterReturn(t *testing.T) {
	labels := field(map[string]any{"a": "b"}, "spec", "exportedLabels")
	later := created.Add(time.Hour)
	for _, test := range []struct {
		name        string
		custom, own []*unstructured.Unstructured
		returned    time.Time
		want        string
	}{
		{"deleted", nil, list(newObject(Exports, "a", uidB)), later, "delete a"},
		{"created again", list(newObject(Exports, "a", uidA, labels)), list(newObject(Exports, "a", uidB)), later, "delete a, create a"},
		{"returned", list(newObject(Exports, "a", uidA, annotated(ReturnedFromAnnotation, string(uidB)))), list(newObject(Exports, "a", uidB)), later, ""},
		{"created later", nil, list(newObject(Exports, "a", uidB)), created.Time, ""},
		{"never returned", nil, list(newObject(Exports, "a", uidB)), time.Time{}, ""},
	} {
		if got := describe(Exports.Mirror(test.custom, test.own, test.returned)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// R478, R479: the profiles of members belong to mcs-controller, in both directions.
func TestProfilesOfMembersAreNotCopied(t *testing.T) {
	member := list(newObject(profiles, "a", uidA, field(multicluster.ManagedBy, "spec", "clusterManager", "name")))
	for name, changes := range map[string]Changes{
		"to mcs-apiserver": profiles.Mirror(member, nil, time.Time{}), "from mcs-apiserver": profiles.Mirror(nil, member, created.Add(time.Hour)),
		"to a CRD": profiles.Back(nil, member, "migration", true), "from a CRD": profiles.Back(member, nil, "migration", true),
	} {
		if got := describe(changes); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// R473: a copy has the identity and the content of its source, and nothing that belongs to the
// source alone.
func TestCopy(t *testing.T) {
	source := newObject(Exports, "a", uidA, field(map[string]any{"a": "b"}, "spec", "exportedLabels"), annotated("x", "y"), annotated(multicluster.OriginAnnotation, "forged/one"),
		field([]any{"x/y"}, "metadata", "finalizers"), field([]any{}, "status", "conditions"))
	copied, err := Exports.Copy(source)
	if err != nil {
		t.Fatal(err)
	}
	want := newObject(Exports, "a", "", field(map[string]any{"a": "b"}, "spec", "exportedLabels"), annotated("x", "y"), copiedFrom(uidA))
	want.SetResourceVersion("")
	unstructured.RemoveNestedField(want.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(want.Object, "metadata", "uid")
	if fmt.Sprint(copied.Object) != fmt.Sprint(want.Object) {
		t.Errorf("got  %v\nwant %v", copied.Object, want.Object)
	}
}

// R478: the objects of CRDs become those of mcs-apiserver. Imports of the other implementation
// are neither changed nor deleted.
func TestBack(t *testing.T) {
	labels := field(map[string]any{"a": "b"}, "spec", "exportedLabels")
	for _, test := range []struct {
		name        string
		resource    Resource
		custom, own []*unstructured.Unstructured
		want        string
	}{
		{"same", Exports, list(newObject(Exports, "a", uidA)), list(newObject(Exports, "a", uidA, copiedFrom(uidA), annotated(multicluster.MigratedAtAnnotation, "now"))), ""},
		{"new", Exports, nil, list(newObject(Exports, "a", uidB)), "create a"},
		{"changed", Exports, list(newObject(Exports, "a", uidA)), list(newObject(Exports, "a", uidA, copiedFrom(uidA), labels)), "update a true false"},
		{"deleted", Exports, list(newObject(Exports, "a", uidA)), nil, "delete a"},
		{"being deleted", Exports, nil, list(newObject(Exports, "a", uidA, deleting)), ""},
		{"new import", Imports, nil, list(newObject(Imports, "a", uidA)), "create a"},
		{"changed import", Imports, list(newObject(Imports, "a", uidA)), list(newObject(Imports, "a", uidB, field("Headless", "spec", "type"))), ""},
		{"import of the other implementation", Imports, list(newObject(Imports, "a", uidA)), nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			changes := test.resource.Back(test.custom, test.own, "migration", test.resource.Plural != Imports.Plural)
			if got := describe(changes); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for _, object := range changes.Create {
				if object.GetAPIVersion() != "multicluster.x-k8s.io/migration" || object.GetAnnotations()[ReturnedFromAnnotation] == "" || object.GetUID() != "" {
					t.Errorf("creates %v", object)
				}
			}
		})
	}
}

// R473: two programs agree on what was copied, whatever the order of the objects.
func TestDigest(t *testing.T) {
	a, b := newObject(Exports, "a", uidA), newObject(Exports, "b", uidB)
	digest := func(objects ...*unstructured.Unstructured) string {
		text, err := Exports.Digest(objects)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	base := digest(a, b)
	touched := newObject(Exports, "a", uidA, field([]any{}, "status", "conditions"))
	touched.SetResourceVersion("9")
	if digest(b, a) != base || digest(touched, b) != base {
		t.Error("the digest depends on the order, or on what is not copied")
	}
	different := []string{
		base, digest(), digest(a), digest(newObject(Exports, "a", uidB), b), digest(newObject(Exports, "a", uidA, deleting), b),
		digest(newObject(Exports, "a", uidA, annotated("x", "y")), b), digest(newObject(Exports, "a", uidA, field("text", "spec")), b),
	}
	slices.Sort(different)
	if len(slices.Compact(different)) != 7 {
		t.Errorf("digests of different objects are the same: %v", different)
	}
}

// R473, R476: objects are read from the server that has them, also while only some versions are
// handed over.
func TestServedVersion(t *testing.T) {
	definition := func(change func(*unstructured.Unstructured), versions ...string) *unstructured.Unstructured {
		var served []any
		for _, version := range versions {
			served = append(served, map[string]any{"name": strings.TrimPrefix(version, "-"), "served": !strings.HasPrefix(version, "-")})
		}
		crd := &unstructured.Unstructured{Object: map[string]any{
			"spec":   map[string]any{"versions": served},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
		}}
		change(crd)
		return crd
	}
	established := func(*unstructured.Unstructured) {}
	beta, alpha := GroupVersions[:1], GroupVersions[1:]
	for _, test := range []struct {
		name string
		crd  *unstructured.Unstructured
		by   []schema.GroupVersion
		want string
	}{
		{"none", nil, GroupVersions, ""},
		{"both", definition(established, "v1alpha1", "v1beta1"), GroupVersions, "v1beta1"},
		{"old", definition(established, "v1alpha1", "-v1beta1"), GroupVersions, "v1alpha1"},
		{"neither", definition(established, "v1", "-v1beta1"), GroupVersions, ""},
		{"being deleted", definition(deleting, "v1beta1"), GroupVersions, ""},
		{"not established", definition(field([]any{}, "status", "conditions"), "v1beta1"), GroupVersions, ""},
		{"one is served by another server", definition(established, "v1alpha1", "v1beta1"), alpha, "v1alpha1"},
		{"all are served by another server", definition(established, "v1alpha1"), beta, ""},
	} {
		if got, ok := Exports.ServedVersion(test.crd, test.by); got != test.want || ok != (test.want != "") {
			t.Errorf("%s: got %q, %t, want %q", test.name, got, ok, test.want)
		}
	}
}

// R473: the report of many refusals fits into a ConfigMap, and is written when it changes.
func TestReport(t *testing.T) {
	var refused []Refusal
	for i := range 5000 {
		refused = append(refused, Refusal{fmt.Sprintf("shop/web-%d", i), strings.Repeat("é", 10000)})
	}
	mark := &corev1.ConfigMap{}
	SetPhase(mark, Copying)
	report := Report{Resources: map[string]ResourceReport{"serviceexports": NewResourceReport("abc", 3, []string{"shop/a"}, refused)}}
	for _, want := range []bool{true, false} {
		if changed, err := SetReport(mark, report); err != nil || changed != want {
			t.Errorf("changed: %t, %v", changed, err)
		}
	}
	read, err := ReportOf(mark)
	if got := read.Resources["serviceexports"]; err != nil || got.Digest != "abc" || got.Copied != 3 || got.RefusedCount != 5000 || len(got.Refused) != 200 || len(mark.Data[reportKey]) > 500_000 {
		t.Errorf("%d bytes, %v, %+v", len(mark.Data[reportKey]), err, got)
	}
	if err := SetReturned(mark, []string{"serviceexports"}, created.Time); err != nil {
		t.Fatal(err)
	}
	Request(mark, "abc")
	SetPhase(mark, Returned)
	if RequestOf(mark) != "" || !ReturnedAt(mark, "serviceexports").Equal(created.Time) || !ReturnedAt(mark, "clusterprofiles").IsZero() {
		t.Errorf("got %v", mark.Data)
	}
	if empty, err := ReportOf(mark); err != nil || len(empty.Resources) > 0 || PhaseOf(mark) != Returned {
		t.Errorf("%+v, %v", empty, err)
	}
}
