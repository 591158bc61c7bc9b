// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

func TestAdmit(t *testing.T) {
	plain := Policy{Self: "a", Member: "b"}
	hub, hubForAll := plain, plain
	hub.Relay, hubForAll.Relay = route.Scope{IDs: sets.New("c")}, route.Scope{All: true}
	for _, test := range []struct {
		name   string
		policy Policy
		object runtime.Object
		// path is the path afterwards; empty if the object is not admitted.
		path []string
		// rejected is empty for objects that are ignored.
		rejected string
	}{
		{"own export", plain, membertest.ExportedService("b", "web"), []string{"b"}, ""},
		{"own endpoints", plain, membertest.ExportedSlice("b", "web", "web-1"), []string{"b"}, ""},
		{"own export of a hub", hub, membertest.ExportedService("b", "web"), []string{"b"}, ""},
		{"relayed", hub, membertest.ExportedService("c", "web", "c"), []string{"c", "b"}, ""},
		{"relayed endpoints", hub, membertest.ExportedSlice("c", "web", "web-1", "c"), []string{"c", "b"}, ""},
		{"relayed by two hubs", hubForAll, membertest.ExportedService("d", "web", "d", "c"), []string{"d", "c", "b"}, ""},

		{"relayed by a member that is not a hub", plain, membertest.ExportedService("c", "web", "c"), nil, `object of cluster "c" in the feed of cluster "b": only a member with relay-for in its Secret may relay other clusters`},
		{"endpoints relayed by a member that is not a hub", plain, membertest.ExportedSlice("c", "web", "web-1", "c"), nil, `object of cluster "c" in the feed of cluster "b"`},
		{"relayed without a path", hub, membertest.ExportedService("c", "web"), nil, `relayed export of cluster "c" has no path`},
		{"own export with a path", plain, membertest.ExportedService("b", "web", "c"), nil, `export of cluster "b" itself has a path, beginning with "c"`},
		{"path that does not begin with the source", hub, membertest.ExportedService("c", "web", "d"), nil, "spec.path[0]"},
		{"invalid Service name", plain, membertest.ExportedService("b", "Not a name"), nil, "spec.service"},
		{"endpoints with an invalid Service name", plain, membertest.ExportedSlice("b", "Not a name", "web-1"), nil, "spec.service"},

		{"export of this cluster", hubForAll, membertest.ExportedService("a", "web", "a"), nil, ""},
		{"export of this cluster from a member that is not a hub", plain, membertest.ExportedService("a", "web"), nil, ""},
		{"relayed by this cluster", hubForAll, membertest.ExportedService("d", "web", "d", "a"), nil, ""},
		{"relayed by the member before", hubForAll, membertest.ExportedService("d", "web", "d", "b"), nil, ""},
		{"cluster that this hub may not relay", hub, membertest.ExportedService("d", "web", "d"), nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			object, err := Decode(test.object)
			if err != nil {
				t.Fatal(err)
			}
			got := test.policy.Admit(object)
			if got.Admitted != (test.path != nil) {
				t.Errorf("admitted: %v, %v", got.Admitted, got.Err)
			}
			if (got.Err != nil) != (test.rejected != "") || got.Err != nil && !strings.Contains(got.Err.Error(), test.rejected) {
				t.Errorf("got error %v, want %q", got.Err, test.rejected)
			}
			if got.Admitted {
				if diff := cmp.Diff(test.path, got.Object.path()); diff != "" {
					t.Errorf("path: %s", diff)
				}
			}
		})
	}
}

func TestOnlyEssentialMetadataIsDecoded(t *testing.T) {
	object := membertest.ExportedService("b", "web")
	object.Annotations, object.Finalizers = map[string]string{"x": "y"}, []string{"x/y"}
	object.DeletionTimestamp = &metav1.Time{Time: membertest.Epoch}
	object.OwnerReferences = []metav1.OwnerReference{{Name: "x"}}
	object.Generation, object.ManagedFields = 3, []metav1.ManagedFieldsEntry{{Manager: "x"}}
	decoded, err := Decode(object)
	if err != nil {
		t.Fatal(err)
	}
	want := membertest.ExportedService("b", "web").ObjectMeta
	want.ResourceVersion = ""
	if diff := cmp.Diff(want, decoded.Object.(*clusterset.ExportedService).ObjectMeta); diff != "" {
		t.Error(diff)
	}
}

func TestOtherTypesAreNotDecoded(t *testing.T) {
	if _, err := Decode(&corev1.Secret{}); err == nil || !strings.Contains(err.Error(), "Secret") {
		t.Errorf("got %v, want an error that names the type", err)
	}
}

// What is held of a slice is what can be restored after a restart: otherwise, the
// first list after it would change every slice.
func TestOnlyWhatIsImportedOfASliceIsHeld(t *testing.T) {
	want := membertest.ExportedSlice("b", "web", "web-1")
	sent := want.DeepCopy()
	sent.Labels["team"], sent.Annotations = "platform", map[string]string{"x": "y"}
	slices.Reverse(sent.Spec.Endpoints)
	for i := range sent.Spec.Endpoints {
		sent.Spec.Endpoints[i].NodeName = ptr.To("node")
		sent.Spec.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z1"}}}
	}
	if diff := cmp.Diff(admitted(t, want).Object, admitted(t, sent).Object); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

// R206: a member exports into the namespaces that its Secret allows, by default all but
// the reserved ones.
func TestNamespacesOfAMember(t *testing.T) {
	reserved := sets.New("kube-system", "mcs-system")
	for _, test := range []struct {
		namespace string
		allowed   sets.Set[string]
		want      bool
	}{
		{"shop", nil, true},
		{"kube-system", nil, false},
		{"mcs-system", nil, false},
		{"shop", sets.New("shop"), true},
		{"other", sets.New("shop"), false},
		{"kube-system", sets.New("shop"), false},
		{"kube-system", sets.New("kube-system"), true}, // explicitly
	} {
		policy := Policy{Self: "a", Member: "b", AllowedNamespaces: test.allowed, ReservedNamespaces: reserved}
		service, slice := membertest.ExportedService("b", "web"), membertest.ExportedSlice("b", "web", "web-1")
		service.Namespace, slice.Namespace = test.namespace, test.namespace
		for _, object := range []any{service, slice} {
			decoded, err := Decode(object)
			if err != nil {
				t.Fatal(err)
			}
			arrival := policy.Admit(decoded)
			if arrival.Admitted != test.want || !test.want && arrival.Err.Reason != ReasonNamespace {
				t.Errorf("%s with %v: admitted is %v, %v", test.namespace, test.allowed, arrival.Admitted, arrival.Err)
			}
			if _, retained := policy.Retain(decoded); retained != test.want {
				t.Errorf("%s with %v: retained is %v", test.namespace, test.allowed, retained)
			}
		}
	}
}
