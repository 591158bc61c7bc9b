// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/explain"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/members"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/serviceexport"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

const (
	// maxMessage limits messages, maxExporters the exporters of a row. Details are complete.
	maxMessage   = 1000
	maxExporters = 50
)

// clusterNode is a cluster in the graph, with the links over which others read it.
type clusterNode struct {
	// Name is that of the Member: the cluster ID, unless that is in use or invalid.
	Name              string `json:"name"`
	ClusterSet        string `json:"clusterSet,omitempty"`
	Version           string `json:"version,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Exports           int32  `json:"exports"`
	Endpoints         int32  `json:"endpoints"`
	// Context is set for a cluster that is watched by the page.
	Context string `json:"context,omitempty"`
	// Links are sorted by the cluster that reads.
	Links []clusterLink `json:"links,omitempty"`
}

// clusterLink is how one cluster sees another.
type clusterLink struct {
	From string `json:"from"`
	// Context is that of the view, whose clock LastSeen is of.
	Context    string                         `json:"context"`
	State      clustersetv1alpha1.MemberState `json:"state"`
	LastSeen   *metav1.Time                   `json:"lastSeen,omitempty"`
	TTLSeconds int32                          `json:"ttlSeconds,omitempty"`
	// Via are the hubs that relay the member, the nearest to it first.
	Via      []string `json:"via,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// opinion is the entry of a member in the view of a cluster.
type opinion struct {
	context, viewer string
	member          *clustersetv1alpha1.Member
}

// newClusterNode joins what all views say about a member. The first of them is believed, unless
// another one is that of the member itself.
func newClusterNode(name string, opinions []opinion) clusterNode {
	node := clusterNode{Name: name}
	for i, o := range opinions {
		status := &o.member.Status
		local := status.State == clustersetv1alpha1.MemberLocal
		if i == 0 || local {
			node.ClusterSet, node.Version, node.KubernetesVersion = status.ClusterSet, status.Version, status.KubernetesVersion
			node.Exports, node.Endpoints = status.Exports, status.Endpoints
		}
		if local {
			node.Context = cmp.Or(node.Context, o.context)
			continue
		}
		if slices.ContainsFunc(node.Links, func(link clusterLink) bool { return link.From == o.viewer }) {
			continue // two contexts of one cluster
		}
		link := clusterLink{From: o.viewer, Context: o.context, State: status.State, LastSeen: status.LastSeen, TTLSeconds: status.TTLSeconds}
		if len(status.Path) > 1 {
			link.Via = status.Path[1:]
		}
		for _, problem := range conditions.Problems(status.Conditions) {
			link.Problems = append(link.Problems, truncate.Characters(problem, maxMessage))
		}
		node.Links = append(node.Links, link)
	}
	slices.SortStableFunc(node.Links, func(a, b clusterLink) int { return cmp.Compare(a.From, b.From) })
	return node
}

// condition summarizes a service.
type condition string

const (
	conditionOK      condition = "OK"
	conditionWarning condition = "Warning"
	conditionProblem condition = "Problem"
	// conditionUnknown is that of a service about which something that decides could not be read so far.
	conditionUnknown condition = "Unknown"
)

// serviceRow is a service in the list.
type serviceRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Condition and Summary say whether something is wrong, and what is most important.
	Condition condition `json:"condition"`
	Summary   string    `json:"summary"`
	Type      string    `json:"type,omitempty"`
	IPs       []string  `json:"ips,omitempty"`
	// Exporters are sorted by precedence; Omitted is how many are left out.
	Exporters []exporter `json:"exporters"`
	Omitted   int        `json:"omitted,omitempty"`
	Importers []importer `json:"importers"`
	// Conflicts are the reasons of conflicts.
	Conflicts []string `json:"conflicts,omitempty"`
	// Revision grows with every change, also with those that only details show.
	Revision int64 `json:"revision"`
}

type exporter struct {
	Cluster string `json:"cluster"`
	// State is empty if the members are unknown.
	State clustersetv1alpha1.MemberState `json:"state,omitempty"`
	Ready int                            `json:"ready"`
	Total int                            `json:"total"`
}

// importState is what is known about an import.
type importState string

const (
	imported      importState = "Imported"
	notReady      importState = "NotReady"
	notImported   importState = "NotImported"
	importUnknown importState = "Unknown"
	// notForCluster is that of a cluster that no export lists.
	notForCluster importState = "NotForThisCluster"
)

// importer is a cluster that is watched by the page, and its import.
type importer struct {
	Context string      `json:"context"`
	Cluster string      `json:"cluster,omitempty"`
	State   importState `json:"state"`
	Reason  string      `json:"reason,omitempty"`
}

// serviceFacts is what one view knows about a service.
type serviceFacts struct {
	explain.Facts
	cluster string
	// These are false as long as imports, exports or endpoints could not be read: because it takes a
	// moment, or because the user may not.
	importsKnown, exportsKnown, slicesKnown bool
	serviceExport                           *multiclusterxv1beta1.ServiceExport
}

// exists reports whether any view knows the service.
func exists(views []serviceFacts) bool {
	return slices.ContainsFunc(views, func(v serviceFacts) bool {
		return len(v.Exports) > 0 || v.ServiceImport != nil || v.serviceExport != nil
	})
}

// newServiceRow describes a service as the first view sees it. Others only add their imports.
func newServiceRow(views []serviceFacts, revision int64) serviceRow {
	first := views[0]
	row := serviceRow{Namespace: first.Namespace, Name: first.Service, Exporters: newExporters(first), Revision: revision}
	if len(first.Exports) > 0 {
		merged := explain.Merge(first.Facts)
		row.Type = string(merged.V1beta1Spec().Type)
		for _, conflict := range merged.Conflicts {
			row.Conflicts = append(row.Conflicts, conflict.Reason)
		}
	}
	if first.ServiceImport != nil {
		row.Type, row.IPs = string(first.ServiceImport.Spec.Type), first.ServiceImport.Spec.IPs
	}
	for _, view := range views {
		row.Importers = append(row.Importers, newImporter(view, views))
	}
	row.Condition, row.Summary = summarize(first, row)
	if len(row.Exporters) > maxExporters {
		row.Exporters, row.Omitted = row.Exporters[:maxExporters], len(row.Exporters)-maxExporters
	}
	return row
}

// newExporters returns the exporters by precedence: the first wins conflicts.
func newExporters(view serviceFacts) []exporter {
	exports := slices.SortedFunc(slices.Values(view.Exports), func(a, b clustersetv1alpha1.ExportedService) int {
		return precedence.Compare(merge.FromV1alpha1(&a).Rank(), merge.FromV1alpha1(&b).Rank())
	})
	exporters := []exporter{}
	for i := range exports {
		one := exporter{Cluster: exports[i].Spec.Cluster}
		if member := members.Find(view.Members, one.Cluster); member != nil {
			one.State = member.Status.State
		}
		for j := range view.Slices {
			if slice := &view.Slices[j].Spec; slice.Cluster == one.Cluster {
				one.Total += len(slice.Endpoints)
				for k := range slice.Endpoints {
					if ready := slice.Endpoints[k].Conditions.Ready; ready == nil || *ready {
						one.Ready++
					}
				}
			}
		}
		exporters = append(exporters, one)
	}
	return exporters
}

func newImporter(view serviceFacts, views []serviceFacts) importer {
	one := importer{Context: view.Context, Cluster: view.cluster, State: imported}
	switch {
	case !view.importsKnown:
		one.State = importUnknown
	case view.ServiceImport == nil:
		one.State = notImported
		if others := view.exportedToOthers(views); others != "" {
			one.State, one.Reason = notForCluster, truncate.Characters(others, maxMessage)
		}
	default:
		ready := meta.FindStatusCondition(view.ServiceImport.Status.Conditions, multicluster.ServiceImportReady)
		if ready == nil || ready.Status != metav1.ConditionTrue {
			one.State, one.Reason = notReady, "not processed by mcs-controller yet"
		}
		if ready != nil && ready.Status != metav1.ConditionTrue {
			one.Reason = truncate.Characters(fmt.Sprintf("%s: %s", ready.Reason, ready.Message), maxMessage)
		}
	}
	return one
}

// exportedToOthers returns for which clusters a service is exported if it is not for that of the view, by any of the
// clusters that all views know as exporters. It is empty if it is, or is not exported.
func (f serviceFacts) exportedToOthers(views []serviceFacts) string {
	id, _ := members.Identity(f.Members)
	if id == "" || !f.exportsKnown || len(f.Exports) > 0 || f.serviceExport != nil {
		return ""
	}
	found := map[string]string{}
	for _, view := range views {
		for i := range view.Exports {
			spec := &view.Exports[i].Spec
			switch {
			case spec.Audience == nil || slices.Contains(spec.Audience.Clusters, id):
				return ""
			case len(spec.Audience.Clusters) == 0:
				found[spec.Cluster] = spec.Cluster + " exports it to no other cluster"
			default:
				found[spec.Cluster] = fmt.Sprintf("%s exports it to %s only", spec.Cluster, strings.Join(spec.Audience.Clusters, ", "))
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Values(found)), "; ")
}

// endpointUse counts the ready endpoints of a service.
type endpointUse struct {
	// used are those that clients reach, and perhaps those of members that are silent for longer than
	// their TTL, which are used only if they answer.
	used, perhaps int
	// lost is true if a member is lost, uncertain how many members perhaps have endpoints that are used.
	lost      bool
	uncertain int
	// silent says which members are not connected.
	silent []string
}

// countUse decides about the endpoints of members that are not connected as mcs-controller does.
func countUse(view serviceFacts, exporters []exporter) endpointUse {
	var use endpointUse
	last := 0
	for _, exporter := range exporters {
		status := &clustersetv1alpha1.MemberStatus{}
		if member := members.Find(view.Members, exporter.Cluster); member != nil {
			status = &member.Status
		}
		switch status.State {
		case clustersetv1alpha1.MemberLocal, clustersetv1alpha1.MemberConnected, "":
		default:
			use.silent = append(use.silent, fmt.Sprintf("%s is %s", exporter.Cluster, status.State))
		}
		lost := status.State == clustersetv1alpha1.MemberLost
		use.lost = use.lost || lost
		switch {
		case explain.IsWithdrawn(status):
		case lost && status.LostPolicy == clustersetv1alpha1.LostPolicyKeepLast:
			last += exporter.Ready
		case explain.IsUncertain(status):
			use.perhaps += exporter.Ready
			use.uncertain++
		default:
			use.used += exporter.Ready
		}
	}
	if use.used == 0 {
		use.used = last // which are kept only if there are no others
	}
	return use
}

// withdrawn reports whether the import says that the endpoints of the only member that perhaps has some
// are not used.
func (u endpointUse) withdrawn(view serviceFacts) bool {
	if u.lost || u.uncertain != 1 || view.ServiceImport == nil {
		return false
	}
	return view.unreachable() == "MembersLost"
}

// unreachable returns why the import says that members that export the service cannot be reached,
// empty if they can.
func (f serviceFacts) unreachable() string {
	if f.ServiceImport == nil {
		return ""
	}
	reachable := meta.FindStatusCondition(f.ServiceImport.Status.Conditions, multicluster.ServiceImportMembersReachable)
	if reachable == nil || reachable.Status != metav1.ConditionFalse {
		return ""
	}
	return reachable.Reason
}

// summarize returns what is most important about a service.
func summarize(view serviceFacts, row serviceRow) (condition, string) {
	use, own := countUse(view, row.Exporters), row.Importers[0]
	silent := strings.Join(use.silent[:min(len(use.silent), 3)], ", ")
	var findings []string
	switch reason := view.unreachable(); {
	case silent != "":
		findings = append(findings, silent)
	case reason != "": // the import says so to users who may not read Members
		findings = append(findings, "endpoints may not be used: "+reason)
	}
	if len(row.Conflicts) > 0 {
		findings = append(findings, "conflict: "+strings.Join(row.Conflicts, ", "))
	}
	switch {
	case len(row.Exporters) == 0 && !view.exportsKnown:
		return conditionUnknown, "exports have not been read"
	case len(row.Exporters) == 0 && view.serviceExport != nil:
		return conditionProblem, truncate.Characters("not exported: "+serviceexport.NotReadyReason(view.serviceExport), maxMessage)
	case len(row.Exporters) == 0 && own.State == notForCluster:
		return conditionOK, "not for this cluster: " + own.Reason
	case len(row.Exporters) == 0:
		return conditionProblem, "not exported by any cluster that this one knows"
	case own.State == notImported:
		return conditionProblem, "not imported in this cluster"
	case own.State == notReady:
		return conditionProblem, "import is not ready: " + own.Reason
	case !view.slicesKnown:
		return conditionUnknown, "endpoints have not been read"
	case use.used == 0 && use.perhaps > 0 && !use.withdrawn(view):
		return conditionUnknown, "endpoints are used only if they answer: " + silent
	case use.used == 0 && silent != "":
		return conditionProblem, "no endpoints in use: " + silent
	case use.used == 0:
		return conditionProblem, "no ready endpoints"
	case slices.Contains(row.Conflicts, "TypeConflict"):
		return conditionProblem, strings.Join(findings, "; ")
	case len(findings) > 0:
		return conditionWarning, strings.Join(findings, "; ")
	}
	return conditionOK, fmt.Sprintf("%d ready endpoints in %d clusters", use.used, len(row.Exporters))
}

// serviceDetails is everything about one service but its diagnosis.
type serviceDetails struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Winner is the cluster that wins conflicts, and Why is the reason. Both are empty without
	// several exports.
	Winner string `json:"winner,omitempty"`
	Why    string `json:"why,omitempty"`
	// Explanation is nil if no cluster exports the service.
	Explanation *explain.Explanation `json:"explanation,omitempty"`
	// ExportsUnknown and EndpointsUnknown are true as long as these could not be read.
	ExportsUnknown   bool          `json:"exportsUnknown,omitempty"`
	EndpointsUnknown bool          `json:"endpointsUnknown,omitempty"`
	Views            []serviceView `json:"views"`
}

// serviceView is the service in the view of one cluster.
type serviceView struct {
	importer
	Type       string             `json:"type,omitempty"`
	IPs        []string           `json:"ips,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ActiveTier is the tier of preferred clusters that answers its clients, and ActiveTierReason is
	// why. Both are empty if no clusters are preferred.
	ActiveTier       string `json:"activeTier,omitempty"`
	ActiveTierReason string `json:"activeTierReason,omitempty"`
	// Clusters are those that this view knows as exporters.
	Clusters       []string `json:"clusters,omitempty"`
	ExportsUnknown bool     `json:"exportsUnknown,omitempty"`
	// Export is nil if the cluster has no ServiceExport.
	Export *exportStatus `json:"export,omitempty"`
}

// exportStatus is the ServiceExport of a cluster.
type exportStatus struct {
	Created    metav1.Time        `json:"created"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func newServiceDetails(views []serviceFacts) serviceDetails {
	first := views[0]
	details := serviceDetails{Namespace: first.Namespace, Name: first.Service, ExportsUnknown: !first.exportsKnown, EndpointsUnknown: !first.slicesKnown}
	if len(first.Exports) > 0 {
		explanation := explain.New(first.Facts)
		details.Explanation = &explanation
		details.Winner, details.Why = winner(first.Exports)
	}
	for _, view := range views {
		one := serviceView{importer: newImporter(view, views), ExportsUnknown: !view.exportsKnown}
		for _, exporter := range newExporters(view) {
			one.Clusters = append(one.Clusters, exporter.Cluster)
		}
		if view.ServiceImport != nil {
			one.Type, one.IPs, one.Conditions = string(view.ServiceImport.Spec.Type), view.ServiceImport.Spec.IPs, view.ServiceImport.Status.Conditions
			annotations := view.ServiceImport.Annotations
			one.ActiveTier, one.ActiveTierReason = annotations[multicluster.ActiveTierAnnotation], annotations[multicluster.ActiveTierReasonAnnotation]
		}
		if view.serviceExport != nil {
			one.Export = &exportStatus{Created: view.serviceExport.CreationTimestamp, Conditions: view.serviceExport.Status.Conditions}
		}
		details.Views = append(details.Views, one)
	}
	return details
}

// winner returns the cluster whose export takes precedence, and why it does.
func winner(exported []clustersetv1alpha1.ExportedService) (cluster, why string) {
	if len(exported) < 2 {
		return "", ""
	}
	var ranks []precedence.Rank
	for i := range exported {
		ranks = append(ranks, merge.FromV1alpha1(&exported[i]).Rank())
	}
	slices.SortFunc(ranks, precedence.Compare)
	first, second := ranks[0], ranks[1]
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case !first.Since.Equal(second.Since):
		return first.Cluster, fmt.Sprintf("its export took effect first, at %s; that of %s at %s", at(first.Since), second.Cluster, at(second.Since))
	case !first.Created.Equal(second.Created):
		return first.Cluster, fmt.Sprintf("exports took effect at the same time; its ServiceExport was created first, at %s; that of %s at %s", at(first.Created), second.Cluster, at(second.Created))
	}
	return first.Cluster, fmt.Sprintf("exports took effect at the same time; its cluster ID sorts before %s", second.Cluster)
}
