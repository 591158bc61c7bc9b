// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// Preview returns warnings for the writer of an export: its conflicts with the
// exports of other clusters, and whose values take precedence. It changes
// nothing.
func (p *Projection) Preview(written *multiclusterxv1beta1.ServiceExport) []string {
	identity := p.members.Identity()
	if identity.ID == "" || identity.ClusterSet == "" {
		return nil
	}
	service, err := p.local.Service(written.Namespace, written.Name)
	if err != nil || export.Check(written.Namespace, written.Name, service) != nil {
		return nil // the strategy warns about these
	}
	name := types.NamespacedName{Namespace: written.Namespace, Name: written.Name}
	local, err := p.localState(name)
	if err != nil {
		return nil // warnings are best effort
	}
	present, err := p.exports(name)
	if err != nil {
		return nil // likewise
	}
	own := export.Service(p.origin(identity), written, service)
	exports := []merge.Export{merge.FromExported(own)}
	var before *clusterset.ExportedService // nil if this cluster does not export the Service yet
	var clusters []string
	for _, other := range present {
		if other.State == clusterset.MemberLocal {
			before = other.Service
			continue
		}
		exports = append(exports, merge.FromExported(other.Service))
		clusters = append(clusters, describeCluster(other.Service.Spec.Cluster, other.State))
	}
	var warnings []string
	for _, conflict := range merge.MergeIn(local.ip, exports).Conflicts {
		if len(clusters) == 0 { // the export conflicts with its own recorded decision
			warnings = append(warnings, fmt.Sprintf("%s: %s", conflict.Reason, conflict.Message))
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s with the exports of %s: %s", conflict.Reason, strings.Join(clusters, ", "), conflict.Message))
	}
	warnings = append(warnings, p.warnPreference(written, own)...)
	warnings = append(warnings, p.warnAudience(written, own)...)
	warnings = append(warnings, p.warnNewAudience(before, own)...)
	return append(warnings, warnLongNames(p.local, own)...)
}

// warnAudience warns if an export names clusters that cannot import it.
func (p *Projection) warnAudience(written *multiclusterxv1beta1.ServiceExport, own *clusterset.ExportedService) []string {
	if own.Spec.Audience == nil {
		return nil
	}
	var warnings []string
	warn := func(format string, args ...any) {
		warnings = append(warnings, fmt.Sprintf("annotation %s: ", multicluster.ExportToAnnotation)+fmt.Sprintf(format, args...))
	}
	terms, _, _ := clusterlist.Parse(written.Annotations, multicluster.ExportToAnnotation)
	for _, term := range terms {
		entry := p.members.Entry(term.ID)
		switch {
		case term.ID == own.Spec.Cluster && len(terms) > 1:
			warn("%s is this cluster, which always imports its own exports: listing it has no effect", term)
		case term.ID == own.Spec.Cluster: // the way to export to no other cluster
		case term.ID != "" && entry == nil:
			warn("%s is not known as a member, and imports nothing until it is; check the ID with kubectl get members", term)
		case term.ID != "" && entry.Status.State == clusterset.MemberRefused:
			warn("%s is refused as a member, and imports nothing until it is accepted; see kubectl describe member %s", term, term)
		case term.ID != "" && clusterlist.UnlistedHub(entry.Status.Path, own.Spec.Audience.Clusters()) != "":
			hub := clusterlist.UnlistedHub(entry.Status.Path, own.Spec.Audience.Clusters())
			warn("%s is behind hub %s, which is not listed, and does not pass the export on; add %s", term, hub, hub)
		case term.ID == "" && len(clusterlist.Audience(map[string]string{multicluster.ExportToAnnotation: term.String()}, own.Spec.Cluster, p.members.Properties).Clusters()) == 0:
			warn("no member is known to have ClusterProperty %s; create the ClusterClaim %s with value %s in the clusters that should import the Service", term, term.Property, term.Value)
		}
	}
	if own.Spec.Audience.Len() == clusterset.MaxAudience {
		warn("lists %d clusters or more, and further ones do not import the Service; list fewer", clusterset.MaxAudience)
	}
	if written.Annotations[multicluster.UseClusterSetIPAnnotation] == "true" {
		warn("Services that are exported to some clusters only get no shared ClusterSet IP; remove annotation %s, or the list", multicluster.UseClusterSetIPAnnotation)
	}
	return warnings
}

// warnNewAudience warns about what an export loses by a list: the clusters that can read it without the
// change, and the shared ClusterSet IP. before is nil if there is no such export yet.
func (p *Projection) warnNewAudience(before, own *clusterset.ExportedService) []string {
	if before == nil || own.Spec.Audience == nil {
		return nil
	}
	var warnings []string
	if losing := p.losing(before.Spec.Audience, own.Spec.Audience); len(losing) > 0 {
		lose, them := "lose", "them"
		if len(losing) == 1 {
			lose, them = "loses", "it"
		}
		warnings = append(warnings, fmt.Sprintf("annotation %s: %s %s the import of Service %q from this cluster; list %s if that is not intended",
			multicluster.ExportToAnnotation, summarize(losing), lose, own.Spec.Service, them))
	}
	decided := before.Spec.ClusterSetIP
	if before.Spec.Audience == nil && (before.Spec.UseClusterSetIP || decided != nil && len(decided.IPs) > 0) {
		ip := "the shared ClusterSet IP"
		if decided != nil && len(decided.IPs) > 0 {
			ip += " " + strings.Join(decided.IPs, ",")
		}
		warnings = append(warnings, fmt.Sprintf("annotation %s: the export gives up %s, as exports with a list take no part in shared ClusterSet IPs; remove the annotation to keep the IP",
			multicluster.ExportToAnnotation, ip))
	}
	return warnings
}

// losing returns the IDs of the members, as far as they have been read, that belong to an audience
// and not to the next one.
func (p *Projection) losing(before, after *clusterset.Audience) []string {
	reads := func(audience *clusterset.Audience, entry *clusterset.Member) bool {
		hubs := entry.Status.Path[min(len(entry.Status.Path), 1):]
		return audience.Includes(entry.Status.ClusterID) && !slices.ContainsFunc(hubs, func(hub string) bool { return !audience.Includes(hub) })
	}
	losing := sets.New[string]()
	for _, name := range p.members.Names() {
		entry := p.members.Entry(name)
		if entry == nil { // removed meanwhile
			continue
		}
		switch entry.Status.State {
		case clusterset.MemberLocal, clusterset.MemberConnecting, clusterset.MemberRefused:
			continue
		}
		if reads(before, entry) && !reads(after, entry) {
			losing.Insert(entry.Status.ClusterID)
		}
	}
	return sets.List(losing)
}

// summarize returns the first IDs, and how many more there are: warnings are printed.
func summarize(ids []string) string {
	const shown = 10
	if len(ids) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:shown], ", "), len(ids)-shown)
	}
	return strings.Join(ids, ", ")
}

// warnPreference warns if it has no effect which clusters an export prefers, or not in this
// cluster.
func (p *Projection) warnPreference(written *multiclusterxv1beta1.ServiceExport, own *clusterset.ExportedService) []string {
	warn := func(reason string) []string {
		return []string{fmt.Sprintf("annotation %s has no effect: %s", multicluster.ClusterPreferenceAnnotation, reason)}
	}
	_, alone := written.Annotations[multicluster.PreferenceMinReadyAnnotation]
	switch {
	case len(own.Spec.ClusterPreference) == 0 && alone:
		return []string{fmt.Sprintf("annotation %s has no effect without annotation %s", multicluster.PreferenceMinReadyAnnotation, multicluster.ClusterPreferenceAnnotation)}
	case len(own.Spec.ClusterPreference) == 0:
		return nil
	case own.Spec.Type == clusterset.Headless:
		return warn("the Service is headless, and DNS returns the endpoints of all clusters")
	case ptr.Deref(own.Spec.InternalTrafficPolicy, "") == corev1.ServiceInternalTrafficPolicyLocal:
		return warn("the Service has internalTrafficPolicy Local, and clients use endpoints on their node only")
	}
	var warnings []string
	for _, tier := range own.Spec.ClusterPreference {
		name, isProperty := clusterpreference.Tier(tier).Property()
		if _, err := p.claims.Get(name); isProperty && apierrors.IsNotFound(err) {
			warnings = append(warnings, fmt.Sprintf("tier %q of annotation %s is skipped by the clients of this cluster, which has no ClusterProperty %q; create a ClusterClaim of that name in each cluster",
				tier, multicluster.ClusterPreferenceAnnotation, name))
		}
	}
	return warnings
}

// warnLongNames warns about Pods that get no DNS name of their own in the
// ClusterSet, because the name would be longer than DNS allows.
func warnLongNames(local export.Local, own *clusterset.ExportedService) []string {
	if own.Spec.Type != clusterset.Headless {
		return nil
	}
	slices, err := local.EndpointSlices(own.Namespace, own.Spec.Service)
	if err != nil {
		return nil // warnings are best effort
	}
	domain := fmt.Sprintf(".%s.%s.%s.svc.clusterset.local", own.Spec.Cluster, own.Spec.Service, own.Namespace)
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if name := ptr.Deref(endpoint.Hostname, "") + domain; len(name) > validation.DNS1123SubdomainMaxLength {
				return []string{fmt.Sprintf("some Pods of the Service get no DNS name in the ClusterSet, because the name would be longer than %d characters: %s",
					validation.DNS1123SubdomainMaxLength, name)}
			}
		}
	}
	return nil
}

// describeCluster returns the ID of a cluster, and its state unless it is connected.
func describeCluster(id string, state clusterset.MemberState) string {
	if state == clusterset.MemberConnected {
		return id
	}
	return fmt.Sprintf("%s (%s)", id, strings.ToLower(string(state)))
}
