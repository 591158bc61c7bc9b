// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// recordCIDRs plans how the clusters record the allocation CIDRs of each other: those that
// are being assigned, or those that a cluster has when it joins, or is first recorded. A
// cluster that claims others later is refused. The warnings name the clusters whose CIDRs
// are not recorded, because they overlap with those of another one, or because the
// clusters recorded different ones; and those that claim others than are recorded.
func recordCIDRs(clusters []Cluster, assigned []Step) (steps []Step, warnings []string) {
	holdings, decisions := newHoldings(clusters), make([]decision, len(clusters))
	for i, c := range clusters {
		decisions[i] = holdings.named[i].decide(c.final(assigned), joins(c, assigned))
	}
	unclear := map[int]bool{}
	for i, peer := range clusters {
		other, overlaps := overlapping(decisions, i)
		switch own := decisions[i]; {
		case own.basis == disputed:
			warnings = append(warnings, disagreement(clusters, peer, holdings.named[i]))
			unclear[i] = true
		case overlaps:
			warnings = append(warnings, fmt.Sprintf("context %q: allocation CIDR %s overlaps that of context %q and is not recorded in member Secrets: "+
				"assign another one with `kubectl --context %s patch clusterclaim %s --type=merge -p '{\"spec\":{\"value\":\"CIDR\"}}'`, or with the flag --clusterset-ip-cidr of mcs-apiserver if it is set there, and run join again",
				peer.Context, own.value, clusters[other].Context, peer.Context, multicluster.ClusterSetIPCIDRClaim))
			unclear[i] = true
		case own.refused:
			warnings = append(warnings, refusal(clusters, peer, holdings.named[i], peer.final(assigned)))
		}
	}
	for _, c := range clusters {
		for i, peer := range clusters {
			before := c.Members[peer.ID].AllocationCIDRs
			keeps := before != "" && !joins(peer, assigned)
			if value := decisions[i].value; linked(clusters, c, peer) && !unclear[i] && !keeps && recordable(value) && value != before {
				steps = append(steps, Step{Context: c.Context, Action: RecordCIDRs, Value: value, Peers: []string{peer.ID}})
			}
		}
	}
	return steps, warnings
}

// recordable reports whether a member Secret with this value is valid.
func recordable(value string) bool {
	return value == clusterset.MemberSecretNoAllocationCIDRs || len(parseAll(value)) > 0
}

// final returns the allocation CIDRs that the cluster will have, separated by commas: none if
// shared ClusterSet IPs are disabled in it, and nothing if they are unknown.
func (c Cluster) final(assigned []Step) string {
	for _, step := range assigned {
		if step.Context == c.Context && step.Action == AssignCIDRs {
			return canonical(step.Value)
		}
	}
	switch {
	case c.Unlisted:
		return canonical(strings.Join(c.Claimed, ","))
	case len(c.CIDRs) == 0 && len(c.Ranges) == 0:
		return clusterset.MemberSecretNoAllocationCIDRs
	}
	return canonical(strings.Join(c.CIDRs, ","))
}

// joins reports whether a cluster joins, or is assigned allocation CIDRs: what was
// recorded of it before does not count.
func joins(c Cluster, assigned []Step) bool {
	return c.ClusterSet == "" || slices.ContainsFunc(assigned, func(step Step) bool { return step.Context == c.Context })
}

// overlapping returns another cluster whose allocation CIDRs overlap, and are known at
// least as reliably.
func overlapping(decisions []decision, of int) (other int, found bool) {
	for i, decision := range decisions {
		if i == of || decision.basis < decisions[of].basis {
			continue
		}
		if _, _, overlaps := clustersetip.Overlap(decisions[of].cidrs, decision.cidrs); overlaps {
			return i, true
		}
	}
	return 0, false
}

// disagreement describes that clusters recorded different allocation CIDRs of a member.
func disagreement(clusters []Cluster, peer Cluster, recorded *holding) string {
	return fmt.Sprintf("context %q: member Secrets of other contexts have different allocation CIDRs of cluster %q (%s), and none is recorded in further ones: "+
		"correct %s in the Secrets that are wrong%s, or leave out contexts that are not trusted, and run join again",
		peer.Context, peer.ID, recorded.describe(), clusterset.MemberSecretAllocationCIDRs, corrections(clusters, peer, recorded, "CIDRS"))
}

// refusal describes that a member has, or claims, others than the clusters recorded.
func refusal(clusters []Cluster, peer Cluster, recorded *holding, final string) string {
	if final == clusterset.MemberSecretNoAllocationCIDRs {
		return fmt.Sprintf("context %q: cluster %q has no allocation CIDR, but member Secrets of other contexts have one (%s): "+
			"if shared ClusterSet IPs stay disabled in it, replace it with %s, so that the cluster cannot claim one later%s",
			peer.Context, peer.ID, recorded.describe(), final, corrections(clusters, peer, recorded, final))
	}
	value := "CIDRS"
	if len(parseAll(final)) > 0 {
		value = final
	}
	return fmt.Sprintf("context %q: cluster %q claims allocation CIDR %s, but member Secrets of other contexts have another one (%s), and its claim is refused there: "+
		"correct its ClusterClaim %s or the flag --clusterset-ip-cidr of its mcs-apiserver, or, if it should have it, correct %s in the Secrets%s",
		peer.Context, peer.ID, final, recorded.describe(), multicluster.ClusterSetIPCIDRClaim, clusterset.MemberSecretAllocationCIDRs, corrections(clusters, peer, recorded, value))
}

// describe lists the recorded values with their contexts.
func (h *holding) describe() string {
	byValue := h.byValue()
	var texts []string
	for _, value := range slices.Sorted(maps.Keys(byValue)) {
		texts = append(texts, fmt.Sprintf("%s in %s", value, strings.Join(byValue[value], ", ")))
	}
	return strings.Join(texts, "; ")
}

// corrections returns the commands that change what the clusters recorded of a member, in
// parentheses.
func corrections(clusters []Cluster, peer Cluster, recorded *holding, value string) string {
	var commands []string
	for _, c := range clusters {
		secret := c.Members[peer.ID].Secret
		if recorded.records[c.Context] == "" || recorded.records[c.Context] == value || !isName(secret.Namespace) || !isName(secret.Name) {
			continue
		}
		commands = append(commands, fmt.Sprintf("`kubectl --context %s patch secret -n %s %s --type=merge -p '{\"stringData\":{%q:%q}}'`",
			c.Context, secret.Namespace, secret.Name, clusterset.MemberSecretAllocationCIDRs, value))
	}
	if len(commands) == 0 {
		return ""
	}
	return " (" + strings.Join(commands, ", ") + ")"
}

// isName reports whether a text is a name, and not one that means something else to a
// shell: the cluster that it comes from may not be trusted.
func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }
