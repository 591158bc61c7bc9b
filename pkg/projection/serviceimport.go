// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// localState describes the objects of the importing cluster that belong to an
// import.
type localState struct {
	// derived is the derived Service, or nil if it does not exist.
	derived *corev1.Service
	// mark is what the derived Service, which may be being deleted, is marked with.
	mark string
	// conflicting is a Service with the name of the derived Service that
	// mcs-controller does not manage, or nil if there is none.
	conflicting *corev1.Service
	// slices is whether imported EndpointSlices exist.
	slices bool
	// endpointSlices is what the namespace asks of them, see EndpointSlicesAnnotation.
	endpointSlices string
	// ip is what matters of this cluster for the shared ClusterSet IP.
	ip clustersetip.Local
}

// newImport returns the import of a Service that at least one cluster exports.
func newImport(key types.NamespacedName, identity importidentity.Identity, exports []member.Export, local localState) *multicluster.ServiceImport {
	var mergeables []merge.Export
	for _, export := range exports {
		mergeables = append(mergeables, merge.FromExported(export.Service))
	}
	merged := merge.MergeIn(local.ip, mergeables)
	result := newIdentified(key, identity)
	result.Labels, result.Spec = maps.Clone(merged.Labels), merged.Spec
	for name, value := range merged.Annotations {
		if _, ours := result.Annotations[name]; !ours {
			result.Annotations[name] = value
		}
	}
	for _, cluster := range merged.Clusters {
		result.Status.Clusters = append(result.Status.Clusters, multicluster.ClusterStatus{Cluster: cluster})
	}
	setSlices(result, local)
	annotatePreference(result, merged.Preference, local.derived)
	annotateClusterSetIP(result, mergeables, merged.IP)
	setAddresses(result, local.derived, merged.IP)
	stayHeadless(result, merged, local.derived)
	result.Status.Conditions = []metav1.Condition{ready(result, merged, foundedAt(exports), local)}
	if unreachable := membersReachable(exports); unreachable != nil {
		result.Status.Conditions = append(result.Status.Conditions, *unreachable)
	}
	for i := range result.Status.Conditions {
		condition := &result.Status.Conditions[i]
		condition.LastTransitionTime = latest(condition.LastTransitionTime.Rfc3339Copy(), result.CreationTimestamp)
	}
	result.Generation = generation(&result.Spec)
	return result
}

// generation returns the generation of an import. Clients that do not care for the status
// ignore updates that do not change it, so it differs between specs. It is a hash and not a
// count: it is the same in all replicas and after a restart, although nobody stores it. It has
// 48 bits, so that clients in all languages can represent it.
func generation(spec *multicluster.ServiceImportSpec) int64 {
	text, err := json.Marshal(spec)
	if err != nil {
		return 1 // unreachable: all fields can be encoded
	}
	sum := sha256.Sum256(text)
	return 1 + int64(binary.BigEndian.Uint64(sum[:])>>16)
}

// newIdentified returns an import that has an identity only.
func newIdentified(key types.NamespacedName, identity importidentity.Identity) *multicluster.ServiceImport {
	result := &multicluster.ServiceImport{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: identity.UID, CreationTimestamp: identity.Created,
		Annotations: map[string]string{multicluster.DerivedServiceAnnotation: multicluster.DerivedServiceName(key.Namespace, key.Name)},
	}}
	if mark := identity.Mark(); mark != "" {
		result.Annotations[multicluster.ImportLifeAnnotation] = mark
	}
	return result
}

// setSlices sets whether imported EndpointSlices exist, and what the namespace asks of them:
// mcs-controller reads the imports, and not the namespaces.
func setSlices(result *multicluster.ServiceImport, local localState) {
	if local.endpointSlices == multicluster.EndpointSlicesSeparate {
		result.Annotations[multicluster.EndpointSlicesAnnotation] = local.endpointSlices
	}
	result.Status.EndpointSliceObjects = multicluster.EndpointSliceObjectsAbsent
	if local.slices {
		result.Status.EndpointSliceObjects = multicluster.EndpointSliceObjectsPresent
	}
}

// annotatePreference annotates the import with which clusters should answer: the type has no
// field for it, and mcs-controller reads the imports. Which do answer is on the derived Service.
func annotatePreference(result *multicluster.ServiceImport, preference clusterpreference.Preference, derived *corev1.Service) {
	if len(preference.Tiers) == 0 {
		return
	}
	result.Annotations[multicluster.ClusterPreferenceAnnotation] = preference.String()
	result.Annotations[multicluster.PreferenceMinReadyAnnotation] = strconv.Itoa(int(preference.MinReady))
	copyAnnotations(result, derived, multicluster.ActiveTierAnnotation, multicluster.ActiveTierReasonAnnotation)
}

// copyAnnotations copies annotations of the derived Service, which may be nil, to the import.
func copyAnnotations(result *multicluster.ServiceImport, derived *corev1.Service, names ...string) {
	for _, name := range names {
		if derived != nil && derived.Annotations[name] != "" {
			result.Annotations[name] = derived.Annotations[name]
		}
	}
}

// annotateClusterSetIP annotates the import with whether it has a shared
// ClusterSet IP and which cluster allocated it, if any export requests one or
// one was allocated.
func annotateClusterSetIP(result *multicluster.ServiceImport, exports []merge.Export, decision *clusterset.ClusterSetIPDecision) {
	requested := slices.ContainsFunc(exports, func(export merge.Export) bool { return export.IP.Wants })
	if decision == nil || !requested && len(decision.IPs) == 0 {
		return
	}
	result.Annotations[multicluster.UseClusterSetIPAnnotation] = strconv.FormatBool(len(decision.IPs) > 0)
	if len(decision.IPs) > 0 && result.Spec.Type == multicluster.ClusterSetIP {
		result.Annotations[multicluster.ClusterSetIPAnnotation] = strings.Join(decision.IPs, ",")
		result.Annotations[multicluster.ClusterSetIPAllocatedByAnnotation] = decision.DecidedBy
	}
}

// setAddresses sets the IP families and IPs of the import. The families are
// those of the exports that the derived Service has too: this cluster may
// support fewer. The IP of a family is the shared ClusterSet IP, once the derived
// Service has it, or else the ClusterIP. Until the decision about the shared
// ClusterSet IP is made the import has no IP, because the IP must not change.
func setAddresses(result *multicluster.ServiceImport, derived *corev1.Service, decision *clusterset.ClusterSetIPDecision) {
	if derived == nil || derived.Spec.Type == corev1.ServiceTypeExternalName { // its type is being changed
		return
	}
	if len(result.Spec.IPFamilies) == 0 { // the oldest export does not specify any
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

// stayHeadless lets an import whose type changes to ClusterSetIP be Headless until its
// derived Service has an IP: DNS answers with the endpoints until then. mcs-controller sees
// from the annotation which type the derived Service should have. As long as it is not
// decided which IP the import gets, the derived Service is headless.
func stayHeadless(result *multicluster.ServiceImport, merged merge.Result, derived *corev1.Service) {
	if merged.Spec.Type != multicluster.ClusterSetIP || derived == nil || !withoutIP(derived) {
		return
	}
	result.Spec.Type, result.Spec.IPs = multicluster.Headless, nil
	if merged.IP != nil {
		result.Annotations[multicluster.PendingTypeAnnotation] = string(multicluster.ClusterSetIP)
	}
}

// withoutIP reports whether a derived Service is headless, or not yet anything else.
func withoutIP(derived *corev1.Service) bool {
	return derived.Spec.ClusterIP == corev1.ClusterIPNone || derived.Spec.Type == corev1.ServiceTypeExternalName || derived.Annotations[multicluster.PendingTypeAnnotation] != ""
}

// clusterSetIP returns the shared ClusterSet IP of a family, or "" if none was
// allocated.
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

// foundedAt returns when the oldest export took effect.
func foundedAt(exports []member.Export) metav1.Time {
	founding := exports[0].Service.Spec.Since()
	for _, export := range exports[1:] {
		if since := export.Service.Spec.Since(); since.Before(&founding) {
			founding = since
		}
	}
	return founding
}

// latest returns the later of two times.
func latest(a, b metav1.Time) metav1.Time {
	if a.Before(&b) {
		return b
	}
	return a
}

// ready returns the condition Ready of an import. Its transition time is that of
// its cause, as far as that is known, so that it is the same in every replica and
// after a restart: the creation of the derived Service or, if the exports are the
// cause, of the oldest export, which took effect at foundedAt.
func ready(result *multicluster.ServiceImport, merged merge.Result, foundedAt metav1.Time, local localState) metav1.Condition {
	derived, families := local.derived, merged.Spec.IPFamilies
	condition := metav1.Condition{Type: multicluster.ServiceImportReady, Status: metav1.ConditionFalse, Reason: multicluster.ServiceImportReasonPending}
	if derived != nil {
		condition.LastTransitionTime = derived.CreationTimestamp
	}
	name := result.Annotations[multicluster.DerivedServiceAnnotation]
	switch headless := merged.Spec.Type == multicluster.Headless; {
	case local.conflicting != nil:
		condition.Message = fmt.Sprintf("name conflict: Service %q is not managed by mcs-controller; delete it so that the derived Service can be created", name)
		condition.LastTransitionTime = local.conflicting.CreationTimestamp
	case derived == nil:
		condition.Message = fmt.Sprintf("waiting for mcs-controller to create derived Service %q", name)
	case len(families) > 0 && len(result.Spec.IPFamilies) == 0:
		condition.Reason = multicluster.ServiceImportReasonIPFamilyNotSupported
		condition.Message = fmt.Sprintf("Service is exported with IP families %s, but this cluster supports only %s", families, derived.Spec.IPFamilies)
		condition.LastTransitionTime = latest(derived.CreationTimestamp, foundedAt)
	case headless && derived.Spec.ClusterIP != corev1.ClusterIPNone:
		condition.Message = fmt.Sprintf("type of the import changed to Headless; waiting for mcs-controller to make derived Service %q headless", name)
		condition.LastTransitionTime = latest(derived.CreationTimestamp, foundedAt)
	case !headless && merged.IP == nil:
		condition.Message = "waiting for the cluster of the founding export to allocate a shared ClusterSet IP; condition Ready of its ServiceExport has details"
		condition.LastTransitionTime = latest(derived.CreationTimestamp, foundedAt)
	case !headless && withoutIP(derived):
		condition.Message = fmt.Sprintf("type of the import changes to ClusterSetIP; it is Headless until derived Service %q has an IP", name)
		condition.LastTransitionTime = latest(derived.CreationTimestamp, foundedAt)
	case !headless && derived.Annotations[multicluster.ClusterSetIPProblemAnnotation] != "" && len(result.Spec.IPs) < len(result.Spec.IPFamilies):
		condition.Reason = multicluster.ServiceImportReasonClusterSetIPUnavailable
		condition.Message = derived.Annotations[multicluster.ClusterSetIPProblemAnnotation]
	case !headless && len(result.Spec.IPs) < max(1, len(result.Spec.IPFamilies)):
		condition.Message = fmt.Sprintf("waiting for an IP to be assigned to derived Service %q", name)
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, multicluster.ServiceImportReasonReady, "ServiceImport is ready to use"
		if problems := derivedProblems(derived); len(problems) > 0 {
			condition.Message += "; " + strings.Join(problems, "; ")
		}
	}
	return condition
}

// derivedProblems returns how a derived Service falls short of its import.
func derivedProblems(derived *corev1.Service) []string {
	var problems []string
	for _, annotation := range []string{
		multicluster.ClusterSetIPProblemAnnotation, multicluster.TrafficDistributionProblemAnnotation, multicluster.ClusterPreferenceProblemAnnotation,
	} {
		if problem := derived.Annotations[annotation]; problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

// membersReachable returns the condition MembersReachable, or nil if all
// exporting clusters are reachable. Its transition time is when the first of the
// unreachable clusters was last seen.
func membersReachable(exports []member.Export) *metav1.Condition {
	var stale, lost []string
	var since metav1.Time
	for _, export := range exports {
		text := fmt.Sprintf("%s (last seen %s)", export.Service.Spec.Cluster, export.LastSeen.UTC().Format(time.RFC3339))
		switch export.State {
		case clusterset.MemberStale:
			stale = append(stale, text)
		case clusterset.MemberLost:
			lost = append(lost, text)
		default:
			continue
		}
		if since.IsZero() || export.LastSeen.Before(since.Time) {
			since = metav1.NewTime(export.LastSeen)
		}
	}
	if len(stale)+len(lost) == 0 {
		return nil
	}
	condition := &metav1.Condition{Type: multicluster.ServiceImportMembersReachable, Status: metav1.ConditionFalse, Reason: "MembersStale", LastTransitionTime: since}
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
	condition.Message = "exporting clusters are unreachable; " + strings.Join(parts, "; ")
	return condition
}
