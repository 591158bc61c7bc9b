// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// preferenceNotes are what the annotations of a derived Service say about which clusters answer.
// mcs-apiserver shows them on the import, also while it does not know who exports it.
type preferenceNotes struct {
	tiers, minReady string
	// active is the active tier, and reason why that is active.
	active, reason string
	// problem is why the clusters that the import prefers are not preferred, and ineffective its
	// kind.
	problem     string
	ineffective ineffectiveReason
}

// ineffectiveReason is a kind of reason for which a preference has no effect on some or all clients.
type ineffectiveReason string

const (
	nodesWithoutZone ineffectiveReason = "NodesWithoutZone"
	tooFewEndpoints  ineffectiveReason = "TooFewEndpoints"
	importType       ineffectiveReason = "ImportType"
)

func (n preferenceNotes) apply(service *corev1.Service) {
	setAnnotation(service, multicluster.ClusterPreferenceAnnotation, n.tiers)
	setAnnotation(service, multicluster.PreferenceMinReadyAnnotation, n.minReady)
	setAnnotation(service, multicluster.ActiveTierAnnotation, n.active)
	setAnnotation(service, multicluster.ActiveTierReasonAnnotation, n.reason)
	setAnnotation(service, multicluster.ClusterPreferenceProblemAnnotation, n.problem)
}

// preferenceNotes returns what is said about an import whose derived Service may exist.
func (c *Controller) preferenceNotes(serviceImport *multiclusterxv1beta1.ServiceImport, existing *corev1.Service) preferenceNotes {
	wanted := preferred(serviceImport)
	if wanted == nil {
		if problem := preferenceObstacle(serviceImport); problem != "" {
			return preferenceNotes{problem: problem, ineffective: importType}
		}
		return preferenceNotes{}
	}
	notes := preferenceNotes{tiers: wanted.String(), minReady: strconv.Itoa(int(wanted.MinReady))}
	method, problem := c.method.In(c.zones())
	if problem != "" {
		notes.problem, notes.ineffective = problem, nodesWithoutZone
	}
	if method == "" {
		return notes
	}
	name := types.NamespacedName{Namespace: serviceImport.Namespace, Name: serviceImport.Name}
	if zones := c.tiers.uncoveredZones(name); method == preference.Hints && len(zones) > 0 {
		notes.ineffective = cmp.Or(notes.ineffective, tooFewEndpoints)
		notes.problem = strings.TrimPrefix(problem+"; ", "; ") + describeUncovered(zones, len(c.zones().Names))
	}
	notes.active, notes.reason = c.activeTier(name, *wanted, serviceImport.Spec.IPFamilies, existing)
	return notes
}

// describeUncovered describes that no endpoint is hinted for some of all zones.
func describeUncovered(zones []string, all int) string {
	return fmt.Sprintf("clients in zone %q use all clusters (%d of %d zones): the active tier has too few ready endpoints to be hinted for all of them; "+
		"add endpoints, or set --preference-by=detach of mcs-controller", zones[0], len(zones), all)
}

// activeTier returns the tier that is active for an import, and why. What another replica decided
// stands until this one has decided.
func (c *Controller) activeTier(name types.NamespacedName, wanted clusterpreference.Preference, imported []corev1.IPFamily, existing *corev1.Service) (active, reason string) {
	var families []discoveryv1.AddressType
	byFamily := map[discoveryv1.AddressType]clusterpreference.Tier{}
	for _, family := range sliceFamilies {
		tier := c.tiers.state(tierKey{name, family}).Active
		if tier == "" {
			tier = annotatedTier(existing, family)
		}
		if tier != "" && hasFamily(imported, family) {
			families, byFamily[family] = append(families, family), tier
		}
	}
	var tiers, reasons []string
	clusters := c.tiers.clusters()
	for _, family := range families {
		tier := byFamily[family]
		if tier == byFamily[families[0]] && tier == byFamily[families[len(families)-1]] {
			return string(tier), clusters.Reason(wanted, tier)
		}
		tiers = append(tiers, fmt.Sprintf("%s=%s", family, tier))
		reasons = append(reasons, fmt.Sprintf("%s: %s", family, clusters.Reason(wanted, tier)))
	}
	return strings.Join(tiers, ","), strings.Join(reasons, "; ")
}

// annotatedTier returns the tier for an IP family that a derived Service, which may be nil, is
// annotated with, empty if there is none.
func annotatedTier(service *corev1.Service, family discoveryv1.AddressType) clusterpreference.Tier {
	if service == nil || !hasFamily(service.Spec.IPFamilies, family) {
		return ""
	}
	for part := range strings.SplitSeq(service.Annotations[multicluster.ActiveTierAnnotation], ",") {
		of, tier, named := strings.Cut(part, "=")
		switch {
		case !named:
			return clusterpreference.Tier(part)
		case of == string(family):
			return clusterpreference.Tier(tier)
		}
	}
	return ""
}

// reportUncovered has the derived Service written if clients of other zones than before use all
// clusters, although an import prefers some.
func (c *Controller) reportUncovered(of key, answering *answering) {
	if answering == nil || !answering.hinted {
		return // it was forgotten, or nothing was computed that could be written
	}
	changed := false
	for _, family := range sliceFamilies {
		zones, covers := answering.uncovered[family]
		changed = c.tiers.setUncovered(tierKey{of.NamespacedName, family}, of.cluster, zones, covers) || changed
	}
	if changed {
		c.queue.Add(ofService(of.NamespacedName))
	}
}
