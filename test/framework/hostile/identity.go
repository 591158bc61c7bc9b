// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"slices"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// Stranger is the ID of a cluster that no member may relay. Nothing of it is imported.
const Stranger = "stranger"

// identityAttacks are about who the member claims to be, or to speak for.
func identityAttacks() []Attack {
	claiming := func(name string, id func(Target) string) Attack {
		return Attack{Name: name, Reported: &Report{"Accepted", "WrongClusterID", nil}, Behavior: func(target Target) Behavior {
			return Behavior{
				Claims:   {Objects: slices.Values(ClaimsOf(id(target), target.ClusterSet))},
				Members:  {Objects: slices.Values([]string{Entry(id(target), target.ClusterSet, []string{target.Importer})})},
				Services: {Objects: slices.Values(target.lies(id(target)))},
			}
		}}
	}
	return []Attack{
		claiming("id-of-the-honest-member", func(target Target) string { return target.Honest }),
		claiming("id-of-the-importer", func(target Target) string { return target.Importer }),
		{
			Name: "objects-of-the-honest-member", Reported: refused("NotRelayed", "may relay other clusters"),
			Behavior: func(target Target) Behavior {
				return Behavior{
					Services: {Objects: slices.Values(target.lies(target.Honest))},
					Slices:   {Objects: slices.Values(target.lyingEndpoints(target.Honest))},
					Members: {Objects: slices.Values([]string{
						Entry(target.ID, target.ClusterSet, []string{target.Importer}),
						Entry(target.Honest, target.ClusterSet, nil, func(entry *clustersetv1alpha1.Member) { entry.Status.State = clustersetv1alpha1.MemberLost }),
					})},
				}
			},
		},
		{
			// A hub may relay others, but a direct member takes precedence.
			Name: "relayed-lies", Secret: map[string]string{clusterset.MemberSecretRelayFor: "*"},
			Reported: &Report{"Mutual", "DuplicateClusterID", []string{"know different clusters by the same ID"}},
			Behavior: func(target Target) Behavior {
				return Behavior{
					Services: {Objects: slices.Values(target.lies(target.Honest, target.Honest))},
					Slices:   {Objects: slices.Values(target.lyingEndpoints(target.Honest, target.Honest))},
					Members: {Objects: slices.Values([]string{
						Entry(target.ID, target.ClusterSet, []string{target.Importer, target.Honest}),
						Entry(target.Honest, target.ClusterSet, nil, func(entry *clustersetv1alpha1.Member) { entry.Status.State = clustersetv1alpha1.MemberLost }),
					})},
				}
			},
		},
		{
			// It may relay another cluster only.
			Name: "relayed-lies-without-permission", Secret: map[string]string{clusterset.MemberSecretRelayFor: "another"},
			Behavior: func(target Target) Behavior {
				stranger := Service(target.Namespace, "strange", Stranger, func(service *clustersetv1alpha1.ExportedService) { service.Spec.Path = []string{Stranger} })
				return Behavior{
					Services: {Objects: slices.Values(append(target.lies(target.Honest, target.Honest), stranger))},
					Slices:   {Objects: slices.Values(target.lyingEndpoints(target.Honest, target.Honest))},
					Members: {Objects: slices.Values([]string{
						Entry(target.ID, target.ClusterSet, []string{target.Importer, target.Honest, Stranger}),
						Entry(Stranger, target.ClusterSet, nil, func(entry *clustersetv1alpha1.Member) { entry.Status.State = clustersetv1alpha1.MemberConnected }),
					})},
				}
			},
		},
	}
}

// lies returns other exports of the services of the honest member, in the name of a
// cluster.
func (t Target) lies(cluster string, path ...string) []string {
	var objects []string
	for _, name := range t.Services {
		objects = append(objects, Service(t.Namespace, name, cluster, func(service *clustersetv1alpha1.ExportedService) {
			service.Spec.Type, service.Spec.Ports[0].Port, service.Spec.Path = clustersetv1alpha1.Headless, 1, path
		}))
	}
	return objects
}

// lyingEndpoints returns endpoints for them.
func (t Target) lyingEndpoints(cluster string, path ...string) []string {
	var objects []string
	for number, name := range t.Services {
		objects = append(objects, Slice(t.Namespace, name, name+"-ipv4", cluster, podAddresses(number, 1), func(slice *clustersetv1alpha1.ExportedEndpointSlice) { slice.Spec.Path = path }))
	}
	return objects
}
