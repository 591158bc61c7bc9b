// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"net/netip"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// Policy decides which objects of a member's feed are admitted.
type Policy struct {
	// Self is the ID of this cluster, and Member that of the member.
	Self, Member string
	// Relay are the other clusters that the member may relay.
	Relay route.Scope
	// AllowedNamespaces are those that objects may be in. If nil, these are all but
	// the ReservedNamespaces.
	AllowedNamespaces, ReservedNamespaces sets.Set[string]
	// AllowedCIDRs are the networks that endpoints may be in; empty for all.
	AllowedCIDRs []netip.Prefix
	// JoinedAt is when the member joined the ClusterSet; zero if unknown.
	JoinedAt time.Time
	// Ranges are the ClusterSet IP ranges of this cluster.
	Ranges []netip.Prefix
	// Networks are those of this cluster, in which no endpoint may be.
	Networks *Networks
	// Limits are what the objects of the member may take.
	Limits Usage
}

// Arrival is an object of a feed after the policy was applied to it.
type Arrival struct {
	Object Object
	// Admitted is false for objects that are rejected or not meant for this cluster.
	Admitted bool
	// Err tells why the object was rejected, or what of an admitted object was dropped.
	// It is short, and was rendered before any lock is taken: objects of a member may
	// have any number of errors.
	Err *Refusal
	// Reread is set if the object is in a list that was requested, because objects that were not
	// admitted before may be now.
	Reread bool
	// networks are those of the policy.
	networks *Networks
}

// Admit applies the policy to an object that was just decoded, which it may
// modify, and adds the member to the object's path. Objects that are not meant
// for this cluster are left out without an error: a hub sends everything it
// knows to all clusters.
func (p Policy) Admit(object Object) Arrival {
	path := object.path()
	rejected := func(reason, format string, args ...any) Arrival {
		return Arrival{Object: object, Err: refuse(reason, format, args...)}
	}
	switch {
	case object.Cluster == p.Self, slices.Contains(path, p.Self), slices.Contains(path, p.Member):
		return Arrival{Object: object} // relayed back to where it came from
	case object.Cluster != p.Member && p.Relay.Any() && !p.Relay.Allows(object.Cluster):
		return Arrival{Object: object} // known to the hub, but not to be read from it
	case object.Cluster != p.Member && !p.Relay.Any():
		return rejected(ReasonNotRelayed, "object of cluster %.63q in the feed of cluster %q: only a member with %s in its Secret may relay other clusters", object.Cluster, p.Member, clusterset.MemberSecretRelayFor)
	case object.Cluster == p.Member && len(path) > 0:
		return rejected(ReasonInvalid, "export of cluster %q itself has a path, beginning with %.63q", p.Member, path[0])
	case object.Cluster != p.Member && len(path) == 0:
		return rejected(ReasonInvalid, "relayed export of cluster %.63q has no path", object.Cluster)
	}
	if !p.allowsNamespace(object.Service.Namespace) {
		return rejected(ReasonNamespace, "member may not export into namespace %.63q: add it to %s in the Secret if it should", object.Service.Namespace, clusterset.MemberSecretAllowedNamespaces)
	}
	path = append(slices.Clone(path), p.Member)
	switch content := object.Object.(type) {
	case *clusterset.ExportedService:
		if errs := validation.ValidateExportedService(content); len(errs) > 0 {
			return rejected(ReasonInvalid, "%v", errs.ToAggregate())
		}
		content.Spec.Path = path
	case *clusterset.ExportedEndpointSlice:
		if errs := validation.ValidateExportedEndpointSlice(content); len(errs) > 0 {
			return rejected(ReasonInvalid, "%v", errs.ToAggregate())
		}
		content.Spec.Path = path
		content.Labels = clusterset.SourceLabels(content.Spec.Cluster, content.Spec.Service) // no others
	}
	restricted, err := p.restrict(object)
	if restricted.Bytes > maxObjectBytes {
		return rejected(ReasonObjectTooLarge, "object takes %d bytes of memory, at most %d are allowed", restricted.Bytes, maxObjectBytes)
	}
	return Arrival{Object: restricted, Admitted: true, Err: err, networks: p.Networks}
}

// Readmit applies the policy to an object that was admitted with other networks.
func (p Policy) Readmit(arrival Arrival) Arrival {
	if !arrival.Admitted || arrival.networks == p.Networks {
		return arrival
	}
	restricted, err := p.restrict(arrival.Object)
	if err == nil {
		err = arrival.Err
	}
	return Arrival{Object: restricted, Admitted: true, Err: err, Reread: arrival.Reread, networks: p.Networks}
}

// Retain applies the policy to an object that was admitted before, possibly by
// another policy. It does not modify the object. It reports false if nothing of
// the object may be kept.
func (p Policy) Retain(object Object) (Object, bool) {
	if object.Cluster == p.Self || object.Cluster != p.Member && !p.Relay.Allows(object.Cluster) || !p.allowsNamespace(object.Service.Namespace) {
		return object, false
	}
	restricted, _ := p.restrict(object)
	return restricted, true
}

func (p Policy) allowsNamespace(name string) bool {
	if p.AllowedNamespaces != nil {
		return p.AllowedNamespaces.Has(name)
	}
	return !p.ReservedNamespaces.Has(name)
}

// restrict drops addresses that the policy does not allow from a copy of the object,
// limits the age that it claims, and measures the result.
func (p Policy) restrict(object Object) (Object, *Refusal) {
	var err *Refusal
	switch content := object.Object.(type) {
	case *clusterset.ExportedService:
		content, err = dropForeignIPs(content, p.Ranges)
		object.Object = limitAge(content, p.JoinedAt)
	case *clusterset.ExportedEndpointSlice:
		object.Object, err = p.dropUnusableEndpoints(content)
	}
	object.Bytes = Footprint(object.Object)
	return object, err
}

// dropForeignIPs drops a shared ClusterSet IP that is outside of the ClusterSet
// IP ranges. A member that could name any address could redirect its traffic.
func dropForeignIPs(service *clusterset.ExportedService, ranges []netip.Prefix) (*clusterset.ExportedService, *Refusal) {
	if service.Spec.ClusterSetIP == nil {
		return service, nil
	}
	for _, text := range service.Spec.ClusterSetIP.IPs {
		address, err := netip.ParseAddr(text)
		if err != nil || !covered(ranges, address) {
			without := *service
			without.Spec.ClusterSetIP = nil
			return &without, refuse(ReasonClusterSetIP, "shared ClusterSet IP %s is ignored: outside of the ClusterSet IP range %v; set the same --clusterset-ip-range in all clusters", text, ranges)
		}
	}
	return service, nil
}

// dropUnusableEndpoints drops endpoints that cannot be Pods of the exporting
// cluster. A member that could name any address could make the nodes of this
// cluster send traffic to themselves, or to hosts outside of the ClusterSet.
func (p Policy) dropUnusableEndpoints(slice *clusterset.ExportedEndpointSlice) (*clusterset.ExportedEndpointSlice, *Refusal) {
	dropped, example := 0, ""
	endpoints := slices.DeleteFunc(slices.Clone(slice.Spec.Endpoints), func(endpoint discoveryv1.Endpoint) bool {
		for _, address := range endpoint.Addresses {
			if problem := p.unusable(address); problem != "" {
				if dropped++; dropped == 1 {
					example = address + ": " + problem
				}
				return true
			}
		}
		return false
	})
	if dropped == 0 {
		return slice, nil
	}
	restricted := *slice
	restricted.Spec.Endpoints = endpoints
	return &restricted, refuse(ReasonAddress, "%d endpoints are ignored, for example %s", dropped, example)
}

// unusable tells why an address cannot be that of a Pod of the exporting cluster.
// It returns an empty string if it can.
func (p Policy) unusable(text string) string {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil || !validation.IsEndpointAddress(text):
		return "not the address of a Pod"
	case len(p.AllowedCIDRs) > 0 && !covered(p.AllowedCIDRs, address):
		return "outside of " + clusterset.MemberSecretAllowedCIDRs + " in the Secret"
	case covered(p.Ranges, address):
		return "in the ClusterSet IP range"
	}
	return p.Networks.describe(address.Unmap(), p.AllowedCIDRs)
}

// covered reports whether an address is in one of the prefixes.
func covered(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}
