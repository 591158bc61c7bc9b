// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// serviceFacts are what one cluster knows of a service that is exported.
type serviceFacts struct {
	context, namespace, name string
	exports                  []clustersetv1alpha1.ExportedService
	slices                   []clustersetv1alpha1.ExportedEndpointSlice
	// members are empty, and membersKnown false, when the user may not read them.
	members      []clustersetv1alpha1.Member
	membersKnown bool
	// serviceImport is nil when there is none. Then host is the namespace, nil
	// when there is none either; hostKnown is false when the user may not know.
	serviceImport *multiclusterxv1beta1.ServiceImport
	host          *corev1.Namespace
	hostKnown     bool
}

// explanation is what `kubectl mcs explain` prints.
type explanation struct {
	Service    string `json:"service"`
	Namespace  string `json:"namespace"`
	Context    string `json:"context"`
	ClusterID  string `json:"clusterID,omitempty"`
	ClusterSet string `json:"clusterSet,omitempty"`
	// Exports are the clusters that export it, the oldest export first.
	Exports    []exportReport     `json:"exports"`
	Properties []propertyReport   `json:"properties"`
	Conflicts  []conflictReport   `json:"conflicts,omitempty"`
	Endpoints  []endpointsReport  `json:"endpoints,omitempty"`
	DNS        []dnsRecord        `json:"dns"`
	Import     *importReport      `json:"import,omitempty"`
	NoImport   string             `json:"noImport,omitempty"`
	OutOfTouch []outOfTouchReport `json:"outOfTouch,omitempty"`
}

// exportReport is one cluster that exports the service. Endpoints are counted
// per IP family: a Pod with two addresses is two.
type exportReport struct {
	Cluster string      `json:"cluster"`
	Since   metav1.Time `json:"since"`
	// State is empty when the members are not known.
	State clustersetv1alpha1.MemberState `json:"state,omitempty"`
	Ready int                            `json:"readyEndpoints"`
	Total int                            `json:"totalEndpoints"`
	// Path is the way from the cluster to this one, empty for this one itself.
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

// importReport is what a client in this cluster gets.
type importReport struct {
	Type                  multiclusterxv1beta1.ServiceImportType `json:"type"`
	IPs                   []string                               `json:"ips,omitempty"`
	IPFamilies            []corev1.IPFamily                      `json:"ipFamilies,omitempty"`
	Ports                 []multiclusterxv1beta1.ServicePort     `json:"ports"`
	SessionAffinity       corev1.ServiceAffinity                 `json:"sessionAffinity,omitempty"`
	SessionAffinityConfig *corev1.SessionAffinityConfig          `json:"sessionAffinityConfig,omitempty"`
	// NotTrue are the conditions that are not as they should be.
	NotTrue []metav1.Condition `json:"conditionsNotTrue,omitempty"`
}

// outOfTouchReport is a member of which it is not certain what it exports now.
type outOfTouchReport struct {
	Cluster string                         `json:"cluster"`
	State   clustersetv1alpha1.MemberState `json:"state"`
	// Endpoints is what happens with its endpoints.
	Endpoints endpointUse `json:"endpoints"`
	Message   string      `json:"message"`
}

type endpointUse string

const (
	endpointsUsed    endpointUse = "Used"
	endpointsNotUsed endpointUse = "NotUsed"
	endpointsUnknown endpointUse = "Unknown"
)

// newExplanation explains a service that at least one cluster exports.
func newExplanation(facts serviceFacts) explanation {
	exports := slices.SortedFunc(slices.Values(facts.exports), func(a, b clustersetv1alpha1.ExportedService) int {
		return precedence.Compare(precedence.Rank{Since: a.Spec.ExportedAt.Time, Cluster: a.Spec.Cluster}, precedence.Rank{Since: b.Spec.ExportedAt.Time, Cluster: b.Spec.Cluster})
	})
	facts.exports = exports
	var mergeables []merge.Export
	for i := range exports {
		mergeables = append(mergeables, merge.FromV1alpha1(&exports[i]))
	}
	merged := merge.Merge(mergeables)
	spec := merged.V1beta1Spec()
	report := explanation{
		Service: facts.name, Namespace: facts.namespace, Context: facts.context,
		Exports: exportReports(facts), OutOfTouch: outOfTouch(facts),
		Endpoints: countEndpoints(facts, spec), DNS: dnsRecords(facts, spec),
	}
	report.ClusterID, report.ClusterSet = members.Identity(facts.members)
	for _, property := range merge.Explain(mergeables) {
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

func exportReports(facts serviceFacts) []exportReport {
	var reports []exportReport
	for i := range facts.exports {
		spec := &facts.exports[i].Spec
		report := exportReport{Cluster: spec.Cluster, Since: spec.ExportedAt, Path: spec.Path}
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
	case facts.hostKnown && facts.host == nil:
		return fmt.Sprintf("this cluster has no namespace %q: create it, and the service is imported", facts.namespace)
	case facts.hostKnown && (facts.host.DeletionTimestamp != nil || facts.host.Status.Phase == corev1.NamespaceTerminating):
		return fmt.Sprintf("the namespace %q of this cluster is being deleted", facts.namespace)
	}
	return "it has not been computed yet: ask again in a moment"
}

// outOfTouch are the clusters that export the service and are neither this one
// nor in touch with it, and those that may export it without that being known.
func outOfTouch(facts serviceFacts) []outOfTouchReport {
	exporting := map[string]bool{}
	for i := range facts.exports {
		exporting[facts.exports[i].Spec.Cluster] = true
	}
	var reports []outOfTouchReport
	for i := range facts.members {
		if report := describeTouch(&facts.members[i], exporting[facts.members[i].Name]); report != nil {
			reports = append(reports, *report)
		}
	}
	slices.SortFunc(reports, func(a, b outOfTouchReport) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return reports
}

// isWithdrawn says whether mcs-controller takes the endpoints of a member out of
// use. Of one that was not reached yet, or is refused, it uses what it did before.
func isWithdrawn(status *clustersetv1alpha1.MemberStatus) bool {
	return status.State == clustersetv1alpha1.MemberLost && status.LostPolicy != clustersetv1alpha1.LostPolicyKeep
}

// describeTouch is nil for a member whose state leaves no doubt.
func describeTouch(member *clustersetv1alpha1.Member, exports bool) *outOfTouchReport {
	status := &member.Status
	report := &outOfTouchReport{Cluster: member.Name, State: status.State, Endpoints: endpointsUsed}
	keep := status.LostPolicy == clustersetv1alpha1.LostPolicyKeep
	switch {
	case isWithdrawn(status) && exports:
		report.Endpoints = endpointsNotUsed
		report.Message = fmt.Sprintf("%s; its endpoints are not used until it is back", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberLost && exports:
		report.Message = fmt.Sprintf("%s; its endpoints stay in use, because its policy is Keep", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberStale && exports && keep:
		report.Message = fmt.Sprintf("%s; its endpoints are used", lastSeen(status))
	case status.State == clustersetv1alpha1.MemberStale && exports:
		report.Message = fmt.Sprintf("%s; its endpoints are used until it is lost, after %d s of silence", lastSeen(status), status.TTLSeconds)
	case status.State == clustersetv1alpha1.MemberRefused, status.State == clustersetv1alpha1.MemberConnecting:
		report.Endpoints = endpointsUnknown
		report.Message = "it is not known what it exports"
		if exports {
			report.Message = "it is not known whether it still exports the service; its endpoints are used as before"
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
