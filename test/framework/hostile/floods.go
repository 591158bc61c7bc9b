// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// flapping is how many events per second a member sends that keeps changing, of how
// many Services.
const (
	flapping         = 1000
	flappingServices = 20
	// flappingPorts is how many events per second there are with many ports.
	flappingPorts = 5
	// largeServices with 1,000 endpoints each are as many endpoints as a member may export.
	largeServices = 50
	// clustersBehind is how many clusters a hub relays that are others every time.
	clustersBehind = 400
)

// floodAttacks are about how often things change.
func floodAttacks() []Attack {
	return []Attack{
		{
			Name: "flapping-endpoints", Imported: flappingServices, Sent: 5 * flapping,
			Behavior: func(target Target) Behavior {
				slice := func(number int) string {
					ready := number/flappingServices%2 == 0
					return target.slice(number%flappingServices, podAddresses(0, 50), func(slice *clustersetv1alpha1.ExportedEndpointSlice) {
						for i := range slice.Spec.Endpoints {
							slice.Spec.Endpoints[i].Conditions.Ready = ptr.To(ready)
						}
					})
				}
				return Behavior{Services: target.services(flappingServices), Slices: {
					Objects: numbered(flappingServices, slice), Rate: flapping,
					Then: func(number int) string { return Event("MODIFIED", Slices, slice(number)) },
				}}
			},
		},
		{
			// Everything that it may export, again and again.
			Name: "flapping-large-endpoint-slices", Imported: largeServices, Sent: 2 * largeServices,
			Behavior: func(target Target) Behavior {
				var objects []string // ready and not ready in turns
				for number := range 2 * largeServices {
					objects = append(objects, target.slice(number%largeServices, podAddresses(1000*(number%largeServices), 1000), func(slice *clustersetv1alpha1.ExportedEndpointSlice) {
						for i := range slice.Spec.Endpoints {
							slice.Spec.Endpoints[i].Conditions.Ready = ptr.To(number < largeServices)
						}
					}))
				}
				return Behavior{Services: target.services(largeServices), Slices: {
					Objects: slices.Values(objects[:largeServices]),
					Then:    func(number int) string { return Event("MODIFIED", Slices, objects[number%len(objects)]) },
				}}
			},
		},
		{
			// Each of them has a new import and a new derived Service every time.
			Name: "flapping-services", Imported: -1, Sent: flapping,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Rate: flapping, Then: func(number int) string {
					return Event([]string{"ADDED", "DELETED"}[number/flappingServices%2], Services, target.service(number%flappingServices))
				}}}
			},
		},
		{
			// The imports of the honest member change with every event.
			Name: "flapping-conflicts", Imported: -1, Sent: 5 * flapping,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Rate: flapping, Then: func(number int) string {
					return Event("MODIFIED", Services, Service(target.Namespace, target.Services[number%len(target.Services)], target.ID, func(service *clustersetv1alpha1.ExportedService) {
						service.Spec.Ports[0].Port = int32(1 + number%60_000) //nolint:gosec // a port
						service.Spec.Type = []clustersetv1alpha1.ServiceType{clustersetv1alpha1.ClusterSetIP, clustersetv1alpha1.Headless}[number/len(target.Services)%2]
					}))
				}}}
			},
		},
		{
			// The imports of the honest member get as many ports as they may have, and another
			// one with every event.
			Name: "flapping-ports", Imported: -1, Sent: 2 * flappingPorts,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Rate: flappingPorts, Then: func(number int) string {
					return Event("MODIFIED", Services, Service(target.Namespace, target.Services[number%len(target.Services)], target.ID, withPorts(clusterset.MaxPorts, number)))
				}}}
			},
		},
		{
			Name: "flood-of-events", Imported: 1, Sent: flapping,
			Behavior: func(target Target) Behavior {
				events := []string{
					Event("MODIFIED", Services, target.service(0)),
					Event("MODIFIED", Services, target.service(0, func(service *clustersetv1alpha1.ExportedService) { service.Spec.Ports[0].Port = 81 })),
				}
				return Behavior{Services: {Then: func(number int) string { return events[number%2] }}}
			},
		},
		{
			Name: "flood-of-refused-objects", Reported: refused("Invalid"), Sent: flapping,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Rate: 2 * flapping, Then: func(number int) string {
					return Event("MODIFIED", Services, target.service(number%5000, func(service *clustersetv1alpha1.ExportedService) { service.Spec.Ports[0].Port = 0 }))
				}}}
			},
		},
		{
			// It would be read much faster than it may be.
			Name: "flood-of-bookmarks", Sent: 50, Lasts: 5 * time.Second, Secret: map[string]string{clusterset.MemberSecretMemoryLimit: "1Mi"},
			Behavior: func(Target) Behavior {
				bookmark := Bookmark(Services) + strings.Repeat(" ", 16<<10)
				return Behavior{Services: {Then: func(int) string { return bookmark }}}
			},
		},
		{
			Name: "flapping-identity", Imported: -1, Sent: flapping,
			Behavior: func(target Target) Behavior {
				claims := ClaimsOf(target.ID, target.ClusterSet)
				return Behavior{Services: target.services(flappingServices), Claims: {Objects: slices.Values(claims), Rate: flapping, Then: func(number int) string {
					return Event("MODIFIED", Claims, ClaimsOf([]string{"another", target.ID}[number%2], target.ClusterSet)[0])
				}}}
			},
		},
		{
			// Little of it fits into buffers, so that it can be seen how much is read.
			Name: "flood-of-claims", Imported: -1, Sent: 20, Most: 2000, Lasts: 5 * time.Second,
			Behavior: func(target Target) Behavior {
				padding := strings.Repeat(" ", 16<<10)
				return Behavior{Claims: {Objects: slices.Values(ClaimsOf(target.ID, target.ClusterSet)), Then: func(number int) string {
					return Event("MODIFIED", Claims, ClaimsOf(target.ID, []string{"another", target.ClusterSet}[number%2])[1]) + padding
				}}}
			},
		},
		{
			// With every response to a probe, it relays other clusters.
			Name: "flapping-clusters-behind-a-hub", Imported: -1, Sent: 3 * clustersBehind, Secret: map[string]string{clusterset.MemberSecretRelayFor: "*"},
			Behavior: func(target Target) Behavior {
				var probes atomic.Int32
				return Behavior{Members: {Objects: func(yield func(string) bool) {
					probe := probes.Add(1)
					for number := range clustersBehind {
						if !yield(Entry(fmt.Sprintf("%s-%d-%d", target.ID, probe, number), target.ClusterSet, nil, func(entry *clustersetv1alpha1.Member) {
							entry.Status.State, entry.Status.LastSeen = clustersetv1alpha1.MemberConnected, ptr.To(metav1.Now())
						})) {
							return
						}
					}
					yield(Entry(target.ID, target.ClusterSet, []string{target.Importer}))
				}}}
			},
		},
		{
			// All members are evaluated with every change of either.
			Name: "flapping-cidrs", Imported: -1, Sent: flapping,
			Behavior: func(target Target) Behavior {
				var probes atomic.Int32
				claims := ClaimsOf(target.ID, target.ClusterSet)
				return Behavior{
					Services: target.services(flappingServices),
					Claims: {Objects: slices.Values(claims), Rate: flapping, Then: func(number int) string {
						return Event("MODIFIED", Claims, ClaimsOf(target.ID, []string{"another", target.ClusterSet}[number%2])[1])
					}},
					Members: {Objects: func(yield func(string) bool) {
						number := int(probes.Add(1))
						yield(Entry(target.ID, target.ClusterSet, []string{target.Importer}, func(entry *clustersetv1alpha1.Member) {
							entry.Status.ClusterSetIPCIDRs = slices.Repeat([]string{"0.0.0.0/0", "128.0.0.0/1"}, 8)[number%2 : 15+number%2]
						}))
					}},
				}
			},
		},
		{
			// With every response to a probe, it is another cluster.
			Name: "flapping-cluster", Imported: -1, Sent: 5,
			Behavior: func(target Target) Behavior {
				var probes atomic.Int32
				return Behavior{Services: target.services(1), Members: {Objects: func(yield func(string) bool) {
					yield(Entry(target.ID, target.ClusterSet, []string{target.Importer}, func(entry *clustersetv1alpha1.Member) {
						entry.Status.ClusterUID = types.UID(fmt.Sprintf("uid-%d", probes.Add(1)))
					}))
				}}}
			},
		},
	}
}
