// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// newImported returns what a cluster imported. The import is nil if there is none.
func newImported(found *multiclusterxv1beta1.ServiceImport, endpointSlices []discoveryv1.EndpointSlice) imported {
	result := imported{endpoints: map[string][]string{}}
	if found == nil {
		return result
	}
	result.families = found.Spec.IPFamilies
	if found.Spec.Type != multiclusterxv1beta1.Headless {
		result.ips = found.Spec.IPs
	}
	for i := range endpointSlices {
		source := endpointSlices[i].Labels[multicluster.SourceClusterLabel]
		for _, endpoint := range endpointSlices[i].Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, true) {
				result.endpoints[source] = append(result.endpoints[source], endpoint.Addresses...)
			}
		}
	}
	return result
}

// missing returns what a cluster has not imported yet, empty if it has everything.
func missing(from *facts, clusters []facts, found imported, headless bool, states map[string]clustersetv1alpha1.MemberState) string {
	var lacking []string
	for i := range clusters {
		to := &clusters[i]
		if slices.ContainsFunc(families, func(family corev1.IPFamily) bool {
			result, _ := applies(from, found, to, family)
			return result == Pending && len(ofFamily(found.endpoints[to.id], family)) == 0
		}) {
			lacking = append(lacking, describeMember(from.id, to.id, states))
		}
	}
	switch {
	case len(lacking) > 0:
		return fmt.Sprintf("cluster %s did not import all endpoints in time: %s", from.id, strings.Join(lacking, "; "))
	case !headless && len(found.ips) == 0:
		return fmt.Sprintf("the import in cluster %s did not get an IP in time", from.id)
	}
	return ""
}

// describeMember says what a cluster knows of another one.
func describeMember(from, to string, states map[string]clustersetv1alpha1.MemberState) string {
	switch state, found := states[to]; {
	case from == to:
		return to + " (its own)"
	case !found:
		return to + " (not a member there)"
	default:
		return fmt.Sprintf("%s (%s there)", to, state)
	}
}
