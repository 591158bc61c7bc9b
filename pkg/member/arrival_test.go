// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

func TestWhatAMemberMayTell(t *testing.T) {
	plain, hub, hubForAll := &spec{id: "b"}, &spec{id: "b"}, &spec{id: "b"}
	hubFor("c")(hub)
	hubFor("*")(hubForAll)
	for _, test := range []struct {
		name   string
		from   *spec
		object runtime.Object
		// path is the one it has afterwards; empty if it is not taken.
		path []string
		// refusal is empty for what is left out in silence.
		refusal string
	}{
		{"its own", plain, exportedService("b", "web"), []string{"b"}, ""},
		{"its own endpoints", plain, exportedSlice("b", "web", "web-1"), []string{"b"}, ""},
		{"a hub's own", hub, exportedService("b", "web"), []string{"b"}, ""},
		{"relayed", hub, exportedService("c", "web", "c"), []string{"c", "b"}, ""},
		{"relayed endpoints", hub, exportedSlice("c", "web", "web-1", "c"), []string{"c", "b"}, ""},
		{"by way of another hub", hubForAll, exportedService("d", "web", "d", "c"), []string{"d", "c", "b"}, ""},

		{"another's, without being a hub", plain, exportedService("c", "web", "c"), nil, `it speaks for cluster "c", which only a member may whose Secret says so (relay-for)`},
		{"another's endpoints, without being a hub", plain, exportedSlice("c", "web", "web-1", "c"), nil, `it speaks for cluster "c"`},
		{"another's, without a path", hub, exportedService("c", "web"), nil, `it says that cluster "c" is itself`},
		{"its own, by a detour", plain, exportedService("b", "web", "c"), nil, "its own export has a path: [c]"},
		{"a path from nowhere", hub, exportedService("c", "web", "d"), nil, "spec.path[0]"},
		{"garbage", plain, exportedService("b", "Not a name"), nil, "spec.service"},
		{"garbage among endpoints", plain, exportedSlice("b", "Not a name", "web-1"), nil, "spec.service"},

		{"mine", hubForAll, exportedService("a", "web", "a"), nil, ""},
		{"mine, from one that is no hub", plain, exportedService("a", "web"), nil, ""},
		{"what came by me", hubForAll, exportedService("d", "web", "d", "a"), nil, ""},
		{"what came by itself", hubForAll, exportedService("d", "web", "d", "b"), nil, ""},
		{"what is not wanted from this hub", hub, exportedService("d", "web", "d"), nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := read(test.object)
			must(t, err)
			arrived, taken, err := arrive("a", test.from, nil, f)
			if taken != (test.path != nil) {
				t.Errorf("taken: %v, %v", taken, err)
			}
			if (err != nil) != (test.refusal != "") || err != nil && !strings.Contains(err.Error(), test.refusal) {
				t.Errorf("got error %v, want %q", err, test.refusal)
			}
			if taken {
				if diff := cmp.Diff(test.path, pathOf(arrived)); diff != "" {
					t.Errorf("path: %s", diff)
				}
			}
		})
	}
}

func TestOnlyTheEssenceOfMetadataArrives(t *testing.T) {
	object := exportedService("b", "web")
	object.Annotations, object.Finalizers = map[string]string{"x": "y"}, []string{"x/y"}
	object.DeletionTimestamp = &metav1.Time{Time: epoch}
	object.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
	object.Generation, object.ManagedFields = 3, []metav1.ManagedFieldsEntry{{Manager: "x"}}
	f, err := read(object)
	must(t, err)
	want := exportedService("b", "web").ObjectMeta
	want.ResourceVersion = ""
	if diff := cmp.Diff(want, f.object.(*clusterset.ExportedService).ObjectMeta); diff != "" {
		t.Error(diff)
	}
}

func TestAFeedHoldsNothingElse(t *testing.T) {
	if _, err := read(&corev1.Secret{}); err == nil || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("got %v, want an error that names the type", err)
	}
}
