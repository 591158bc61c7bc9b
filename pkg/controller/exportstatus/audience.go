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

// Reasons of exports that no other cluster can import because of the clusters that they list.
const (
	reasonInvalidClusterList = "InvalidClusterList"
	reasonNoMatchingCluster  = "NoMatchingCluster"
)

// exportedTo says which clusters can import an export, and which listed ones cannot.
func exportedTo(serviceExport *multiclusterxv1beta1.ServiceExport, served *clustersetv1alpha1.ExportedService, members []*clustersetv1alpha1.Member) (status metav1.ConditionStatus, reason, message string) {
	listed, given, errs := clusterlist.Parse(serviceExport.Annotations, multicluster.ExportToAnnotation)
	audience := served.Spec.Audience
	switch {
	case audience == nil:
		return metav1.ConditionTrue, reasonReady, "Service is exported to the ClusterSet"
	case len(errs) > 0:
		return metav1.ConditionFalse, reasonInvalidClusterList, fmt.Sprintf("annotation %s is not valid: %s; the Service is exported to no other cluster until it is corrected",
			multicluster.ExportToAnnotation, errs[0].Detail)
	case given && len(audience.Clusters) == 0 && !slices.ContainsFunc(listed, func(term clusterlist.Term) bool { return term.ID != served.Spec.Cluster }):
		return metav1.ConditionTrue, reasonReady, "Service is exported to this cluster only"
	}
	var problems []string
	excluded := 0
	for _, id := range audience.Clusters {
		if problem := whyExcluded(id, audience, members); problem != "" {
			problems = append(problems, problem)
			excluded++
		}
	}
	for _, term := range listed {
		if term.ID == "" && !slices.ContainsFunc(members, func(member *clustersetv1alpha1.Member) bool {
			return term.Matches("", clusterlist.PropertiesOf(member))
		}) {
			problems = append(problems, fmt.Sprintf("no member has ClusterProperty %s: create the ClusterClaim in the clusters that should import the Service", term))
		}
	}
	if excluded == len(audience.Clusters) {
		return metav1.ConditionFalse, reasonNoMatchingCluster, "no listed cluster can import the Service; " + strings.Join(problems, "; ")
	}
	return metav1.ConditionTrue, reasonReady, strings.Join(append([]string{fmt.Sprintf("Service is exported to %s only", strings.Join(audience.Clusters, ", "))}, problems...), "; ")
}

// whyExcluded returns why a listed cluster cannot import an export; empty if it can, as far as is known here.
func whyExcluded(id string, audience *clustersetv1alpha1.Audience, members []*clustersetv1alpha1.Member) string {
	i := slices.IndexFunc(members, func(member *clustersetv1alpha1.Member) bool { return member.Status.ClusterID == id })
	switch {
	case i < 0:
		return fmt.Sprintf("%s is not a member: check the ID with kubectl get members", id)
	case members[i].Status.State == clustersetv1alpha1.MemberRefused:
		return fmt.Sprintf("%s is refused: see kubectl describe member %s", id, id)
	}
	if hub := clusterlist.UnlistedHub(members[i].Status.Path, audience.Clusters); hub != "" {
		return fmt.Sprintf("%s is behind hub %s, which is not listed: add %s", id, hub, hub)
	}
	return ""
}

// importing identifies how a member can import what it is listed for.
func importing(object any) string {
	entry, ok := object.(*clustersetv1alpha1.Member)
	if !ok {
		return ""
	}
	return fmt.Sprint(entry.Status.ClusterID, entry.Status.State == clustersetv1alpha1.MemberRefused, entry.Status.Path, entry.Status.Properties)
}
