// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

func TestPluginsThatLackAResourceAreUnserved(t *testing.T) {
	everything := func(without string) *metav1.APIResourceList {
		list := &metav1.APIResourceList{}
		for _, resources := range admissionResources {
			for _, name := range resources {
				if name != without {
					list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
				}
			}
		}
		return list
	}
	all := []string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"}
	for _, test := range []struct {
		name   string
		served *metav1.APIResourceList
		want   []string
	}{
		{name: "everything is served", served: everything("")},
		{name: "one of two resources is missing", served: everything("mutatingadmissionpolicybindings"), want: all[:1]},
		{name: "the group is not served", served: nil, want: all},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := unservedPlugins(test.served)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A plugin with unknown resources would reject every write on a host cluster that
// does not serve them.
func TestResourcesOfAllPluginsAreKnown(t *testing.T) {
	const readsNamespacesOnly = "NamespaceLifecycle"
	for _, plugin := range genericoptions.NewAdmissionOptions().RecommendedPluginOrder {
		if admissionResources[plugin] == nil && plugin != readsNamespacesOnly {
			t.Errorf("the resources that %s watches are unknown", plugin)
		}
	}
}
