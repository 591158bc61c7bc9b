// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// syncService computes everything that depends on one Service: what is
// published to other clusters, and what is imported into this one.
func (p *Projection) syncService(service types.NamespacedName) error {
	// There may be keys of several sources for one Service.
	p.syncing.LockKey(service.String())
	defer func() { _ = p.syncing.UnlockKey(service.String()) }() // never fails
	exports, err := p.exportAndPublish(service)
	if err != nil {
		return err
	}
	return p.projectImport(service, exports)
}

// exportAndPublish holds the lock throughout, because endpoints can move from
// one Service to another and the totals must be reported in order.
func (p *Projection) exportAndPublish(service types.NamespacedName) ([]member.Export, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	exports, err := p.exports(service)
	if err != nil {
		return nil, err
	}
	p.published.publish(service, exports)
	return exports, nil
}

// exports returns the exports of a Service by all clusters, that of this
// cluster first. Outside a ClusterSet nothing is exported or imported. Exports of
// other clusters are ignored in namespaces that are not to be imported into.
func (p *Projection) exports(service types.NamespacedName) ([]member.Export, error) {
	identity := p.members.Identity()
	if identity.ID == "" || identity.ClusterSet == "" {
		return nil, nil
	}
	var exports []member.Export
	own, err := p.local.Exported(p.origin(identity), service.Namespace, service.Name)
	if err != nil {
		return nil, err
	}
	expelled := p.members.Expelled()
	if own != nil {
		exports = append(exports, withoutDecisionOf(expelled, member.Export{Export: *own, State: clusterset.MemberLocal}))
	}
	namespace, err := p.namespaces.Get(service.Namespace)
	imports := func(string) bool { return true }
	switch {
	case apierrors.IsNotFound(err): // published all the same: others may have it
	case err != nil:
		return nil, err
	case importDisabled(namespace):
		return exports, nil
	default:
		imports = clusterlist.Imports(namespace.Annotations, p.members.Properties)
	}
	for _, export := range p.members.Exports(service) {
		if !imports(export.Service.Spec.Cluster) {
			continue
		}
		exports = append(exports, withoutDecisionOf(expelled, export))
	}
	return exports, nil
}

// withoutDecisionOf returns an export without the decision about a shared ClusterSet IP
// of a cluster that is expelled, or that was heard through one.
func withoutDecisionOf(expelled sets.Set[string], export member.Export) member.Export {
	if !clustersetip.DependsOn(export.Service.Spec.ClusterSetIP, expelled) {
		return export
	}
	without := *export.Service
	without.Spec.ClusterSetIP = nil
	export.Service = &without
	return export
}

func importDisabled(namespace *corev1.Namespace) bool {
	return namespace.Annotations[clusterset.ImportAnnotation] == clusterset.ImportDisabled
}

// origin returns this cluster as the origin of exports.
func (p *Projection) origin(self identity.Cluster) export.Origin {
	return export.Origin{ID: self.ID, JoinedAt: self.IDClaimedAt, UseClusterSetIP: p.config.UseClusterSetIP, Properties: p.members.Properties, Now: p.config.Clock.Now()}
}

// projectImport computes the ServiceImport of a Service.
func (p *Projection) projectImport(service types.NamespacedName, exports []member.Export) error {
	scope, err := p.scope(service.Namespace)
	if err != nil {
		return err
	}
	local, err := p.localState(service)
	if err != nil {
		return err
	}
	if _, wait := clustersetip.Awaited(local.ip, decisions(exports)); wait > 0 {
		p.queue.AddAfter(key{kind: serviceKey, name: service}, wait)
	}
	next, ending := p.nextIdentity(service, scope, local)
	exported := len(exports) > 0
	retained := p.retained(service, next, exported)
	decision, members := p.imports.decide(service, next, ending, exported || retained != nil, exporters(exports), p.config.Clock.Now())
	if decision.End != nil {
		p.config.Lives.End(service.Namespace, scope.NamespaceUID, service.Name, *decision.End, members)
	}
	if decision.Again > 0 {
		p.queue.AddAfter(key{kind: serviceKey, name: service}, decision.Again)
	}
	switch {
	case decision.Show != nil && retained != nil:
		p.stores.serviceImports.Set(newRetainedImport(service, *decision.Show, retained, local))
	case decision.Show != nil:
		p.stores.serviceImports.Set(newImport(service, *decision.Show, exports, local))
	case decision.Delete:
		p.stores.serviceImports.Delete(service.Namespace, service.Name)
	}
	return nil
}

// decisions returns what matters of exports for the shared ClusterSet IP.
func decisions(exports []member.Export) []clustersetip.Export {
	var found []clustersetip.Export
	for _, export := range exports {
		found = append(found, merge.FromExported(export.Service).IP)
	}
	return clustersetip.Taking(found)
}

// scope returns the scope of the identities of the imports in a namespace. It
// returns nil if the namespace has no imports: it does not exist or is being
// deleted, or this cluster is not in a ClusterSet.
func (p *Projection) scope(name string) (*importidentity.Scope, error) {
	namespace, err := p.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	self := p.members.Identity()
	if namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating || !self.InClusterSet() {
		return nil, nil
	}
	scope := &importidentity.Scope{NamespaceUID: namespace.UID, MembershipUID: self.MembershipUID, Since: namespace.CreationTimestamp.Time}
	if self.IDClaimedAt.After(scope.Since) {
		scope.Since = self.IDClaimedAt
	}
	return scope, nil
}

// nextIdentity returns the identity with which an import would be added now, and
// whether the end of that life is being recorded.
func (p *Projection) nextIdentity(service types.NamespacedName, scope *importidentity.Scope, local localState) (next *importidentity.Identity, ending bool) {
	if scope == nil {
		return nil, false
	}
	begun := importidentity.Marked(local.mark, scope.NamespaceUID)
	life, ending := p.config.Lives.Life(service.Namespace, scope.NamespaceUID, service.Name, begun)
	identity := scope.Identity(service.Name, life)
	return &identity, ending
}

// localState returns the objects of this cluster that belong to an import.
func (p *Projection) localState(service types.NamespacedName) (localState, error) {
	var local localState
	found, err := p.local.Service(service.Namespace, multicluster.DerivedServiceName(service.Namespace, service.Name))
	switch {
	case err != nil:
		return local, err
	case found == nil:
	case found.Labels[multicluster.ServiceNameLabel] != service.Name || found.Labels[multicluster.ManagedByLabel] != multicluster.ManagedBy:
		local.conflicting = found
	default:
		local.mark = found.Annotations[multicluster.ImportLifeAnnotation]
		if found.DeletionTimestamp == nil {
			local.derived = found
		}
	}
	local.ip = clustersetip.NewLocal(p.members.Identity().ID, local.derived, p.members.Allocations(), p.config.Clock.Now())
	if namespace, err := p.namespaces.Get(service.Namespace); err == nil { // otherwise there is no import
		local.endpointSlices = namespace.Annotations[multicluster.EndpointSlicesAnnotation]
	}
	slices, err := p.imported.IndexKeys(importIndex, service.String())
	local.slices = len(slices) > 0
	return local, err
}

// Clusters returns the IDs of the clusters that export a Service, sorted.
func (p *Projection) Clusters(namespace, name string) []string {
	served, ok := p.stores.serviceImports.Get(namespace, name)
	if !ok {
		return nil
	}
	var clusters []string
	for _, cluster := range served.(*multicluster.ServiceImport).Status.Clusters {
		clusters = append(clusters, cluster.Cluster)
	}
	slices.SortFunc(clusters, strings.Compare)
	return clusters
}
