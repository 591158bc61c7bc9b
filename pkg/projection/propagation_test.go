// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// R523: the propagation delay of endpoints of other clusters is measured when they are served.
// What was not on its way since it changed is not measured.
func TestPropagationIsMeasuredWhenEndpointsAreServed(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns", Name: "web"}
	var served []string
	publications := newPublications(newCluster(t).stores, func(_, _ exports.Share) {}, func(cluster string, changed time.Time) {
		served = append(served, cluster+" "+time.Time{}.Add(changed.Sub(epoch)).Format(time.TimeOnly))
	})
	// export publishes the exports of a cluster, with endpoints that changed at a time, which came
	// over a path.
	export := func(state clusterset.MemberState, at *time.Duration, path string, addresses ...string) {
		service := &clusterset.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web.b", UID: "web"},
			Spec:       clusterset.ExportedServiceSpec{Cluster: "b", Service: "web", ExportedAt: metav1.NewTime(epoch)},
		}
		exported := member.Export{State: state, Export: clusterset.Export{Service: service}}
		if len(addresses) > 0 {
			slice := &clusterset.ExportedEndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1.b", UID: "web-1"},
				Spec:       clusterset.ExportedEndpointSliceSpec{Cluster: "b", Service: "web", Path: strings.Fields(path)},
			}
			if at != nil {
				slice.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(epoch.Add(*at)))
			}
			for _, address := range addresses {
				slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
			}
			exported.Slices = append(exported.Slices, slice)
		}
		publications.publish(name, []member.Export{exported})
	}
	at := func(seconds int) *time.Duration { return ptr.To(time.Duration(seconds) * time.Second) }
	for _, step := range []struct {
		what  string
		do    func()
		count int
	}{
		{"an import that is new here", func() { export(clusterset.MemberConnected, at(10), "b", "10.0.0.1") }, 0},
		{"endpoints that changed", func() { export(clusterset.MemberConnected, at(20), "b", "10.0.0.1", "10.0.0.2") }, 1},
		{"endpoints that did not change", func() { export(clusterset.MemberConnected, at(25), "b", "10.0.0.1", "10.0.0.2") }, 0},
		{"endpoints on another path", func() { export(clusterset.MemberConnected, at(25), "b h", "10.0.0.1", "10.0.0.2") }, 0},
		{"endpoints on another path that admits fewer", func() { export(clusterset.MemberConnected, at(25), "b", "10.0.0.2") }, 0},
		{"endpoints that are not admitted any more", func() { export(clusterset.MemberConnected, at(25), "b", "10.0.0.1") }, 0},
		{"endpoints that are admitted again", func() { export(clusterset.MemberConnected, at(25), "b", "10.0.0.1", "10.0.0.2") }, 0},
		{"a change at an unknown time", func() { export(clusterset.MemberConnected, nil, "b", "10.0.0.1") }, 0},
		{"a change after that", func() { export(clusterset.MemberConnected, at(27), "b", "10.0.0.3") }, 1},
		{"no endpoints", func() { export(clusterset.MemberConnected, nil, "b") }, 0},
		{"endpoints of this cluster", func() { export(clusterset.MemberLocal, at(30), "", "10.0.0.3") }, 0},
		{"nothing", func() { publications.publish(name, nil) }, 0},
		{"an import that was disabled", func() { export(clusterset.MemberConnected, at(40), "b", "10.0.0.4") }, 0},
	} {
		before := len(served)
		step.do()
		if got := served[before:]; len(got) != step.count {
			t.Errorf("%s: %v is measured", step.what, got)
		}
	}
	if want := []string{"b 00:00:20", "b 00:00:27"}; !slices.Equal(served, want) {
		t.Errorf("got %v, want %v", served, want)
	}
}
