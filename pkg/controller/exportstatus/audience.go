// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Reasons of the condition Ready of exports that list clusters.
const (
	// reasonClustersMissing is that of an export that only some of the listed clusters can import.
	reasonClustersMissing    = "ClustersMissing"
	reasonNoMatchingCluster  = "NoMatchingCluster"
	reasonInvalidClusterList = "InvalidClusterList"
)

// listReasons are the reasons of the condition Ready that say what is wrong with a list.
var listReasons = []string{reasonClustersMissing, reasonNoMatchingCluster, reasonInvalidClusterList}

// exportedTo says which clusters can import an export, and which listed ones cannot.
func exportedTo(serviceExport *multiclusterxv1beta1.ServiceExport, served *clustersetv1alpha1.ExportedService, members []*clustersetv1alpha1.Member) (status metav1.ConditionStatus, reason, message string) {
	audience := served.Spec.Audience
	if audience == nil {
		return metav1.ConditionTrue, reasonReady, "Service is exported to the ClusterSet"
	}
	listed, _, errs := clusterlist.Parse(serviceExport.Annotations, multicluster.ExportToAnnotation)
	if len(errs) > 0 {
		return metav1.ConditionFalse, reasonInvalidClusterList, fmt.Sprintf("annotation %s is not valid: %s; the Service is exported to no other cluster until it is corrected",
			multicluster.ExportToAnnotation, clusterlist.Describe(errs))
	}
	excluded, unmatched := whoCannot(listed, audience, members)
	problems, ownOnly := slices.Concat(excluded, unmatched), len(listed) == 1 && listed[0].ID == served.Spec.Cluster
	switch {
	case len(audience.Clusters) == 0 && ownOnly:
		return metav1.ConditionTrue, reasonReady, "Service is exported to this cluster only"
	case len(audience.Clusters) == 0 && len(problems) == 0: // another list is served, or a member has a property for a short time
		return metav1.ConditionFalse, reasonPending, "waiting for mcs-apiserver to export the Service to the listed clusters"
	case len(excluded) == len(audience.Clusters):
		return metav1.ConditionFalse, reasonNoMatchingCluster, "no other cluster can import the Service; " + strings.Join(whyNone(listed, served.Spec.Cluster, problems), "; ")
	case len(problems) > 0:
		reason = reasonClustersMissing
	default:
		reason = reasonReady
	}
	return metav1.ConditionTrue, reason, strings.Join(append([]string{fmt.Sprintf("Service is exported to %s only", strings.Join(audience.Clusters, ", "))}, problems...), "; ")
}

// whoCannot returns why each cluster of an audience cannot import an export, of those that cannot,
// and which listed properties no other cluster has.
func whoCannot(listed clusterlist.Clusters, audience *clustersetv1alpha1.Audience, members []*clustersetv1alpha1.Member) (excluded, unmatched []string) {
	for _, id := range audience.Clusters {
		if problem := whyExcluded(id, audience, members); problem != "" {
			excluded = append(excluded, problem)
		}
	}
	for _, term := range listed {
		if problem := whyUnmatched(term, audience, members); problem != "" {
			unmatched = append(unmatched, problem)
		}
	}
	return excluded, unmatched
}

// whyNone returns why no cluster but this one can import an export, given what is wrong with those listed.
func whyNone(listed clusterlist.Clusters, own string, problems []string) []string {
	if slices.Contains(listed, clusterlist.Term{ID: own}) {
		return append([]string{fmt.Sprintf("%s is this cluster, which always has its own Service", own)}, problems...)
	}
	return problems
}

// whyExcluded returns why a listed cluster cannot import an export; empty if it can, as far as is known here.
func whyExcluded(id string, audience *clustersetv1alpha1.Audience, members []*clustersetv1alpha1.Member) string {
	entry := entryOf(id, members)
	switch {
	case entry == nil:
		return fmt.Sprintf("%s is not a member: check the ID with kubectl get members", id)
	case refused(entry):
		return fmt.Sprintf("%s is refused: see kubectl describe member %s", id, entry.Name)
	}
	if hub := clusterlist.UnlistedHub(entry.Status.Path, audience.Clusters); hub != "" {
		return fmt.Sprintf("%s is behind hub %s, which is not listed: add %s", id, hub, hub)
	}
	return ""
}

// whyUnmatched returns that no other cluster has a listed property, and which ones have it that do not count;
// empty if one has it, or an ID is listed.
func whyUnmatched(term clusterlist.Term, audience *clustersetv1alpha1.Audience, members []*clustersetv1alpha1.Member) string {
	if term.ID != "" {
		return ""
	}
	var others []string
	for _, entry := range members {
		if !term.Matches("", clusterlist.PropertiesOf(entry)) {
			continue
		}
		switch {
		case entry.Status.State == clustersetv1alpha1.MemberLocal:
			others = append(others, entry.Status.ClusterID+", which is this cluster")
		case refused(entry):
			others = append(others, entry.Status.ClusterID+", which is refused")
		case connecting(entry) && !slices.Contains(audience.Clusters, entry.Status.ClusterID):
			others = append(others, entry.Status.ClusterID+", which is not connected yet")
		default:
			return ""
		}
	}
	only := ""
	if len(others) > 0 {
		slices.Sort(others)
		only = fmt.Sprintf(" (only %s)", strings.Join(slices.Compact(others), "; "))
	}
	return fmt.Sprintf("no other member has ClusterProperty %s%s: create the ClusterClaim %s with value %s in the clusters that should import the Service", term, only, term.Property, term.Value)
}

// entryOf returns the entry of a cluster in the members list, nil if there is none. If several Secrets are
// for the cluster, only one entry has its ID as the name. An entry that is not refused counts first, then that one.
func entryOf(id string, members []*clustersetv1alpha1.Member) *clustersetv1alpha1.Member {
	var found *clustersetv1alpha1.Member
	precedes := func(a, b *clustersetv1alpha1.Member) bool {
		switch {
		case refused(a) != refused(b):
			return refused(b)
		case (a.Name == id) != (b.Name == id):
			return a.Name == id
		}
		return a.Name < b.Name
	}
	for _, entry := range members {
		if entry.Status.ClusterID == id && (found == nil || precedes(entry, found)) {
			found = entry
		}
	}
	return found
}

func refused(entry *clustersetv1alpha1.Member) bool {
	return entry.Status.State == clustersetv1alpha1.MemberRefused
}

func connecting(entry *clustersetv1alpha1.Member) bool {
	return entry.Status.State == clustersetv1alpha1.MemberConnecting
}

// importing identifies how a member can import what it is listed for.
func importing(object any) string {
	entry, ok := object.(*clustersetv1alpha1.Member)
	if !ok {
		return ""
	}
	return fmt.Sprint(entry.Status.ClusterID, refused(entry), connecting(entry), entry.Status.Path, entry.Status.Properties)
}
