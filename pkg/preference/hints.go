// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Nowhere is the zone, and the node, that endpoints are hinted for which should not be used.
// No zone and no node has this name.
const Nowhere = "none.clusterset.mcs-apiserver.io"

// maxZones is for how many zones the API allows an endpoint to be hinted.
const maxZones = 8

// Endpoint is an endpoint of a service as it is imported.
type Endpoint struct {
	// Cluster is the ID of the cluster that the endpoint is in.
	Cluster string
	// Ports identifies the ports that it serves: endpoints with the same ones have the same
	// text.
	Ports string
	// Endpoint has the node name of endpoints of this cluster only, and the hints that it is
	// imported with now, if it is.
	discoveryv1.Endpoint
}

// Hinted are the hints of endpoints.
type Hinted struct {
	// Hints are those of the endpoints, in their order. All have at least one zone: kube-proxy
	// ignores all hints if a ready endpoint has none.
	Hints []*discoveryv1.EndpointHints
	// Uncovered are zones for which no ready endpoint is hinted at some port, because there are
	// fewer endpoints than it would take. Clients there use all clusters.
	Uncovered []string
}

// HintsFor returns hints with which kube-proxy uses the endpoints that are in the active tier, in
// all zones of this cluster. Endpoints that are not are hinted for Nowhere. If no endpoint of
// the tier is ready any more, kube-proxy uses all others by itself.
//
// With the traffic distribution of the Service, endpoints of the tier are preferred that are in
// the zone of the client, or on its node; zones without any use all of the tier.
//
// zones are sorted. An endpoint can be hinted for a few zones only, so that more are spread over
// the endpoints. These keep the zones that they are hinted for now, if possible: a change of
// one endpoint should not change others.
func HintsFor(inTier func(cluster string) bool, zones []string, distribution string, endpoints []Endpoint) Hinted {
	assigned := make([][]string, len(endpoints))
	groups, order := map[string][]int{}, []string(nil)
	for i, endpoint := range endpoints {
		if !inTier(endpoint.Cluster) {
			continue
		}
		if groups[endpoint.Ports] == nil {
			order = append(order, endpoint.Ports)
		}
		groups[endpoint.Ports] = append(groups[endpoint.Ports], i)
	}
	var result Hinted
	for _, ports := range order {
		result.Uncovered = append(result.Uncovered, assign(assigned, groups[ports], zones, prefersZone(distribution), endpoints)...)
	}
	slices.Sort(result.Uncovered)
	result.Uncovered = slices.Compact(result.Uncovered)
	for i, endpoint := range endpoints {
		result.Hints = append(result.Hints, newHints(assigned[i], inTier(endpoint.Cluster), distribution, endpoint))
	}
	return result
}

func prefersZone(distribution string) bool {
	return slices.Contains([]string{
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode,
	}, distribution)
}

func newHints(zones []string, inTier bool, distribution string, endpoint Endpoint) *discoveryv1.EndpointHints {
	hints := &discoveryv1.EndpointHints{}
	if len(zones) == 0 {
		zones = []string{Nowhere}
	}
	for _, zone := range zones {
		hints.ForZones = append(hints.ForZones, discoveryv1.ForZone{Name: zone})
	}
	if distribution == corev1.ServiceTrafficDistributionPreferSameNode {
		node := Nowhere // kube-proxy ignores nodes if a ready endpoint has none
		if inTier && endpoint.NodeName != nil {
			node = *endpoint.NodeName
		}
		hints.ForNodes = []discoveryv1.ForNode{{Name: node}}
	}
	return hints
}

// assign assigns zones to the endpoints of the tier with the given indexes, which serve the same
// ports. It returns the zones that no ready one has.
func assign(assigned [][]string, members []int, zones []string, prefersZone bool, endpoints []Endpoint) (uncovered []string) {
	limit, rest := maxZones, zones
	if prefersZone {
		limit-- // besides its own
		rest = slices.Clone(zones)
		for _, i := range members {
			zone := endpoints[i].Zone
			if zone == nil || !slices.Contains(zones, *zone) {
				continue
			}
			assigned[i] = []string{*zone}
			if IsReady(endpoints[i].Endpoint) {
				rest = slices.DeleteFunc(rest, func(name string) bool { return name == *zone })
			}
		}
	}
	if len(rest) == 0 {
		return nil
	}
	shares := divide(rest, limit)
	var ready, others []int
	for _, i := range members {
		if IsReady(endpoints[i].Endpoint) {
			ready = append(ready, i)
		} else {
			others = append(others, i)
		}
	}
	for number, holders := range spread(shares, ready, endpoints) {
		give(assigned, holders, shares[number])
		if len(ready) > 0 && len(holders) == 0 {
			uncovered = append(uncovered, shares[number]...)
		}
	}
	for number, holders := range spread(shares, others, endpoints) { // they may become ready
		give(assigned, holders, shares[number])
	}
	return uncovered
}

// give adds zones to those that are assigned to endpoints.
func give(assigned [][]string, holders []int, zones []string) {
	for _, i := range holders {
		together := slices.Sorted(slices.Values(slices.Concat(assigned[i], zones)))
		assigned[i] = slices.Compact(together)
	}
}

// divide divides zones into as few shares of about the same size as the limit allows.
func divide(zones []string, limit int) [][]string {
	count := (len(zones) + limit - 1) / limit
	return slices.Collect(slices.Chunk(zones, (len(zones)+count-1)/count))
}

// spread returns the indexes of the endpoints for each share of zones. An endpoint keeps the share
// that it has; others get the one that the fewest have. None has more than one endpoint more than
// twice as many as another.
func spread(shares [][]string, members []int, endpoints []Endpoint) [][]int {
	holders := make([][]int, len(shares))
	var free []int
	for _, i := range members {
		if number := slices.IndexFunc(shares, func(share []string) bool { return isHinted(endpoints[i], share) }); number >= 0 {
			holders[number] = append(holders[number], i)
		} else {
			free = append(free, i)
		}
	}
	for _, i := range free {
		fewest, _ := extremes(holders)
		holders[fewest] = append(holders[fewest], i)
	}
	for {
		fewest, most := extremes(holders)
		last := len(holders[most]) - 1
		if len(holders[most]) <= 2*len(holders[fewest])+1 {
			return holders
		}
		holders[fewest] = append(holders[fewest], holders[most][last])
		holders[most] = holders[most][:last]
	}
}

// isHinted reports whether an endpoint is hinted for all zones of a share now.
func isHinted(endpoint Endpoint, share []string) bool {
	return endpoint.Hints != nil && !slices.ContainsFunc(share, func(zone string) bool {
		return !slices.Contains(endpoint.Hints.ForZones, discoveryv1.ForZone{Name: zone})
	})
}

// extremes returns which share the fewest endpoints have, and which the most; of several, the
// first.
func extremes(holders [][]int) (fewest, most int) {
	for number := range holders {
		if len(holders[number]) < len(holders[fewest]) {
			fewest = number
		}
		if len(holders[number]) > len(holders[most]) {
			most = number
		}
	}
	return fewest, most
}
