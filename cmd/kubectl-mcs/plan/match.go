// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A cluster reports its own ID and UID, and may report those of another one. Which
// member it is follows from the server and the certificate authority by which the
// user reaches it: the user trusts the kubeconfig.

// leadsTo reports whether the member Secret of an ID leads to the cluster at this
// access. Other clusters may reach it at another address: then the authority
// identifies it, unless another member has the same. A Secret without a valid
// kubeconfig leads nowhere.
func (c Cluster) leadsTo(id string, access Access) bool {
	member := c.Members[id].Access
	switch {
	case member == Access{}:
		return true
	case member.CA != access.CA:
		return false
	case member.Server == access.Server:
		return true
	}
	for other, candidate := range c.Members {
		if other != id && candidate.Access.CA == access.CA {
			return false
		}
	}
	return access.CA != ""
}

// membersAt returns the IDs of the members whose Secrets lead exactly to this
// access, sorted.
func (c Cluster) membersAt(access Access) []string {
	var ids []string
	for id, member := range c.Members {
		if access.Server != "" && member.Access == access {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// CheckRepointing returns an error for every member that joining would replace by
// a cluster at another server or with another certificate authority, and for every
// cluster that is a member by another ID already. ids has the IDs that clusters get,
// by context.
func CheckRepointing(clusters []Cluster, ids map[string]string) error {
	var errs []error
	for _, c := range clusters {
		for _, peer := range clusters {
			if !linked(clusters, c, peer) {
				continue
			}
			id := cmp.Or(ids[peer.Context], peer.ID)
			if member, ok := c.Members[id]; ok && member.Access != peer.Access && member.Access != (Access{}) {
				what, elsewhere := difference(member.Access, peer.Access)
				if elsewhere {
					what += fmt.Sprintf(", so keep the address with --server %s=%s if it is still right", peer.Context, member.Access.Server)
				}
				errs = append(errs, fmt.Errorf("context %q: member %q is reached at %s, and would be at %s: %s; if the cluster of context %q is %q, repeat the command with --repoint",
					c.Context, id, member.Access.Server, peer.Access.Server, what, peer.Context, id))
			}
			for _, other := range c.membersAt(peer.Access) {
				if other != id {
					errs = append(errs, fmt.Errorf("context %q: the cluster of context %q is member %q, but would become %q: run `kubectl mcs leave %s --from %s` first",
						c.Context, peer.Context, other, id, peer.Context, c.Context))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// difference describes what differs between two accesses, and reports whether that is only
// the address.
func difference(former, next Access) (what string, elsewhere bool) {
	switch {
	case former.CA != next.CA:
		return "the certificate authorities differ", false
	case former.ServerName != next.ServerName:
		return "the server names for TLS differ", false
	}
	return "the certificate authorities are the same", true
}

// dropLeaving removes a leaving cluster from a peer. What the cluster reports about
// itself counts only if the member Secret of the peer agrees.
func (p *Plan) dropLeaving(peer, leaving Cluster) {
	ids := peer.membersAt(leaving.Access)
	_, listed := peer.Members[leaving.ID]
	switch uid := peer.Known[leaving.ID]; {
	case slices.Contains(ids, leaving.ID):
	case uid != "" && uid != leaving.UID:
		p.Warnings = append(p.Warnings, fmt.Sprintf("in context %q, member %q is a different cluster (UID %s) than the one of context %q (UID %s) and is not removed",
			peer.Context, leaving.ID, uid, leaving.Context, leaving.UID))
	case listed && !peer.leadsTo(leaving.ID, leaving.Access):
		p.Warnings = append(p.Warnings, fmt.Sprintf("in context %q, member %q is reached at %s, which is not the cluster of context %q (%s), and is not removed: if it is, run `kubectl mcs leave --id %s --from %s`",
			peer.Context, leaving.ID, peer.Members[leaving.ID].Access.Server, leaving.Context, leaving.Access.Server, leaving.ID, peer.Context))
	default:
		ids = append(ids, leaving.ID)
	}
	for _, id := range ids {
		if id != leaving.ID {
			p.Warnings = append(p.Warnings, fmt.Sprintf("the cluster of context %q reports the ID %q, but is member %q in context %q, from where it is removed", leaving.Context, leaving.ID, id, peer.Context))
		}
	}
	p.drop(peer, slices.Sorted(slices.Values(ids))...)
}

// memberAt returns the ID of the only member that peers reach by this access, or an
// empty string.
func memberAt(access Access, peers []Cluster) string {
	ids := map[string]bool{}
	for _, peer := range peers {
		for _, id := range peer.membersAt(access) {
			ids[id] = true
		}
	}
	if len(ids) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(ids))[0]
}
