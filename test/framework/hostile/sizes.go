// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// sharing is how many services have a shared ClusterSet IP each: more than may have a node port.
const sharing = 300

// sizeAttacks are about how much there is, or how large it is.
func sizeAttacks() []Attack {
	return []Attack{
		{
			// It is not read again and again. What was sent, but not read, is buffered.
			Name: "many-services", Reported: unsynced("TooManyExports", "more than 10000 exportedservices"), Sent: 10_000, Most: 25_000, Lasts: 12 * time.Second,
			Behavior: func(target Target) Behavior { return Behavior{Services: target.services(1 << 40)} },
		},
		{
			// They are not imported, since their Services do not exist.
			Name: "many-endpoint-slices", Reported: unsynced("TooManyExports", "more than 50000 exportedendpointslices"), Sent: 50_000,
			Behavior: func(target Target) Behavior {
				return Behavior{Slices: {Objects: numbered(1<<40, func(number int) string { return target.slice(number, nil) })}}
			},
		},
		{
			Name: "modified-without-added", Reported: unsynced("TooManyExports"), Sent: 2_000,
			Secret: map[string]string{clusterset.MemberSecretServiceLimit: "100"}, Imported: 100,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Then: func(number int) string { return Event("MODIFIED", Services, target.service(number)) }}}
			},
		},
		{
			Name: "services-beyond-the-limit", Reported: refused("ServiceLimit", "raise service-limit"), Imported: 200,
			Secret:   map[string]string{clusterset.MemberSecretServiceLimit: "200"},
			Behavior: func(target Target) Behavior { return Behavior{Services: target.services(2000)} },
		},
		{
			// 200 Services with 2,000 endpoints each.
			Name: "endpoints-beyond-the-limit", Reported: refused("EndpointLimit", "raise endpoint-limit"), Imported: 200,
			Behavior: func(target Target) Behavior {
				slice := func(number int) string {
					return Slice(target.Namespace, "service-0", fmt.Sprintf("service-0-%d", number), target.ID, podAddresses(number*1000, 1000))
				}
				return Behavior{Services: target.services(200), Slices: {Objects: copies(200, slice(0), slice(1))}}
			},
		},
		{
			Name: "memory-beyond-the-limit", Reported: refused("MemoryLimit", "raise memory-limit"), Imported: 10,
			Secret: map[string]string{clusterset.MemberSecretMemoryLimit: "16Mi"},
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: numbered(100, func(number int) string { return target.service(number, annotated(200<<10)) })}}
			},
		},
		{
			// Each would decode to several MiB.
			Name: "large-endpoint-slices", Reported: refused("ObjectTooLarge", "bytes of memory"),
			Behavior: func(target Target) Behavior {
				return Behavior{Slices: {Objects: copies(20, target.slice(0, podAddresses(0, 1000), manyAddresses))}}
			},
		},
		{
			Name: "large-endpoint-slices-with-bad-addresses", Reported: refused("Invalid"),
			Behavior: func(target Target) Behavior {
				return Behavior{Slices: {Objects: copies(60, target.slice(0, slices.Repeat([]string{"bad"}, 1000), manyAddresses))}}
			},
		},
		{
			Name: "large-service", Reported: refused("Invalid", "exportedAnnotations"),
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: slices.Values([]string{target.service(0, annotated(2<<20))})}}
			},
		},
		{
			Name: "too-many-ports", Reported: refused("Invalid", "spec.ports"), Imported: 1,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: slices.Values([]string{
					target.service(0, withPorts(clusterset.MaxPorts, 0)), target.service(1, withPorts(clusterset.MaxPorts+1, 0)),
				})}}
			},
		},
		{
			// Each of them could have a node port.
			Name: "health-check-node-ports", Imported: sharing, Sent: sharing,
			Secret: map[string]string{clusterset.MemberSecretAllocationCIDRs: "243.9.0.0/16"},
			Behavior: func(target Target) Behavior {
				return Behavior{
					Services: {Objects: numbered(sharing, func(number int) string {
						return target.service(number, deciding(fmt.Sprintf("243.9.%d.%d", number/250, number%250+1), target.ID, time.Now()))
					})},
					Members: {Objects: slices.Values([]string{Entry(target.ID, target.ClusterSet, []string{target.Importer, target.Honest}, func(entry *clustersetv1alpha1.Member) {
						entry.Status.ClusterSetIPCIDRs = []string{"243.9.0.0/16"}
					})})},
				}
			},
		},
		{
			Name: "large-members-list", Reported: &Report{"Reachable", "ResponseTooLarge", nil},
			Behavior: func(target Target) Behavior {
				return Behavior{Members: {Objects: repeated(Entry(target.ID, target.ClusterSet, []string{target.Importer}))}}
			},
		},
		{
			// It fits into a response, and is read again with every probe. A thousand of them
			// could be named in a condition, if its message were not limited.
			Name: "many-peers", Reported: refused("InvalidMember", "status.peers has 60001 items"),
			Behavior: func(target Target) Behavior {
				peers := slices.Collect(numbered(60_000, func(number int) string {
					if number < 1000 {
						return fmt.Sprintf("peer-%0200d", number)
					}
					return fmt.Sprintf("peer-%d", number)
				}))
				return Behavior{Members: {Objects: slices.Values([]string{Entry(target.ID, target.ClusterSet, append([]string{target.Importer}, peers...))})}}
			},
		},
		{
			Name: "many-cidrs", Reported: refused("InvalidMember", "status.clusterSetIPCIDRs has 100000 items"), Imported: 1,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: target.services(1), Members: target.manyCIDRs(100_000, 0)}
			},
		},
		{
			// The Member is computed again with every event.
			Name: "many-cidrs-with-events", Reported: refused("InvalidMember", "status.clusterSetIPRanges has 50000 items"), Imported: 1, Sent: flapping,
			Behavior: func(target Target) Behavior {
				return Behavior{
					Services: {Objects: target.services(1).Objects, Rate: flapping, Then: func(number int) string {
						return Event("MODIFIED", Services, target.service(0, func(service *clustersetv1alpha1.ExportedService) {
							service.Spec.Ports[0].Port = int32(1 + number%60_000) //nolint:gosec // a port
						}))
					}},
					Members: target.manyCIDRs(50_000, 50_000),
				}
			},
		},
		{
			Name: "many-claims", Reported: &Report{"Accepted", "ResponseTooLarge", nil},
			Behavior: func(target Target) Behavior {
				return Behavior{Claims: {Objects: numbered(1<<40, func(number int) string {
					return claim(fmt.Sprintf("claim-%d.example.com", number), target.ID)
				})}}
			},
		},
	}
}

// withPorts gives an export many ports with long application protocols. The first has another
// number every time.
func withPorts(count, round int) func(*clustersetv1alpha1.ExportedService) {
	return func(service *clustersetv1alpha1.ExportedService) {
		service.Spec.Ports = nil
		for number := range count {
			service.Spec.Ports = append(service.Spec.Ports, clustersetv1alpha1.ServicePort{
				Name: fmt.Sprintf("port-%d", number), Port: int32(1000 + number), AppProtocol: ptr.To("example.com/" + strings.Repeat("x", 60)), //nolint:gosec // a port
			})
		}
		service.Spec.Ports[0].Port = int32(10_000 + round%50_000) //nolint:gosec // a port
	}
}

// copies returns copies of objects of service-0 for service-0, service-1 and so on:
// encoding each of them would take longer than the attack.
func copies(services int, objects ...string) iter.Seq[string] {
	return numbered(services*len(objects), func(number int) string {
		return strings.ReplaceAll(objects[number%len(objects)], "service-0", fmt.Sprintf("service-%d", number/len(objects)))
	})
}

// manyCIDRs returns an entry with many allocation CIDRs and ClusterSet IP ranges, each
// before those that precede it.
func (t Target) manyCIDRs(cidrs, ranges int) Resource {
	addresses := func(count int) []string {
		return slices.Collect(numbered(count, func(number int) string {
			return fmt.Sprintf("243.%d.%d.%d/32", 250-number>>16, 255-number>>8&0xff, 255-number&0xff)
		}))
	}
	return Resource{Objects: slices.Values([]string{Entry(t.ID, t.ClusterSet, []string{t.Importer, t.Honest}, func(entry *clustersetv1alpha1.Member) {
		entry.Status.ClusterSetIPCIDRs, entry.Status.ClusterSetIPRanges = addresses(cidrs), addresses(ranges)
	})})}
}

// annotated adds an exported annotation of a size.
func annotated(size int) func(*clustersetv1alpha1.ExportedService) {
	return func(service *clustersetv1alpha1.ExportedService) {
		service.Spec.ExportedAnnotations = map[string]string{"text": strings.Repeat("x", size)}
	}
}

// manyAddresses repeats the address of each endpoint as often as is valid.
func manyAddresses(slice *clustersetv1alpha1.ExportedEndpointSlice) {
	for i := range slice.Spec.Endpoints {
		slice.Spec.Endpoints[i].Addresses = slices.Repeat(slice.Spec.Endpoints[i].Addresses, 100)
	}
}
