// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// allowCIDRs plans how the clusters record in which CIDRs the endpoints of the others may
// be, as far as the user says so. The warnings name Pod CIDRs that are not among them.
func allowCIDRs(clusters []Cluster) (steps []Step, warnings []string) {
	for _, c := range clusters {
		for _, peer := range clusters {
			before := c.Members[peer.ID].AllowedCIDRs
			if linked(clusters, c, peer) && peer.AllowedCIDRs != "" && !sameCIDRs(peer.AllowedCIDRs, before) {
				steps = append(steps, Step{Context: c.Context, Action: AllowCIDRs, Value: peer.AllowedCIDRs, Before: before, Peers: []string{peer.ID}})
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
func unaskable(clusterSet string, clusters []Cluster) []string {
	var members, flags []string
	for _, peer := range clusters {
		var contexts []string
		for _, c := range clusters {
			if linked(clusters, c, peer) && peer.AllowedCIDRs == "" && c.Members[peer.ID].AllowedCIDRs == "" {
				contexts = append(contexts, c.Context)
			}
		}
		if len(contexts) > 0 {
			members = append(members, fmt.Sprintf("%s (in %s)", peer.ID, strings.Join(contexts, ", ")))
			flags = append(flags, fmt.Sprintf("--allowed-cidrs %s=CIDR,...", peer.Context))
		}
	}
	if len(members) == 0 {
		return nil
	}
	var contexts []string
	for _, c := range clusters {
		contexts = append(contexts, c.Context)
	}
	return []string{fmt.Sprintf("member Secrets have no %s of %s: while such a member is silent, its endpoints are not asked whether they answer, and all of them are withdrawn after its TTL (60s by default). "+
		"To change that, run join with the CIDRs of its Pods: `kubectl mcs join --clusterset %s %s %s`",
		clusterset.MemberSecretAllowedCIDRs, strings.Join(members, ", "), clusterSet, strings.Join(contexts, " "), strings.Join(flags, " "))}
}
