// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// surroundings are what an import depends on in its own cluster.
type surroundings struct {
	// derived is the Service that stands for the import; nil if there is none.
	derived *corev1.Service
	// occupied is true if somebody else's Service has its name.
	occupied bool
	// slices says whether there are imported EndpointSlices.
	slices bool
}

// newImport is the import of a service that at least one cluster exports. It
// lacks what its birth gave it: UID, creation time, and times of conditions.
func newImport(key types.NamespacedName, exports []member.Export, around surroundings) *multicluster.ServiceImport {
	var mergeables []merge.Export
	for _, export := range exports {
		mergeables = append(mergeables, merge.FromExported(export.Service))
	}
	merged := merge.Merge(mergeables)
	result := &multicluster.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: maps.Clone(merged.Labels), Annotations: map[string]string{}},
		Spec:       merged.Spec,
	}
	maps.Copy(result.Annotations, merged.Annotations)
	result.Annotations[multicluster.DerivedServiceAnnotation] = multicluster.DerivedServiceName(key.Namespace, key.Name)
	for _, cluster := range merged.Clusters {
		result.Status.Clusters = append(result.Status.Clusters, multicluster.ClusterStatus{Cluster: cluster})
	}
	result.Status.EndpointSliceObjects = multicluster.EndpointSliceObjectsAbsent
	if around.slices {
		result.Status.EndpointSliceObjects = multicluster.EndpointSliceObjectsPresent
	}
	showDecision(result, mergeables, merged.IP)
	addresses(result, around.derived, merged.IP)
	result.Status.Conditions = []metav1.Condition{ready(result, merged, around)}
	if unreachable := membersReachable(exports); unreachable != nil {
		result.Status.Conditions = append(result.Status.Conditions, *unreachable)
	}
	return result
}

// showDecision tells whether the import has one IP in all clusters, and who
// allocated it, if there is any question of that.
func showDecision(result *multicluster.ServiceImport, exports []merge.Export, decision *clusterset.ClusterSetIPDecision) {
	asked := slices.ContainsFunc(exports, func(export merge.Export) bool { return export.IP.Wants })
	if decision == nil || !asked && len(decision.IPs) == 0 {
		return
	}
	result.Annotations[multicluster.UseClusterSetIPAnnotation] = strconv.FormatBool(len(decision.IPs) > 0)
	if len(decision.IPs) > 0 && result.Spec.Type == multicluster.ClusterSetIP {
		result.Annotations[multicluster.ClusterSetIPAnnotation] = strings.Join(decision.IPs, ",")
		result.Annotations[multicluster.ClusterSetIPAllocatedByAnnotation] = decision.DecidedBy
	}
}

// addresses gives the import the families of its derived Service, as far as the
// exports have them: its own cluster may support less. The address of each
// family is the one for all clusters, once the Service has it, or else the
// Service's own. Before it is decided which, it has none, since the address of an
// import never changes.
func addresses(result *multicluster.ServiceImport, derived *corev1.Service, decision *clusterset.ClusterSetIPDecision) {
	if derived == nil {
		return
	}
	if len(result.Spec.IPFamilies) == 0 { // the oldest export does not say
		result.Spec.IPFamilies = derived.Spec.IPFamilies
	}
	result.Spec.IPFamilies = merge.SupportedFamilies(result.Spec.IPFamilies, derived.Spec.IPFamilies)
	if result.Spec.Type != multicluster.ClusterSetIP || decision == nil {
		return
	}
	for _, family := range result.Spec.IPFamilies {
		if ip := clusterSetIP(decision, family); ip != "" {
			if slices.ContainsFunc(derived.Status.LoadBalancer.Ingress, func(ingress corev1.LoadBalancerIngress) bool { return ingress.IP == ip }) {
				result.Spec.IPs = append(result.Spec.IPs, ip)
			}
			continue
		}
		at := slices.Index(derived.Spec.IPFamilies, family)
		if at < len(derived.Spec.ClusterIPs) && derived.Spec.ClusterIPs[at] != corev1.ClusterIPNone {
			result.Spec.IPs = append(result.Spec.IPs, derived.Spec.ClusterIPs[at])
		}
	}
}

// clusterSetIP is the address of a family that was decided on; empty if there
// is none.
func clusterSetIP(decision *clusterset.ClusterSetIPDecision, family corev1.IPFamily) string {
	if decision == nil {
		return ""
	}
	for _, ip := range decision.IPs {
		if address, err := netip.ParseAddr(ip); err == nil && address.Is4() == (family == corev1.IPv4Protocol) {
			return ip
		}
	}
	return ""
}

func ready(result *multicluster.ServiceImport, merged merge.Result, around surroundings) metav1.Condition {
	derived, families := around.derived, merged.Spec.IPFamilies
	condition := metav1.Condition{Type: multicluster.ServiceImportReady, Status: metav1.ConditionFalse, Reason: multicluster.ServiceImportReasonPending}
	name := result.Annotations[multicluster.DerivedServiceAnnotation]
	switch headless := result.Spec.Type == multicluster.Headless; {
	case around.occupied:
		condition.Message = fmt.Sprintf("Service %q is in the way of the one that stands for the import, and was not made by mcs-controller: delete it", name)
	case derived == nil:
		condition.Message = fmt.Sprintf("waiting for mcs-controller to make the Service %q that stands for the import", name)
	case len(families) > 0 && len(result.Spec.IPFamilies) == 0:
		condition.Reason = multicluster.ServiceImportReasonIPFamilyNotSupported
		condition.Message = fmt.Sprintf("the service is exported with %s, and this cluster has only %s", families, derived.Spec.IPFamilies)
	case headless != (derived.Spec.ClusterIP == corev1.ClusterIPNone):
		condition.Message = fmt.Sprintf("the type has changed: waiting for mcs-controller to replace the Service %q", name)
	case !headless && merged.IP == nil:
		condition.Message = "waiting for the cluster whose export was the first to allocate one IP for all clusters: the condition Ready of its ServiceExport says why it has not"
	case !headless && derived.Annotations[multicluster.ClusterSetIPProblemAnnotation] != "" && len(result.Spec.IPs) < len(result.Spec.IPFamilies):
		condition.Reason = multicluster.ServiceImportReasonClusterSetIPUnavailable
		condition.Message = derived.Annotations[multicluster.ClusterSetIPProblemAnnotation]
	case !headless && len(result.Spec.IPs) < max(1, len(result.Spec.IPFamilies)):
		condition.Message = fmt.Sprintf("waiting for the Service %q to get its IP", name)
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, multicluster.ServiceImportReasonReady, "the service can be used"
		if problems := derivedProblems(derived); len(problems) > 0 {
			condition.Message += ": " + strings.Join(problems, "; ")
		}
	}
	return condition
}

// derivedProblems returns how a derived Service falls short of its import.
func derivedProblems(derived *corev1.Service) []string {
	var problems []string
	for _, annotation := range []string{multicluster.ClusterSetIPProblemAnnotation, multicluster.TrafficDistributionProblemAnnotation} {
		if problem := derived.Annotations[annotation]; problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

// membersReachable is nil while every exporting cluster is in touch.
func membersReachable(exports []member.Export) *metav1.Condition {
	var stale, lost []string
	for _, export := range exports {
		text := fmt.Sprintf("%s (last seen %s)", export.Service.Spec.Cluster, export.LastSeen.UTC().Format(time.RFC3339))
		switch export.State {
		case clusterset.MemberStale:
			stale = append(stale, text)
		case clusterset.MemberLost:
			lost = append(lost, text)
		}
	}
	if len(stale)+len(lost) == 0 {
		return nil
	}
	condition := &metav1.Condition{Type: multicluster.ServiceImportMembersReachable, Status: metav1.ConditionFalse, Reason: "MembersStale"}
	var parts []string
	for _, group := range []struct {
		name     string
		clusters []string
	}{{"stale", stale}, {"lost", lost}} {
		if len(group.clusters) > 0 {
			slices.Sort(group.clusters)
			parts = append(parts, group.name+": "+strings.Join(group.clusters, ", "))
		}
	}
	if len(lost) > 0 {
		condition.Reason = "MembersLost"
	}
	condition.Message = "exporting clusters that cannot be reached; " + strings.Join(parts, "; ")
	return condition
}
