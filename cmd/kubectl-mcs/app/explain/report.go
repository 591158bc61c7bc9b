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
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// Facts is what one cluster knows about an exported service.
type Facts struct {
	Context, Namespace, Service string
	Now                         time.Time
	Exports                     []clustersetv1alpha1.ExportedService
	Slices                      []clustersetv1alpha1.ExportedEndpointSlice
	// MembersKnown is false if the user is not allowed to read the members.
	Members      []clustersetv1alpha1.Member
	MembersKnown bool
	// ServiceImport is nil if the service is not imported.
	ServiceImport *multiclusterxv1beta1.ServiceImport
	// NamespaceObject is nil if the namespace does not exist, and NamespaceKnown is
	// false if the user is not allowed to read it.
	NamespaceObject *corev1.Namespace
	NamespaceKnown  bool
}

// Explanation is the output of `kubectl mcs explain`.
type Explanation struct {
	Service    string `json:"service"`
	Namespace  string `json:"namespace"`
	Context    string `json:"context"`
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Exports are the exports of all clusters, sorted by precedence.
	Exports []exportReport `json:"exports"`
	// Limit is nil if the namespace imports from all clusters, or could not be read.
	Limit        *limitReport         `json:"importLimit,omitempty"`
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
	// ExportedTo are the clusters that it is for, besides the exporting one. It is nil if it is for all.
	ExportedTo *[]string `json:"exportedTo,omitempty"`
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
	// ClusterPreference are the tiers of clusters that are preferred, and MinReady is how many ready
	// endpoints one needs.
	ClusterPreference []clusterpreference.Tier `json:"clusterPreference,omitempty"`
	MinReady          int32                    `json:"preferenceMinReady,omitempty"`
	// ActiveTier is the tier that answers, and ActiveTierReason is why.
	ActiveTier       string `json:"activeTier,omitempty"`
	ActiveTierReason string `json:"activeTierReason,omitempty"`
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

// New returns the output for a service. There must be at least one export.
func New(facts Facts) Explanation {
	exports := slices.SortedFunc(slices.Values(facts.Exports), func(a, b clustersetv1alpha1.ExportedService) int {
		return precedence.Compare(merge.FromV1alpha1(&a).Rank(), merge.FromV1alpha1(&b).Rank())
	})
	facts.Exports = exports
	local, inputs := localFacts(facts), facts.inputs()
	merged := merge.MergeIn(local, inputs)
	spec := merged.V1beta1Spec()
	report := Explanation{
		Service: facts.Service, Namespace: facts.Namespace, Context: facts.Context,
		Exports: exportReports(facts), Limit: importLimit(facts), Disconnected: disconnectedMembers(facts),
		Endpoints: countEndpoints(facts, spec), DNS: dnsRecords(facts, spec), Properties: []propertyReport{},
	}
	report.ClusterID, report.ClusterSet = members.Identity(facts.Members)
	for _, property := range merge.ExplainIn(local, inputs) {
		report.Properties = append(report.Properties, propertyReport(property))
	}
	for _, conflict := range merged.Conflicts {
		report.Conflicts = append(report.Conflicts, conflictReport(conflict))
	}
	if facts.ServiceImport != nil {
		report.Import = newImportReport(facts.ServiceImport)
	} else {
		report.NoImport = whyNoImport(facts)
	}
	return report
}

// Merge returns what the exports of a service result in. There must be at least one.
func Merge(facts Facts) merge.Result { return merge.MergeIn(localFacts(facts), facts.inputs()) }

func (f Facts) inputs() []merge.Export {
	var inputs []merge.Export
	for i := range f.Exports {
		inputs = append(inputs, merge.FromV1alpha1(&f.Exports[i]))
	}
	return inputs
}

// localFacts returns what the cluster knows about the shared ClusterSet IP besides
// the exports.
func localFacts(facts Facts) clustersetip.Local {
	local := clustersetip.Local{Now: facts.Now}
	local.Cluster, _ = members.Identity(facts.Members)
	if facts.ServiceImport != nil {
		local.IPs = clusterset.SplitList(facts.ServiceImport.Annotations[multicluster.ClusterSetIPAnnotation])
		local.Imported = len(facts.ServiceImport.Spec.IPs) > 0
	}
	return local
}

func exportReports(facts Facts) []exportReport {
	var reports []exportReport
	for i := range facts.Exports {
		spec := &facts.Exports[i].Spec
		report := exportReport{Cluster: spec.Cluster, Since: metav1.NewTime(merge.FromV1alpha1(&facts.Exports[i]).Since), Path: spec.Path}
		if spec.Audience != nil {
			report.ExportedTo = ptr.To(append([]string{}, spec.Audience.Clusters...)) // not null if it is for none
		}
		if member := members.Find(facts.Members, spec.Cluster); member != nil {
			report.State = member.Status.State
		}
		for j := range facts.Slices {
			if slice := &facts.Slices[j].Spec; slice.Cluster == spec.Cluster {
				report.Ready += exported.CountReady(slice.Endpoints)
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
	if preference := clusterpreference.OfImport(serviceImport.Annotations); preference != nil {
		report.ClusterPreference, report.MinReady = preference.Tiers, preference.MinReady
		report.ActiveTier, report.ActiveTierReason = serviceImport.Annotations[multicluster.ActiveTierAnnotation], serviceImport.Annotations[multicluster.ActiveTierReasonAnnotation]
	}
	for _, condition := range serviceImport.Status.Conditions {
		if condition.Status != metav1.ConditionTrue {
			report.NotTrue = append(report.NotTrue, condition)
		}
	}
	return report
}

func whyNoImport(facts Facts) string {
	switch {
	case facts.NamespaceKnown && facts.NamespaceObject == nil:
		return fmt.Sprintf("namespace %q does not exist in this cluster: create it to import the service", facts.Namespace)
	case facts.NamespaceKnown && (facts.NamespaceObject.DeletionTimestamp != nil || facts.NamespaceObject.Status.Phase == corev1.NamespaceTerminating):
		return fmt.Sprintf("namespace %q is being deleted in this cluster", facts.Namespace)
	}
	return "the ServiceImport has not been computed yet: try again in a moment"
}

// disconnectedMembers returns the members that export the service and are not
// connected, and those that may export it without this cluster knowing.
func disconnectedMembers(facts Facts) []disconnectedReport {
	exporting := map[string]bool{}
	for i := range facts.Exports {
		exporting[facts.Exports[i].Spec.Cluster] = true
	}
	var reports []disconnectedReport
	for i := range facts.Members {
		if report := describeMember(&facts.Members[i], exporting[facts.Members[i].Name]); report != nil {
			reports = append(reports, *report)
		}
	}
	slices.SortFunc(reports, func(a, b disconnectedReport) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return reports
}

// IsWithdrawn reports whether mcs-controller withdraws the endpoints of a member, service by
// service if it is not lost. It keeps the known endpoints of members that are connecting or
// refused.
func IsWithdrawn(status *clustersetv1alpha1.MemberStatus) bool {
	return status.State == clustersetv1alpha1.MemberLost && status.LostPolicy != clustersetv1alpha1.LostPolicyKeep && status.LostPolicy != clustersetv1alpha1.LostPolicyKeepLast
}

// silent reports whether a member is silent, but not lost.
func silent(status *clustersetv1alpha1.MemberStatus) bool {
	return status.State == clustersetv1alpha1.MemberStale || status.State == clustersetv1alpha1.MemberUnavailable
}

// IsUncertain reports whether mcs-controller uses the endpoints of a member only if they answer, which
// the member does not say.
func IsUncertain(status *clustersetv1alpha1.MemberStatus) bool {
	return silent(status) && status.Expired && status.LostPolicy != clustersetv1alpha1.LostPolicyKeep
}

// describeMember returns nil for a member whose exports are up to date.
func describeMember(member *clustersetv1alpha1.Member, exports bool) *disconnectedReport {
	status := &member.Status
	report := &disconnectedReport{Cluster: member.Name, State: status.State, Endpoints: endpointsUsed}
	keep := status.LostPolicy == clustersetv1alpha1.LostPolicyKeep
	switch {
	case IsWithdrawn(status) && exports:
		report.Endpoints = endpointsNotUsed
		report.Message = fmt.Sprintf("%s; its endpoints are withdrawn until it is connected again", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberLost && exports && keep:
		report.Message = fmt.Sprintf("%s; its endpoints are kept, because its lost policy is Keep", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberLost && exports:
		report.Message = fmt.Sprintf("%s; its endpoints are kept only if the service has no other ready ones, because its lost policy is KeepLast", lastSeen(status))
	case silent(status) && exports && keep:
		report.Message = fmt.Sprintf("%s; its endpoints are used", lastSeen(status))
	case IsUncertain(status) && exports:
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
