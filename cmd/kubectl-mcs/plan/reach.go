// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Server is what this machine knows about the address at which others reach a cluster.
type Server struct {
	// Addresses are the IPs of the host. Unresolved is why there are none.
	Addresses  []string
	Unresolved string
	// Invalid is why the certificate is not valid for the address, or not signed by the
	// certificate authority: this is the same everywhere.
	Invalid string
	// Unreachable is why there was no connection, which others may have.
	Unreachable string
}

// checkReachability checks whether the clusters reach each other, as far as that can be known:
// only the Pods of mcs-apiserver can tell, and they only try members.
func checkReachability(ids map[string]string, all []Facts) []Finding {
	var findings []Finding
	var contexts []Cluster
	for _, f := range all {
		contexts = append(contexts, Cluster{Context: f.Context, Hub: f.Hub})
		findings = append(findings, checkServerOf(f, all)...)
	}
	for i, f := range all {
		var unknown []string
		for j, peer := range all {
			if !linked(contexts, contexts[i], contexts[j]) {
				continue
			}
			finding, known := reaches(ids, f, peer)
			if !known {
				unknown = append(unknown, fmt.Sprintf("%s (%s)", peer.Context, peer.Access.Server))
				continue
			}
			findings = append(findings, finding)
		}
		if len(unknown) > 0 {
			findings = append(findings, Finding{
				CheckReachability, NotChecked, []string{f.Context},
				"whether mcs-apiserver reaches " + strings.Join(unknown, ", ") + " is not known, because only its Pods can tell, and they connect to members only",
				fmt.Sprintf("join waits for the connections, and `kubectl mcs status %s` shows them", f.Context),
			})
		}
	}
	return findings
}

// reaches returns what mcs-apiserver of one cluster says about another one, if that is a member
// and is reached at the same address.
func reaches(ids map[string]string, f, peer Facts) (finding Finding, known bool) {
	if f.Membership == nil || peer.Membership == nil {
		return Finding{}, false
	}
	id := cmp.Or(ids[peer.Context], peer.Membership.ID)
	reachable := f.Reachable[id]
	if member, ok := f.Membership.Members[id]; !ok || member.Access != peer.Access || !reachable.Known {
		return Finding{}, false
	}
	finding = Finding{CheckReachability, OK, []string{f.Context}, fmt.Sprintf("mcs-apiserver reaches %s (%s)", peer.Context, peer.Access.Server), ""}
	// A server that rejects the credential is reached. Joining again replaces it.
	rejects := reachable.Reason == string(metav1.StatusReasonUnauthorized) || reachable.Reason == string(metav1.StatusReasonForbidden)
	if !reachable.Answers && !rejects {
		finding.Result = Problem
		finding.Message = fmt.Sprintf("mcs-apiserver does not reach %s (%s): %s", peer.Context, peer.Access.Server, reachable.Message)
		finding.Remedy = fmt.Sprintf("allow its Pods to connect, or set another address with --server %s=URL", peer.Context)
	}
	return finding, true
}

// checkServerOf checks the address at which the others reach a cluster.
func checkServerOf(f Facts, all []Facts) []Finding {
	contexts, flag := []string{f.Context}, fmt.Sprintf("--server %s=URL", f.Context)
	set := "set the address for other clusters with " + flag
	if err := checkAccess(Cluster{Context: f.Context, Access: f.Access, Unverified: f.Unverified}, flag); err != nil {
		if f.Membership != nil {
			return nil // join says so
		}
		var findings []Finding
		for _, err := range flatten(err) {
			findings = append(findings, inContext(Finding{Check: CheckReachability, Result: Problem, Message: err.Error()}, all))
		}
		return findings
	}
	var findings []Finding
	add := func(result Result, message, remedy string) {
		findings = append(findings, Finding{CheckReachability, result, contexts, fmt.Sprintf("server %q %s", f.Access.Server, message), remedy})
	}
	for _, text := range f.Server.Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			if message := misplaced(address.Unmap(), f, all); message != "" {
				add(Problem, fmt.Sprintf("has the address %s, which %s", address, message), set)
			}
		}
	}
	switch {
	case f.Server.Invalid != "":
		add(Problem, "has a certificate that other clusters do not accept: "+f.Server.Invalid, set+", or correct certificate-authority-data or tls-server-name in the kubeconfig")
	case f.Server.Unresolved != "":
		add(Warning, "has a name that this machine cannot resolve: "+f.Server.Unresolved, "make sure that the nodes of the other clusters can, or "+set)
	case f.Server.Unreachable != "":
		add(Warning, "does not answer this machine: "+f.Server.Unreachable, "make sure that it answers the nodes of the other clusters, or "+set)
	case len(findings) == 0:
		add(OK, "answers this machine, with a certificate that other clusters accept", "")
	}
	return findings
}

// misplaced returns why other clusters do not reach an address of a cluster, empty if they may.
func misplaced(address netip.Addr, f Facts, all []Facts) string {
	switch {
	case address.IsLoopback(), address.IsUnspecified(), address.IsLinkLocalUnicast(), address.IsMulticast():
		return "is only valid on the machine or network on which it is used"
	case contains(prefixesOf(f.Networks.ServiceCIDRs), address):
		return "is in a Service CIDR of its own cluster, and reachable only there"
	}
	for _, other := range all {
		if other.Context == f.Context {
			continue
		}
		if cidrs := prefixesOf(other.Networks.ServiceCIDRs); contains(cidrs, address) {
			return fmt.Sprintf("is in a Service CIDR of %s, and is not reachable from there", other.Context)
		}
		network := newPodNetwork(other.Networks)
		if slices.Contains(network.addresses, address) || contains(network.cidrs, address) && network.used {
			return fmt.Sprintf("is in the Pod network of %s, and is not reachable from there", other.Context)
		}
	}
	return ""
}
