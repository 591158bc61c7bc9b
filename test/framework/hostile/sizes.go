// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// sizeAttacks are about how much there is, or how large it is.
func sizeAttacks() []Attack {
	return []Attack{
		{
			Name: "many-services", Reported: unsynced("TooManyExports", "more than 10000 exportedservices"), Sent: 10_000,
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
			Name: "modified-without-added", Reported: unsynced("TooManyExports"), Sent: 10_000,
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
				return Behavior{Services: target.services(200), Slices: {Objects: numbered(400, func(number int) string {
					service := fmt.Sprintf("service-%d", number/2)
					return Slice(target.Namespace, service, fmt.Sprintf("%s-%d", service, number%2), target.ID, podAddresses(number*1000, 1000))
				})}}
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
				return Behavior{Slices: {Objects: numbered(60, func(number int) string {
					return target.slice(number, podAddresses(0, 1000), manyAddresses)
				})}}
			},
		},
		{
			Name: "large-endpoint-slices-with-bad-addresses", Reported: refused("Invalid"),
			Behavior: func(target Target) Behavior {
				return Behavior{Slices: {Objects: numbered(60, func(number int) string {
					return target.slice(number, slices.Repeat([]string{"bad"}, 1000), manyAddresses)
				})}}
			},
		},
		{
			Name: "large-service", Reported: refused("Invalid", "exportedAnnotations"),
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: slices.Values([]string{target.service(0, annotated(2<<20))})}}
			},
		},
		{
			Name: "large-members-list", Reported: &Report{"Reachable", "ResponseTooLarge", nil},
			Behavior: func(target Target) Behavior {
				return Behavior{Members: {Objects: repeated(Entry(target.ID, target.ClusterSet, []string{target.Importer}))}}
			},
		},
		{
			// It fits, and is read again with every probe.
			Name: "many-peers", Reported: &Report{"Mutual", "ListsOthers", []string{"peer-0"}},
			Behavior: func(target Target) Behavior {
				peers := slices.Collect(numbered(60_000, func(number int) string { return fmt.Sprintf("peer-%d", number) }))
				return Behavior{Members: {Objects: slices.Values([]string{Entry(target.ID, target.ClusterSet, append(peers, target.Importer))})}}
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
