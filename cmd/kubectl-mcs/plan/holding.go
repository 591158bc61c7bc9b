// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// holdings is which cluster has which allocation CIDRs, as far as the members among the
// clusters know. What joining clusters know is not of this ClusterSet.
type holdings struct {
	// named are those of the clusters, in their order, and others those of clusters that are
	// not among them, by UID.
	named  []*holding
	others map[types.UID]*holding
	// used are the shared ClusterSet IPs of services, and who exports these: the cluster that
	// allocated them may have left.
	used map[netip.Prefix]string

	unreadable sets.Set[string]
	warnings   []string
}

// holding is what is known about the allocation CIDRs of one cluster, from the most
// reliable to the least.
type holding struct {
	// records are what member Secrets of other clusters have for its ID, by context.
	records map[string]string
	// claim is what the cluster itself says that it has.
	claim []netip.Prefix
	// hearsay is what other clusters report that it claims, directly or through hubs, or
	// recorded for another ID.
	hearsay []netip.Prefix
}

func newHoldings(clusters []Cluster) *holdings {
	h := &holdings{others: map[types.UID]*holding{}, used: map[netip.Prefix]string{}, unreadable: sets.New[string]()}
	for range clusters {
		h.named = append(h.named, &holding{records: map[string]string{}})
	}
	for i, c := range clusters {
		if c.ClusterSet == "" {
			continue
		}
		h.named[i].claim = h.parse(c.Context, c.CIDRs)
		for _, uid := range slices.Sorted(maps.Keys(c.Taken)) {
			of := h.of(clusters, uid)
			of.hearsay = append(of.hearsay, h.parse(c.Context, c.Taken[uid])...)
		}
		for _, id := range slices.Sorted(maps.Keys(c.Members)) {
			h.record(clusters, c, id)
		}
		for ip, exporter := range c.SharedIPs {
			if address, err := netip.ParseAddr(ip); err == nil {
				h.used[netip.PrefixFrom(address, address.BitLen())] = exporter
			}
		}
	}
	return h
}

// record adds what a cluster recorded of a member.
func (h *holdings) record(clusters []Cluster, c Cluster, id string) {
	value := canonical(c.Members[id].AllocationCIDRs)
	if value == "" || id == c.ID {
		return
	}
	if i := slices.IndexFunc(clusters, func(other Cluster) bool { return other.ID == id }); i >= 0 {
		h.named[i].records[c.Context] = value
		return
	}
	of := h.of(clusters, c.Known[id])
	of.hearsay = append(of.hearsay, parseAll(value)...)
}

// of returns the holding of the cluster with a UID.
func (h *holdings) of(clusters []Cluster, uid types.UID) *holding {
	if i := slices.IndexFunc(clusters, func(c Cluster) bool { return c.UID == uid }); i >= 0 {
		return h.named[i]
	}
	if h.others[uid] == nil {
		h.others[uid] = &holding{}
	}
	return h.others[uid]
}

// reserved returns what is not free: all that any cluster has, or may have, and the IPs of
// services.
func (h *holdings) reserved() []netip.Prefix {
	return slices.Concat(slices.Collect(maps.Keys(h.used)), h.reservedForOthers(nil))
}

// blamed says who exports services with shared ClusterSet IPs that no cluster has in its
// allocation CIDRs, most of them, if all would be well without these.
func (h *holdings) blamed(ranges []netip.Prefix) string {
	allocated := h.reservedForOthers(nil)
	if _, err := clustersetip.FreeAllocationCIDRs(ranges, countIn(ranges, allocated)); err != nil {
		return ""
	}
	counts, example := map[string]int{}, map[string]netip.Prefix{}
	for ip, exporter := range h.used {
		if slices.ContainsFunc(allocated, ip.Overlaps) {
			continue
		}
		counts[exporter]++
		if known, ok := example[exporter]; !ok || ip.Addr().Less(known.Addr()) {
			example[exporter] = ip
		}
	}
	var most string
	for _, exporter := range slices.Sorted(maps.Keys(counts)) {
		if counts[exporter] > counts[most] {
			most = exporter
		}
	}
	if most == "" {
		return ""
	}
	return fmt.Sprintf("; services of cluster %q have %d shared ClusterSet IPs that no cluster could have allocated, such as %s: withdraw them, or expel the cluster if you do not trust it",
		most, counts[most], example[most].Addr())
}

// reservedForOthers returns what other clusters than one have, or may have.
func (h *holdings) reservedForOthers(own *holding) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, other := range slices.Concat(h.named, slices.Collect(maps.Values(h.others))) {
		if other == own {
			continue
		}
		cidrs = slices.Concat(cidrs, other.claim, other.hearsay)
		for _, value := range other.records {
			cidrs = append(cidrs, parseAll(value)...)
		}
	}
	return cidrs
}

// parse parses CIDRs. CIDRs in a non-canonical form are not used for allocation,
// but count as taken. Text that is not a CIDR is skipped, with one warning.
func (h *holdings) parse(context string, texts []string) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, text := range texts {
		cidr, err := netip.ParsePrefix(text)
		if err == nil {
			if cidr.Addr().Is4In6() && cidr.Bits() >= 96 {
				cidr = netip.PrefixFrom(cidr.Addr().Unmap(), cidr.Bits()-96)
			}
			cidrs = append(cidrs, cidr.Masked())
			continue
		}
		if !h.unreadable.Has(text) {
			h.unreadable.Insert(text)
			h.warnings = append(h.warnings, fmt.Sprintf("context %q: ignoring invalid allocation CIDR %q of a member", context, text))
		}
	}
	return cidrs
}

// byValue returns the contexts of the records, by value.
func (h *holding) byValue() map[string][]string {
	contexts := map[string][]string{}
	for _, context := range slices.Sorted(maps.Keys(h.records)) {
		contexts[h.records[context]] = append(contexts[h.records[context]], context)
	}
	return contexts
}

// basis is where allocation CIDRs are known from. Greater ones are more reliable.
type basis int

const (
	// claimed is what a member claims by now.
	claimed basis = iota
	// disputed is what other clusters recorded, but not the same.
	disputed
	// settled is what is being assigned to the cluster or is found free when it joins, or
	// what all other clusters recorded that recorded any.
	settled
)

// decision is what to record of a cluster.
type decision struct {
	basis basis
	// value is what to record, empty for nothing.
	value string
	// cidrs are those that the cluster may have.
	cidrs []netip.Prefix
	// refused is set if the cluster has, or claims, what the others recorded otherwise.
	refused bool
}

// decide decides what to record of a cluster that has the given allocation CIDRs when it
// has joined, see [Cluster.final]. What was recorded of a member counts, not what it
// claims by now, unless that is a part of it. No cluster is believed if another one
// contradicts it: it may not be trusted any more.
func (h *holding) decide(final string, joins bool) decision {
	if joins {
		return decision{basis: settled, value: final, cidrs: parseAll(final)}
	}
	values := slices.Sorted(maps.Keys(h.byValue()))
	switch len(values) {
	case 0:
		return decision{basis: claimed, value: final, cidrs: parseAll(final)}
	case 1:
		recorded, own := parseAll(values[0]), parseAll(final)
		switch {
		case final == "" || final == values[0]:
			return decision{basis: settled, value: values[0], cidrs: recorded}
		case len(own) > 0 && len(clustersetip.Outside(own, recorded)) == 0:
			return decision{basis: settled, value: final, cidrs: recorded}
		}
		return decision{basis: settled, value: values[0], cidrs: recorded, refused: true}
	default:
		all := decision{basis: disputed}
		for _, value := range values {
			all.cidrs = append(all.cidrs, parseAll(value)...)
		}
		return all
	}
}

// canonical returns the value of a list of CIDRs in the order of their texts.
func canonical(cidrs string) string {
	texts := clusterset.SplitList(cidrs)
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// parseAll parses CIDRs. Invalid ones are not used for allocation.
func parseAll(cidrs string) []netip.Prefix {
	prefixes, err := clustersetip.ParseCIDRs(clusterset.SplitList(cidrs))
	if err != nil {
		return nil
	}
	return prefixes
}
