// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// maxNamed is how many characters the values of other clusters take.
const maxNamed = 200

// preference checks whether the clusters that the import prefers are preferred, given the derived
// Service.
func (d *diagnosis) preference(service *corev1.Service) {
	imported := d.Importing.Path.Import.Value
	if imported == nil {
		return
	}
	preference := clusterpreference.OfImport(imported.Annotations)
	if preference == nil {
		return
	}
	warning := Check{Hop: Derived, Result: Warning, Object: "service/" + service.Name}
	if problem := service.Annotations[multicluster.ClusterPreferenceProblemAnnotation]; problem != "" {
		look := fmt.Sprintf("kubectl --context %s get nodes -L %s", d.Importing.Context, corev1.LabelTopologyZone)
		if service.Spec.ClusterIP == corev1.ClusterIPNone || ptr.Deref(service.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal {
			look = fmt.Sprintf("kubectl --context %s get serviceexports %s -n %s -o yaml", d.Importing.Context, imported.Name, imported.Namespace)
		}
		d.add(warning.at(Derived, "%s", problem).do("", look, docsPreference).byItself())
	}
	active := imported.Annotations[multicluster.ActiveTierAnnotation]
	if active == "" {
		return // no clusters are preferred, whatever the reason: properties do not matter
	}
	if local := d.Importing.local(); local != nil {
		for _, tier := range preference.Tiers {
			d.tier(warning, tier, local.Status.Properties)
		}
	}
	d.ok(Derived, "tier %q is active: %s", active, imported.Annotations[multicluster.ActiveTierReasonAnnotation])
}

// tier checks whether any other cluster can be in a tier of a preference.
func (d *diagnosis) tier(warning Check, tier clusterpreference.Tier, own []clustersetv1alpha1.ClusterProperty) {
	name, isProperty := tier.Property()
	if !isProperty {
		return
	}
	get := fmt.Sprintf("kubectl --context %s get clusterclaims", d.Importing.Context)
	here, has := valueOf(own, name)
	if !has {
		d.add(warning.at(Derived, "tier %q is skipped, because this cluster has no ClusterProperty %q", tier, name).
			do("create a ClusterClaim of that name", get, docsPreference).byItself())
		return
	}
	var others []string
	for _, member := range d.Importing.Members.Value {
		value, known := valueOf(member.Status.Properties, name)
		switch {
		case member.Status.State == clustersetv1alpha1.MemberLocal || !known:
		case value == here:
			return
		default:
			others = append(others, fmt.Sprintf("%s has %q", member.Name, value))
		}
	}
	if len(others) == 0 {
		d.add(warning.at(Derived, "tier %q has this cluster only, because no other member is known to have the ClusterProperty %q", tier, name).
			do("create a ClusterClaim of that name in the other clusters", get, docsPreference).byItself())
		return
	}
	slices.Sort(others)
	d.add(warning.at(Derived, "tier %q has this cluster only, because the ClusterProperty %q is %q here, and no other member is known to have that value: %s",
		tier, name, here, truncate.Characters(strings.Join(others, ", "), maxNamed)).
		do("if that is not intended, correct the ClusterClaim of that name here, or in the other clusters", get, docsPreference).byItself())
}

// valueOf returns the value of a ClusterProperty, if the cluster has it.
func valueOf(properties []clustersetv1alpha1.ClusterProperty, name string) (value string, has bool) {
	for _, property := range properties {
		if property.Name == name {
			return property.Value, true
		}
	}
	return "", false
}
