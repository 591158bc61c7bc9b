// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
)

func claim(name, value string) *multiclusterv1.ClusterClaim {
	return &multiclusterv1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid of " + name), CreationTimestamp: metav1.NewTime(epoch), Generation: 3,
			Labels: map[string]string{"of": name}, ResourceVersion: "7", Finalizers: []string{"x/y"},
		},
		Spec: multiclusterv1.ClusterClaimSpec{Value: value},
	}
}

// R117: the cluster ID is available under the name in the KEP and under the upstream name.
func TestClaimsArePublishedAsProperties(t *testing.T) {
	shown := properties([]*multiclusterv1.ClusterClaim{
		claim("id.k8s.io", "a"), claim("clusterset.k8s.io", "set"), claim("example.com/x", "y"), claim("cluster.clusterset.k8s.io", "another id"),
	})
	values := map[string]string{}
	uids := map[types.UID]string{}
	for _, property := range shown {
		values[property.Name] = property.Spec.Value
		if other, taken := uids[property.UID]; taken {
			t.Errorf("%s and %s have the same UID", property.Name, other)
		}
		uids[property.UID] = property.Name
		if property.ResourceVersion != "" || property.Finalizers != nil || !property.CreationTimestamp.Time.Equal(epoch) || property.Generation != 3 {
			t.Errorf("%s has metadata %+v", property.Name, property.ObjectMeta)
		}
	}
	want := map[string]string{"id.k8s.io": "a", "cluster.clusterset.k8s.io": "a", "clusterset.k8s.io": "set", "example.com/x": "y"}
	if diff := cmp.Diff(want, values); diff != "" || len(shown) != len(want) {
		t.Errorf("%d properties: %s", len(shown), diff)
	}
}

// The UID must be the same in every replica and differ between clusters.
func TestUIDOfTheClusterIDPropertyIsStable(t *testing.T) {
	uid := func(claims ...*multiclusterv1.ClusterClaim) types.UID {
		for _, property := range properties(claims) {
			if property.Name == about.ClusterIDProperty {
				return property.UID
			}
		}
		return ""
	}
	one, other := claim("id.k8s.io", "a"), claim("id.k8s.io", "a")
	other.UID = "another"
	if uid(one) == "" || uid(one) != uid(one.DeepCopy()) || uid(one) == uid(other) {
		t.Errorf("the UIDs are %s, %s, %s", uid(one), uid(one.DeepCopy()), uid(other))
	}
}

// R461: what other clusters see of the ClusterClaims is limited.
func TestReportedProperties(t *testing.T) {
	claims := []*multiclusterv1.ClusterClaim{
		claim(multicluster.ClusterIDClaim, "a"), claim(multicluster.ClusterSetClaim, "fleet"), claim("b.example.com", "2"), claim("a.example.com", "1"),
		claim("empty.example.com", ""), claim("long.example.com", strings.Repeat("x", clusterset.MaxPropertyValue+1)),
	}
	want := []clusterset.ClusterProperty{{Name: "a.example.com", Value: "1"}, {Name: "b.example.com", Value: "2"}}
	if got := reported(claims); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range clusterset.MaxProperties {
		claims = append(claims, claim(fmt.Sprintf("c%d.example.com", i), "3"))
	}
	if got := reported(claims); len(got) != clusterset.MaxProperties || got[0] != want[0] {
		t.Errorf("got %d properties, the first is %v", len(got), got[0])
	}
}
