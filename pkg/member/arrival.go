// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

// read turns an object of a feed into a fact, without judging it.
func read(object any) (fact, error) {
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		service := &clusterset.ExportedService{}
		if err := clustersetv1alpha1.Convert_v1alpha1_ExportedService_To_clusterset_ExportedService(object, service, nil); err != nil {
			return fact{}, err
		}
		service.TypeMeta, service.ObjectMeta = metav1.TypeMeta{}, essential(service.ObjectMeta)
		return serviceFact(service), nil
	case *clustersetv1alpha1.ExportedEndpointSlice:
		slice := &clusterset.ExportedEndpointSlice{}
		if err := clustersetv1alpha1.Convert_v1alpha1_ExportedEndpointSlice_To_clusterset_ExportedEndpointSlice(object, slice, nil); err != nil {
			return fact{}, err
		}
		slice.TypeMeta, slice.ObjectMeta = metav1.TypeMeta{}, essential(slice.ObjectMeta)
		return sliceFact(slice), nil
	}
	return fact{}, fmt.Errorf("a feed cannot hold a %T", object)
}

// essential leaves out what differs between replicas of a member, and
// whatever else it might have put there.
func essential(metadata metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: metadata.Name, Namespace: metadata.Namespace, UID: metadata.UID,
		CreationTimestamp: metadata.CreationTimestamp, Labels: metadata.Labels,
	}
}

// arrive judges a fact that a member told, and adds the member to its path.
// What is not meant for this cluster is left out without an error: a hub tells
// everything it knows to everybody. What is taken only in part has an error too.
func arrive(self string, from *spec, ranges []netip.Prefix, f fact) (_ fact, taken bool, _ error) {
	path := pathOf(f)
	switch {
	case f.cluster == self, slices.Contains(path, self), slices.Contains(path, from.id):
		return f, false, nil // told back to where it came from
	case f.cluster != from.id && from.relay.any() && !from.relay.allows(f.cluster):
		return f, false, nil // known to the hub, and not wanted from it
	case f.cluster != from.id && !from.relay.any():
		return f, false, fmt.Errorf("it speaks for cluster %q, which only a member may whose Secret says so (%s)", f.cluster, clusterset.MemberSecretRelayFor)
	case f.cluster == from.id && len(path) > 0:
		return f, false, fmt.Errorf("its own export has a path: %v", path)
	case f.cluster != from.id && len(path) == 0:
		return f, false, fmt.Errorf("it says that cluster %q is itself, because the export has no path", f.cluster)
	}
	path = append(slices.Clone(path), from.id)
	switch object := f.object.(type) {
	case *clusterset.ExportedService:
		if errs := validation.ValidateExportedService(object); len(errs) > 0 {
			return f, false, errs.ToAggregate()
		}
		object.Spec.Path = path
		return f, true, dropOutside(object, ranges)
	case *clusterset.ExportedEndpointSlice:
		if errs := validation.ValidateExportedEndpointSlice(object); len(errs) > 0 {
			return f, false, errs.ToAggregate()
		}
		object.Spec.Path = path
		return f, true, dropUnusable(object, from.allowed)
	}
	return f, true, nil
}

// dropOutside takes from an export addresses that may not be those of services.
// Whoever could name any address could take the traffic to it.
func dropOutside(service *clusterset.ExportedService, ranges []netip.Prefix) error {
	if service.Spec.ClusterSetIP == nil {
		return nil
	}
	for _, text := range service.Spec.ClusterSetIP.IPs {
		address, err := netip.ParseAddr(text)
		if err != nil || !slices.ContainsFunc(ranges, func(prefix netip.Prefix) bool { return prefix.Contains(address) }) {
			service.Spec.ClusterSetIP = nil
			return fmt.Errorf("its IP for all clusters, %s, is not in the range %v that this cluster takes them from (--clusterset-ip-range)", text, ranges)
		}
	}
	return nil
}

// dropUnusable takes endpoints out of a slice that cannot be Pods of the other
// cluster, and says which. Whoever could name any address could make the nodes
// here send traffic to themselves, or to somebody who is no Pod at all.
func dropUnusable(slice *clusterset.ExportedEndpointSlice, allowed []netip.Prefix) error {
	var dropped []string
	usable := func(text string) bool {
		address, err := netip.ParseAddr(text)
		if err != nil || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() || address.IsLinkLocalUnicast() {
			return false
		}
		return len(allowed) == 0 || slices.ContainsFunc(allowed, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
	}
	slice.Spec.Endpoints = slices.DeleteFunc(slices.Clone(slice.Spec.Endpoints), func(endpoint discoveryv1.Endpoint) bool {
		at := slices.IndexFunc(endpoint.Addresses, func(address string) bool { return !usable(address) })
		if at >= 0 {
			dropped = append(dropped, endpoint.Addresses[at])
		}
		return at >= 0
	})
	if len(dropped) == 0 {
		return nil
	}
	return fmt.Errorf("%d endpoints are left out, because their addresses cannot be those of its Pods (%s in its Secret), the first: %s", len(dropped), clusterset.MemberSecretAllowedCIDRs, dropped[0])
}

func pathOf(f fact) []string {
	switch object := f.object.(type) {
	case *clusterset.ExportedService:
		return object.Spec.Path
	case *clusterset.ExportedEndpointSlice:
		return object.Spec.Path
	}
	return nil
}
