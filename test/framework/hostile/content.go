// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// contentAttacks are about what objects contain.
func contentAttacks() []Attack {
	return []Attack{
		unreadable("wrong-kinds", func(target Target, number int) string {
			return []string{
				`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"shop"},"data":{"a":"AAAA"}}`,
				Event("", Services, target.service(0))[len(`{"type":"","object":`):], `[]`, `null`, `7`, `"text"`, `{"apiVersion":7,"kind":{}}`,
			}[number%7]
		}),
		unreadable("deep-json", func(_ Target, number int) string {
			return `{"metadata":{"annotations":` + strings.Repeat([]string{"[", `{"a":`}[number%2], 200_000)
		}),
		{
			// It could be decoded, and no field is meant.
			Name: "deep-json-in-an-unknown-field", Reported: unsynced("ResponseTooLarge", "larger than the limit"),
			Behavior: func(target Target) Behavior {
				deep := `{"unknown":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + ","
				return Behavior{Services: {Objects: slices.Values([]string{deep + target.service(0)[1:]})}}
			},
		},
		unreadable("numbers-that-are-none", func(target Target, number int) string {
			port := []string{"NaN", "Infinity", "1e400", "-1e400", "9223372036854775808", "80.5", "0x50", "1e9999999999"}[number%8]
			return strings.Replace(target.service(0), `"port":80`, `"port":`+port, 1)
		}),
		{
			Name: "duplicate-keys", Reported: refused("NotRelayed"),
			Behavior: func(target Target) Behavior {
				twice := func(key, first, second string) func(string) string {
					return func(object string) string {
						return strings.Replace(object, fmt.Sprintf("%q:%q", key, first), fmt.Sprintf("%q:%q,%q:%q", key, first, key, second), 1)
					}
				}
				name := target.Services[0] + "."
				return Behavior{Services: {Objects: slices.Values([]string{
					twice("cluster", target.ID, target.Honest)(target.service(0)),
					twice("name", name+target.ID, name+target.Honest)(twice("cluster", target.ID, target.Honest)(Service(target.Namespace, target.Services[0], target.ID))),
					target.service(2), target.service(2), target.service(2),
				})}}
			},
			Imported: 1,
		},
		{
			Name: "control-characters", Reported: refused("Invalid"), Imported: 1,
			Behavior: func(target Target) Behavior {
				const dirt = "\x00\x1b[2J\x1b]0;owned\x07\r\n\u202e\u2028kubectl"
				dirty := func(change func(*clustersetv1alpha1.ExportedService)) string { return target.service(1, change) }
				return Behavior{Services: {Objects: slices.Values([]string{
					target.service(0, func(service *clustersetv1alpha1.ExportedService) {
						service.Spec.ExportedAnnotations = map[string]string{"text": dirt}
					}),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Name = dirt }),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Namespace = dirt }),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Spec.Service = dirt }),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Spec.Cluster = dirt }),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Spec.Ports[0].Name = dirt }),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Labels[dirt] = dirt }),
					dirty(func(service *clustersetv1alpha1.ExportedService) { service.Spec.Path = []string{dirt} }),
				})}}
			},
		},
		{
			// The name of the ClusterSet is shown in the Member.
			Name: "text-as-clusterset", Reported: &Report{"Accepted", "WrongClusterSet", nil},
			Behavior: func(target Target) Behavior {
				return Behavior{
					Claims:   {Objects: slices.Values(ClaimsOf(target.ID, strings.Repeat("\u202ekubectl\r\n", 3000)))},
					Services: {Objects: slices.Values(target.lies(target.ID))},
				}
			},
		},
		{
			Name: "versions-that-go-back", Imported: 1, Sent: 7,
			Behavior: func(target Target) Behavior {
				versions := []string{"9", "3", "-1", "0", "", "18446744073709551616", "abc"}
				return Behavior{Services: {Rate: 100, Then: func(number int) string {
					return Event("MODIFIED", Services, target.service(0, func(service *clustersetv1alpha1.ExportedService) {
						service.ResourceVersion = versions[number%len(versions)]
					}))
				}}}
			},
		},
		{
			// The exports of the honest member are older than the membership.
			Name: "backdated-exports", Imported: -1,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: slices.Values(target.overtaking(time.Unix(31_536_000, 0)))}}
			},
		},
		{
			Name: "exports-of-the-future", Imported: -1,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: slices.Values(target.overtaking(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)))}}
			},
		},
		{
			Name: "forbidden-addresses", Reported: refused("ForbiddenAddress", "endpoints are ignored"), Imported: 1,
			Behavior: func(target Target) Behavior {
				var objects []string
				for number, address := range slices.Concat(ForbiddenAddresses(), target.Own) {
					name := fmt.Sprintf("slice-%d", number)
					objects = append(objects, Slice(target.Namespace, "service-0", name, target.ID, []string{address}, func(slice *clustersetv1alpha1.ExportedEndpointSlice) {
						if strings.Contains(address, ":") {
							slice.Spec.AddressType = discoveryv1.AddressTypeIPv6
						}
					}))
				}
				return Behavior{Services: target.services(1), Slices: {Objects: slices.Values(objects)}}
			},
		},
		{
			Name: "clusterset-ip-outside-the-range", Reported: refused("ForbiddenClusterSetIP", "outside of the ClusterSet IP range"), Imported: 1,
			Behavior: func(target Target) Behavior {
				return Behavior{Services: {Objects: slices.Values([]string{target.service(0, deciding("203.0.113.7", target.ID, longAgo))})}}
			},
		},
		{
			// In a namespace that it may export into, it receives most of the traffic.
			Name: "endpoints-for-services-of-others", Imported: -1,
			Behavior: func(target Target) Behavior {
				var services, endpoints []string
				for number, name := range target.Services {
					services = append(services, Service(target.Namespace, name, target.ID))
					endpoints = append(endpoints, Slice(target.Namespace, name, name, target.ID, podAddresses(number*100, 100)))
				}
				return Behavior{Services: {Objects: slices.Values(services)}, Slices: {Objects: slices.Values(endpoints)}}
			},
		},
		{
			Name: "forbidden-namespaces", Reported: refused("ForbiddenNamespace", "may not export into namespace"),
			Behavior: func(target Target) Behavior {
				var services, endpoints []string
				for _, namespace := range []string{"kube-system", "kube-public", "kube-node-lease", "mcs-system", "mcs-storage"} {
					services = append(services, Service(namespace, "kube-dns", target.ID))
					endpoints = append(endpoints, Slice(namespace, "kube-dns", "kube-dns", target.ID, podAddresses(0, 1)))
				}
				return Behavior{Services: {Objects: slices.Values(services)}, Slices: {Objects: slices.Values(endpoints)}}
			},
		},
		{
			// Both have the same derived Service.
			Name: "names-that-collide", Imported: 1,
			Behavior: func(target Target) Behavior {
				var services, endpoints []string
				for _, name := range collidingNames {
					services = append(services, Service(collidingNamespace, name, target.ID))
					endpoints = append(endpoints, Slice(collidingNamespace, name, name, target.ID, podAddresses(0, 3)))
				}
				return Behavior{Services: {Objects: slices.Values(services)}, Slices: {Objects: slices.Values(endpoints)}}
			},
		},
	}
}

// collidingNames are Services in collidingNamespace whose derived Services have the
// same name: the first 50 bits of their hashes are equal.
var collidingNames = []string{"c000l6lhenvai4", "c000ogtift555u"}

const collidingNamespace = "shop"

// unreadable returns an attack in which nothing can be decoded.
func unreadable(name string, object func(target Target, number int) string) Attack {
	return Attack{Name: name, Sent: 2, Behavior: func(target Target) Behavior {
		all := numbered(10, func(number int) string { return object(target, number) })
		return Behavior{Services: {Objects: all}, Slices: {Objects: all, NoStreaming: true}}
	}}
}

// overtaking returns exports of the services of the honest member that differ from
// those, as of a time.
func (t Target) overtaking(since time.Time) []string {
	var objects []string
	for _, name := range t.Services {
		objects = append(objects, Service(t.Namespace, name, t.ID, func(service *clustersetv1alpha1.ExportedService) {
			service.CreationTimestamp = metav1.NewTime(since)
			service.Spec.ExportedAt, service.Spec.EffectiveAt = metav1.NewTime(since), metav1.NewTime(since)
			service.Spec.Type, service.Spec.Ports[0].Port = clustersetv1alpha1.Headless, 1
		}))
	}
	return objects
}

// ForbiddenAddresses returns addresses that no endpoint of another cluster has.
func ForbiddenAddresses() []string {
	return []string{
		"127.0.0.1", "127.255.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "239.1.2.3", "169.254.169.254", "169.254.0.1",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "243.1.2.3",
		"::", "::1", "fe80::1", "ff02::1", "fd00:ec2::254", "fd20:ce::254", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1",
	}
}
