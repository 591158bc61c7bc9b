// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// serviceFacts is what one cluster knows about an exported service.
type serviceFacts struct {
	context, namespace, name string
	now                      time.Time
	exports                  []clustersetv1alpha1.ExportedService
	slices                   []clustersetv1alpha1.ExportedEndpointSlice
	// membersKnown is false if the user is not allowed to read the members.
	members      []clustersetv1alpha1.Member
	membersKnown bool
	// serviceImport is nil if the service is not imported. Then namespaceObject is
	// the namespace, or nil if it does not exist, and namespaceKnown is false if the
	// user is not allowed to read it.
	serviceImport   *multiclusterxv1beta1.ServiceImport
	namespaceObject *corev1.Namespace
	namespaceKnown  bool
}

// explanation is the output of `kubectl mcs explain`.
type explanation struct {
	Service    string `json:"service"`
	Namespace  string `json:"namespace"`
	Context    string `json:"context"`
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Exports are the exports of all clusters, sorted by precedence.
	Exports      []exportReport       `json:"exports"`
	Properties   []propertyReport     `json:"properties"`
	Conflicts    []conflictReport     `json:"conflicts,omitempty"`
	Endpoints    []endpointsReport    `json:"endpoints,omitempty"`
	DNS          []dnsRecord          `json:"dns"`
	Import       *importReport        `json:"import,omitempty"`
	NoImport     string               `json:"noImport,omitempty"`
	Disconnected []disconnectedReport `json:"disconnectedMembers,omitempty"`
}

// exportReport is the export of one cluster. Endpoints are counted per IP family: a
// Pod with two addresses counts twice.
type exportReport struct {
	Cluster string      `json:"cluster"`
	Since   metav1.Time `json:"since"`
	// State is empty if the members are unknown.
	State clustersetv1alpha1.MemberState `json:"state,omitempty"`
	Ready int                            `json:"readyEndpoints"`
	Total int                            `json:"totalEndpoints"`
	// Path is the relay path from the cluster to this one. It is empty for the local
	// cluster.
	Path []string `json:"path,omitempty"`
}

// propertyReport is a merge.Property.
type propertyReport struct {
	Name     string            `json:"name"`
	Values   map[string]string `json:"values"`
	Used     string            `json:"used"`
	Rule     merge.Rule        `json:"decision"`
	Cluster  string            `json:"cluster,omitempty"`
	Conflict bool              `json:"conflict"`
}

// conflictReport is a merge.Conflict.
type conflictReport struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// importReport is what clients in this cluster get.
type importReport struct {
	Type                  multiclusterxv1beta1.ServiceImportType `json:"type"`
	IPs                   []string                               `json:"ips,omitempty"`
	IPFamilies            []corev1.IPFamily                      `json:"ipFamilies,omitempty"`
	Ports                 []multiclusterxv1beta1.ServicePort     `json:"ports"`
	SessionAffinity       corev1.ServiceAffinity                 `json:"sessionAffinity,omitempty"`
	SessionAffinityConfig *corev1.SessionAffinityConfig          `json:"sessionAffinityConfig,omitempty"`
	// NotTrue are the conditions that are not True.
	NotTrue []metav1.Condition `json:"conditionsNotTrue,omitempty"`
}

// disconnectedReport is a member whose exports may be outdated.
type disconnectedReport struct {
	Cluster string                         `json:"cluster"`
	State   clustersetv1alpha1.MemberState `json:"state"`
	// Endpoints tells whether its endpoints are used.
	Endpoints endpointUse `json:"endpoints"`
	Message   string      `json:"message"`
}

type endpointUse string

const (
	endpointsUsed    endpointUse = "Used"
	endpointsNotUsed endpointUse = "NotUsed"
	endpointsUnknown endpointUse = "Unknown"
)

// newExplanation builds the report. There must be at least one export.
func newExplanation(facts serviceFacts) explanation {
	exports := slices.SortedFunc(slices.Values(facts.exports), func(a, b clustersetv1alpha1.ExportedService) int {
		return precedence.Compare(merge.FromV1alpha1(&a).Rank(), merge.FromV1alpha1(&b).Rank())
	})
	facts.exports = exports
	var inputs []merge.Export
	for i := range exports {
		inputs = append(inputs, merge.FromV1alpha1(&exports[i]))
	}
	local := localFacts(facts)
	merged := merge.MergeIn(local, inputs)
	spec := merged.V1beta1Spec()
	report := explanation{
		Service: facts.name, Namespace: facts.namespace, Context: facts.context,
		Exports: exportReports(facts), Disconnected: disconnectedMembers(facts),
		Endpoints: countEndpoints(facts, spec), DNS: dnsRecords(facts, spec),
	}
	report.ClusterID, report.ClusterSet = members.Identity(facts.members)
	for _, property := range merge.ExplainIn(local, inputs) {
		report.Properties = append(report.Properties, propertyReport(property))
	}
	for _, conflict := range merged.Conflicts {
		report.Conflicts = append(report.Conflicts, conflictReport(conflict))
	}
	if facts.serviceImport != nil {
		report.Import = newImportReport(facts.serviceImport)
	} else {
		report.NoImport = whyNoImport(facts)
	}
	return report
}

// localFacts returns what the cluster knows about the shared ClusterSet IP besides
// the exports.
func localFacts(facts serviceFacts) clustersetip.Local {
	local := clustersetip.Local{Now: facts.now}
	local.Cluster, _ = members.Identity(facts.members)
	if facts.serviceImport != nil {
		local.IPs = clusterset.SplitList(facts.serviceImport.Annotations[multicluster.ClusterSetIPAnnotation])
		local.Imported = len(facts.serviceImport.Spec.IPs) > 0
	}
	return local
}

func exportReports(facts serviceFacts) []exportReport {
	var reports []exportReport
	for i := range facts.exports {
		spec := &facts.exports[i].Spec
		report := exportReport{Cluster: spec.Cluster, Since: metav1.NewTime(merge.FromV1alpha1(&facts.exports[i]).Since), Path: spec.Path}
		if member := members.Find(facts.members, spec.Cluster); member != nil {
			report.State = member.Status.State
		}
		for j := range facts.slices {
			if slice := &facts.slices[j].Spec; slice.Cluster == spec.Cluster {
				report.Ready += countReady(slice.Endpoints)
				report.Total += len(slice.Endpoints)
			}
		}
		reports = append(reports, report)
	}
	return reports
}

func newImportReport(serviceImport *multiclusterxv1beta1.ServiceImport) *importReport {
	spec := &serviceImport.Spec
	report := &importReport{
		Type: spec.Type, IPs: spec.IPs, IPFamilies: spec.IPFamilies, Ports: spec.Ports,
		SessionAffinity: spec.SessionAffinity, SessionAffinityConfig: spec.SessionAffinityConfig,
	}
	for _, condition := range serviceImport.Status.Conditions {
		if condition.Status != metav1.ConditionTrue {
			report.NotTrue = append(report.NotTrue, condition)
		}
	}
	return report
}

func whyNoImport(facts serviceFacts) string {
	switch {
	case facts.namespaceKnown && facts.namespaceObject == nil:
		return fmt.Sprintf("namespace %q does not exist in this cluster: create it to import the service", facts.namespace)
	case facts.namespaceKnown && (facts.namespaceObject.DeletionTimestamp != nil || facts.namespaceObject.Status.Phase == corev1.NamespaceTerminating):
		return fmt.Sprintf("namespace %q is being deleted in this cluster", facts.namespace)
	}
	return "the ServiceImport has not been computed yet: try again in a moment"
}

// disconnectedMembers returns the members that export the service and are not
// connected, and those that may export it without this cluster knowing.
func disconnectedMembers(facts serviceFacts) []disconnectedReport {
	exporting := map[string]bool{}
	for i := range facts.exports {
		exporting[facts.exports[i].Spec.Cluster] = true
	}
	var reports []disconnectedReport
	for i := range facts.members {
		if report := describeMember(&facts.members[i], exporting[facts.members[i].Name]); report != nil {
			reports = append(reports, *report)
		}
	}
	slices.SortFunc(reports, func(a, b disconnectedReport) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return reports
}

// isWithdrawn reports whether mcs-controller withdraws the endpoints of a member, service by
// service if it is not lost. It keeps the known endpoints of members that are connecting or
// refused.
func isWithdrawn(status *clustersetv1alpha1.MemberStatus) bool {
	return status.State == clustersetv1alpha1.MemberLost && status.LostPolicy != clustersetv1alpha1.LostPolicyKeep && status.LostPolicy != clustersetv1alpha1.LostPolicyKeepLast
}

// silent reports whether a member is silent, but not lost.
func silent(status *clustersetv1alpha1.MemberStatus) bool {
	return status.State == clustersetv1alpha1.MemberStale || status.State == clustersetv1alpha1.MemberUnavailable
}

// describeMember returns nil for a member whose exports are up to date.
func describeMember(member *clustersetv1alpha1.Member, exports bool) *disconnectedReport {
	status := &member.Status
	report := &disconnectedReport{Cluster: member.Name, State: status.State, Endpoints: endpointsUsed}
	keep := status.LostPolicy == clustersetv1alpha1.LostPolicyKeep
	switch {
	case isWithdrawn(status) && exports:
		report.Endpoints = endpointsNotUsed
		report.Message = fmt.Sprintf("%s; its endpoints are withdrawn until it is connected again", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberLost && exports && keep:
		report.Message = fmt.Sprintf("%s; its endpoints are kept, because its lost policy is Keep", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberLost && exports:
		report.Message = fmt.Sprintf("%s; its endpoints are kept only if the service has no other ready ones, because its lost policy is KeepLast", lastSeen(status))
	case silent(status) && exports && keep:
		report.Message = fmt.Sprintf("%s; its endpoints are used", lastSeen(status))
	case silent(status) && exports && status.Expired:
		report.Endpoints = endpointsUnknown
		report.Message = fmt.Sprintf("%s; its endpoints are used if they answer; the condition MembersReachable of the ServiceImport says so of this service", lastSeen(status))
		if condition := meta.FindStatusCondition(status.Conditions, clusterset.MemberEndpointsReachable); condition != nil {
			report.Message += "; " + condition.Message
		}
	case silent(status) && exports:
		report.Message = fmt.Sprintf("%s; its endpoints are withdrawn if neither it nor they answer within its TTL of %d s", lastSeen(status), status.TTLSeconds)
	case status.State == clustersetv1alpha1.MemberRefused, status.State == clustersetv1alpha1.MemberConnecting:
		report.Endpoints = endpointsUnknown
		report.Message = "its exports are unknown"
		if exports {
			report.Message = "its exports may be outdated; its known endpoints are used"
		}
		for _, problem := range conditions.Problems(status.Conditions) {
			report.Message += "; " + problem
		}
	default:
		return nil
	}
	return report
}

func lastSeen(status *clustersetv1alpha1.MemberStatus) string {
	if status.LastSeen == nil {
		return "never seen"
	}
	return "last seen " + status.LastSeen.UTC().Format(time.RFC3339)
}
