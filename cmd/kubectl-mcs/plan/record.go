// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// recordCIDRs plans how the clusters record the allocation CIDRs of each other: those that
// are being assigned, or those that a cluster has when it joins, or is first recorded. A
// cluster that claims others later is refused. The warnings name the clusters whose CIDRs
// are not recorded, because they overlap with those of another one, or because the
// clusters recorded different ones.
func recordCIDRs(clusters []Cluster, assigned []Step) (steps []Step, warnings []string) {
	holdings := make([]holding, len(clusters))
	for i, c := range clusters {
		holdings[i] = newHolding(clusters, c, assigned)
	}
	unclear := map[int]bool{}
	for i, peer := range clusters {
		other, overlaps := overlapping(holdings, i)
		switch own := holdings[i]; {
		case own.basis == disputed:
			warnings = append(warnings, disagreement(clusters, peer))
			unclear[i] = true
		case overlaps:
			warnings = append(warnings, fmt.Sprintf("context %q: allocation CIDR %s overlaps that of context %q and is not recorded in member Secrets: "+
				"assign another one with --clusterset-ip-cidr or ClusterClaim %s, and run join again", peer.Context, own.value, clusters[other].Context, multicluster.ClusterSetIPCIDRClaim))
			unclear[i] = true
		}
	}
	for _, c := range clusters {
		for i, peer := range clusters {
			before := c.Members[peer.ID].AllocationCIDRs
			keeps := before != "" && !joins(peer, assigned)
			if own := holdings[i]; peer.Context != c.Context && !unclear[i] && !keeps && len(own.cidrs) > 0 && own.value != before {
				steps = append(steps, Step{Context: c.Context, Action: RecordCIDRs, Value: own.value, Peers: []string{peer.ID}})
			}
		}
	}
	return steps, warnings
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

// holding is the allocation CIDRs of one cluster.
type holding struct {
	basis basis
	// value is what to record, none if it is disputed.
	value string
	// cidrs are those that the cluster may have.
	cidrs []netip.Prefix
}

// newHolding determines the allocation CIDRs of a cluster. What was recorded of a member
// counts, not what it claims by now. No cluster is believed if another one contradicts it:
// it may not be trusted any more.
func newHolding(clusters []Cluster, of Cluster, assigned []Step) holding {
	final := of.finalCIDRs(assigned)
	if joins(of, assigned) {
		return holding{settled, final, parseAll(final)}
	}
	records := recordedCIDRs(clusters, of)
	switch values := slices.Sorted(maps.Keys(records)); len(values) {
	case 0:
		return holding{claimed, final, parseAll(final)}
	case 1:
		return holding{settled, values[0], parseAll(values[0])}
	default:
		all := holding{basis: disputed}
		for _, value := range values {
			all.cidrs = append(all.cidrs, parseAll(value)...)
		}
		return all
	}
}

// disagreement describes that clusters recorded different allocation CIDRs of a member.
func disagreement(clusters []Cluster, peer Cluster) string {
	records := recordedCIDRs(clusters, peer)
	var texts []string
	for _, value := range slices.Sorted(maps.Keys(records)) {
		texts = append(texts, fmt.Sprintf("%s in %s", value, strings.Join(records[value], ", ")))
	}
	return fmt.Sprintf("context %q: member Secrets of other contexts have different allocation CIDRs of cluster %q (%s), and none is recorded in further ones: "+
		"correct %s in the Secrets that are wrong, or leave out contexts that are not trusted, and run join again",
		peer.Context, peer.ID, strings.Join(texts, "; "), clusterset.MemberSecretAllocationCIDRs)
}

// finalCIDRs returns the allocation CIDRs that the cluster will have, separated by commas.
func (c Cluster) finalCIDRs(assigned []Step) string {
	for _, step := range assigned {
		if step.Context == c.Context {
			return step.Value
		}
	}
	if c.Unlisted {
		return strings.Join(c.Claimed, ",")
	}
	return strings.Join(c.CIDRs, ",")
}

// joins reports whether a cluster joins, or is assigned allocation CIDRs: what was
// recorded of it before does not count.
func joins(c Cluster, assigned []Step) bool {
	return c.ClusterSet == "" || slices.ContainsFunc(assigned, func(step Step) bool { return step.Context == c.Context })
}

// recordedCIDRs returns the allocation CIDRs that other members recorded for a member, with
// their contexts. What joining clusters have is not of this ClusterSet.
func recordedCIDRs(clusters []Cluster, of Cluster) map[string][]string {
	contexts := map[string][]string{}
	for _, c := range clusters {
		texts := clusterset.SplitList(c.Members[of.ID].AllocationCIDRs)
		if len(texts) == 0 || c.Context == of.Context || c.ClusterSet == "" {
			continue
		}
		slices.Sort(texts)
		value := strings.Join(texts, ",")
		contexts[value] = append(contexts[value], c.Context)
	}
	return contexts
}

// overlapping returns another cluster whose allocation CIDRs overlap, and are known at
// least as reliably.
func overlapping(holdings []holding, of int) (other int, found bool) {
	for i, holding := range holdings {
		if i == of || holding.basis < holdings[of].basis {
			continue
		}
		if _, _, overlaps := clustersetip.Overlap(holdings[of].cidrs, holding.cidrs); overlaps {
			return i, true
		}
	}
	return 0, false
}

// parseAll parses CIDRs. Invalid ones are not used for allocation.
func parseAll(cidrs string) []netip.Prefix {
	prefixes, err := clustersetip.ParseCIDRs(clusterset.SplitList(cidrs))
	if err != nil {
		return nil
	}
	return prefixes
}
