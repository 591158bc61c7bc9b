// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// allowCIDRs plans how the clusters record in which CIDRs the endpoints of the others may
// be, as far as the user says so. The warnings name Pod CIDRs that are not among them, and
// endpoints that a hub relays and that are not allowed.
func allowCIDRs(clusters []Cluster) (steps []Step, warnings []string) {
	for _, c := range clusters {
		for _, peer := range clusters {
			if !linked(clusters, c, peer) {
				continue
			}
			value, warning := newExporters(clusters, c, peer).allow()
			if before := c.Members[peer.ID].AllowedCIDRs; value != "" && !sameCIDRs(value, before) {
				steps = append(steps, Step{Context: c.Context, Action: AllowCIDRs, Value: value, Before: before, Peers: []string{peer.ID}})
			}
			if warning != "" {
				warnings = append(warnings, warning)
			}
		}
	}
	for _, c := range clusters {
		if warning, found := outsideAllowed(c); found {
			warnings = append(warnings, warning)
		}
	}
	return steps, warnings
}

// exporters are the clusters whose exports a cluster reads from a peer: the peer itself, and
// those that it relays as a hub. What a member Secret allows holds for all of them.
type exporters struct {
	reader, peer Cluster
	// named are those among the arguments, the peer first. unnamed are the IDs of others, or *.
	named   []Cluster
	unnamed []string
}

func newExporters(clusters []Cluster, c, peer Cluster) exporters {
	e := exporters{reader: c, peer: peer, named: []Cluster{peer}}
	relayed := c.Members[peer.ID].RelayFor
	if peer.Hub {
		relayed = relayFor(clusters, c, relayed)
	}
	ids := clusterset.SplitList(relayed)
	for _, other := range clusters {
		everything := peer.Hub && slices.Contains(ids, "*")
		if other.Context != c.Context && other.Context != peer.Context && (everything || slices.Contains(ids, other.ID)) {
			e.named = append(e.named, other)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(clusters, func(other Cluster) bool { return other.ID == id }) {
			e.unnamed = append(e.unnamed, id)
		}
	}
	return e
}

// allow returns the allowed CIDRs of the member Secret of the peer: those of all exporters.
// It is empty if they do not change: nothing is given, or the Secret allows everything and
// would refuse the endpoints of a cluster whose CIDRs are not given.
func (e exporters) allow() (value, warning string) {
	existing := e.reader.Members[e.peer.ID]
	var given, missing, added []string
	for _, c := range e.named {
		if c.AllowedCIDRs != "" {
			given = append(given, clusterset.SplitList(c.AllowedCIDRs)...)
			continue
		}
		missing = append(missing, c.ID)
		if c.ID != e.peer.ID && e.reader.Known[c.ID] == "" && !slices.Contains(clusterset.SplitList(existing.RelayFor), c.ID) {
			added = append(added, c.ID)
		}
	}
	unknown := slices.Concat(missing, e.unnamed)
	switch {
	case existing.AllowedCIDRs == "" && len(given) > 0 && len(unknown) > 0:
		return "", fmt.Sprintf("context %q: hub %q gets no %s, because those of %s are not known, and endpoints that it relays from there would be refused: "+
			"add --allowed-cidrs for all clusters, or set %s in its member Secret to the CIDRs of all clusters that it may relay",
			e.reader.Context, e.peer.ID, clusterset.MemberSecretAllowedCIDRs, strings.Join(unknown, ", "), clusterset.MemberSecretAllowedCIDRs)
	case existing.AllowedCIDRs != "" && len(added) > 0:
		warning = fmt.Sprintf("context %q: endpoints of %s, which hub %q relays, are refused if they are not in %s: add --allowed-cidrs for all clusters",
			e.reader.Context, strings.Join(added, ", "), e.peer.ID, strings.Join(distinct(append(clusterset.SplitList(existing.AllowedCIDRs), given...)), ","))
	}
	if len(given) == 0 {
		return "", warning
	}
	if len(unknown) > 0 { // what was allowed for those
		given = append(clusterset.SplitList(existing.AllowedCIDRs), given...)
	}
	return strings.Join(distinct(given), ","), warning
}

// distinct returns the texts in their order, each of them once.
func distinct(texts []string) []string {
	var once []string
	for _, text := range texts {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return once
}

// outsideAllowed warns about a Pod CIDR of a cluster that the allowed CIDRs do not contain.
func outsideAllowed(c Cluster) (warning string, found bool) {
	allowed := parsePrefixes(c.AllowedCIDRs)
	if len(allowed) == 0 {
		return "", false
	}
	own, err := clustersetip.ParseCIDRs(c.PodCIDRs)
	if err != nil {
		return "", false
	}
	for _, cidr := range own {
		if !slices.ContainsFunc(allowed, func(a netip.Prefix) bool { return a.Bits() <= cidr.Bits() && a.Contains(cidr.Addr()) }) {
			return fmt.Sprintf("context %q: Pod CIDR %s of its nodes is not in --allowed-cidrs %s: endpoints outside of these are not imported by the other clusters",
				c.Context, cidr, c.AllowedCIDRs), true
		}
	}
	return "", false
}

// ParseAllowedCIDRs returns the CIDRs of a list that a user gives. The errors name those that
// are not.
func ParseAllowedCIDRs(list string) (cidrs []string, errs []error) {
	for _, text := range strings.Split(list, ",") {
		cidr, err := netip.ParsePrefix(strings.TrimSpace(text))
		switch {
		case err != nil || cidr.Addr().Is4In6():
			errs = append(errs, fmt.Errorf("%q must be a CIDR, such as 10.101.0.0/16", text))
		case cidr != cidr.Masked():
			errs = append(errs, fmt.Errorf("%q has bits beyond its prefix, use %s", text, cidr.Masked()))
		default:
			cidrs = append(cidrs, cidr.String())
		}
	}
	return cidrs, errs
}

// sameCIDRs reports whether two lists have the same CIDRs, in any order and notation.
func sameCIDRs(a, b string) bool {
	return slices.Equal(parsePrefixes(a), parsePrefixes(b)) && len(clusterset.SplitList(a)) == len(clusterset.SplitList(b))
}

// parsePrefixes returns the CIDRs of a list that are valid, sorted.
func parsePrefixes(list string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range clusterset.SplitList(list) {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix.Masked())
		}
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return prefixes
}

// unaskable returns a note about the members whose endpoints cannot be asked while they are
// silent, because no cluster was told where these may be.
func unaskable(clusterSet string, clusters []Cluster, ids map[string]string) []string {
	var members, contexts, given, flags []string
	needed := map[string]bool{} // the contexts whose CIDRs are needed
	for _, peer := range clusters {
		var contexts []string
		for _, c := range clusters {
			if !linked(clusters, c, peer) || c.Members[peer.ID].AllowedCIDRs != "" {
				continue
			}
			exporters := newExporters(clusters, c, peer)
			if value, _ := exporters.allow(); value != "" {
				continue
			}
			contexts = append(contexts, c.Context)
			for _, exporter := range exporters.named {
				needed[exporter.Context] = true
			}
		}
		if len(contexts) > 0 {
			members = append(members, fmt.Sprintf("%s (in %s)", peer.ID, strings.Join(contexts, ", ")))
		}
	}
	if len(members) == 0 {
		return nil
	}
	for _, c := range clusters {
		contexts = append(contexts, c.Context)
		if id := ids[c.Context]; id != "" { // clusters must not join under other IDs
			given = append(given, fmt.Sprintf("--id %s=%s", c.Context, id))
		}
		given = append(given, c.Flags...)
		if c.Hub {
			given = append(given, "--hub "+c.Context)
		}
		if needed[c.Context] {
			flags = append(flags, fmt.Sprintf("--allowed-cidrs %s=%s", c.Context, cmp.Or(c.AllowedCIDRs, "CIDR,...")))
		}
	}
	return []string{fmt.Sprintf("member Secrets have no %s of %s: while such a member is silent, its endpoints are not asked whether they answer, and all of them are withdrawn after its TTL (60s by default). "+
		"To change that, run join with the CIDRs of its Pods: `kubectl mcs join --clusterset %s %s %s`",
		clusterset.MemberSecretAllowedCIDRs, strings.Join(members, ", "), clusterSet, strings.Join(contexts, " "), strings.Join(append(given, flags...), " "))}
}
