// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// syncService computes everything about one service: what is shown of it to
// other clusters, and what is imported here.
func (p *Projection) syncService(ctx context.Context, service types.NamespacedName) error {
	exports, err := p.exportAndPublish(service)
	if err != nil {
		return err
	}
	return p.project(ctx, service, exports)
}

// exportAndPublish holds the lock throughout: endpoints may move from one
// service to another, and the last count must be the last that is told.
func (p *Projection) exportAndPublish(service types.NamespacedName) ([]member.Export, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	exports, err := p.exports(service)
	if err != nil {
		return nil, err
	}
	p.publish(service, exports)
	return exports, nil
}

// exports are a service as all clusters export it, this one first. A cluster
// that is in no ClusterSet exports and imports nothing.
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
	if own != nil {
		exports = append(exports, member.Export{Export: *own, State: clusterset.MemberLocal})
	}
	return append(exports, p.members.Exports(service)...), nil
}

// origin is this cluster as one that exports.
func (p *Projection) origin(identity member.Identity) export.Origin {
	return export.Origin{ID: identity.ID, JoinedAt: identity.IDClaimedAt, UseClusterSetIP: p.config.UseClusterSetIP}
}

// publish shows the exports of a service, and nothing else of it. It is called
// with the lock held.
func (p *Projection) publish(service types.NamespacedName, exports []member.Export) {
	now := publication{services: sets.New[string](), slices: sets.New[string]()}
	for _, export := range exports {
		// The stores write to what they are given.
		shown := *export.Service
		p.config.Stores.ExportedServices.Set(&shown)
		now.services.Insert(shown.Name)
		for _, slice := range export.Slices {
			shown := *slice
			p.config.Stores.ExportedEndpointSlices.Set(&shown)
			now.slices.Insert(shown.Name)
			if export.State == clusterset.MemberLocal {
				now.endpoints += int32(len(slice.Spec.Endpoints)) //nolint:gosec // an EndpointSlice holds at most 1000
			}
		}
		if export.State == clusterset.MemberLocal {
			now.exports = 1
		}
	}
	before := p.published[service]
	if len(exports) > 0 {
		p.published[service] = now
		p.indexNamespace(service)
	} else {
		delete(p.published, service)
		p.unindexNamespace(service)
	}
	for name := range before.services.Difference(now.services) {
		p.config.Stores.ExportedServices.Delete(service.Namespace, name)
	}
	for name := range before.slices.Difference(now.slices) {
		shown, ok := p.config.Stores.ExportedEndpointSlices.Get(service.Namespace, name)
		if ok && shown.(*clusterset.ExportedEndpointSlice).Spec.Service == service.Name {
			p.config.Stores.ExportedEndpointSlices.Delete(service.Namespace, name)
		}
	}
	if now.exports != before.exports || now.endpoints != before.endpoints {
		p.counts.exports += now.exports - before.exports
		p.counts.endpoints += now.endpoints - before.endpoints
		p.members.SetLocal(p.counts.exports, p.counts.endpoints)
	}
}

// indexNamespace and unindexNamespace keep track of the services of a
// namespace that may not exist here. They are called with the lock held.
func (p *Projection) indexNamespace(service types.NamespacedName) {
	if p.byNamespace[service.Namespace] == nil {
		p.byNamespace[service.Namespace] = sets.New[types.NamespacedName]()
	}
	p.byNamespace[service.Namespace].Insert(service)
}

func (p *Projection) unindexNamespace(service types.NamespacedName) {
	p.byNamespace[service.Namespace].Delete(service)
	if len(p.byNamespace[service.Namespace]) == 0 {
		delete(p.byNamespace, service.Namespace)
	}
}

// project computes the import of a service.
func (p *Projection) project(ctx context.Context, service types.NamespacedName, exports []member.Export) error {
	store := p.config.Stores.ServiceImports
	hosted, err := p.hosts(service.Namespace)
	if err != nil {
		return err
	}
	shown, alive := store.Get(service.Namespace, service.Name)
	if !hosted || len(exports) == 0 {
		if alive {
			p.mu.Lock()
			p.dead[service] = shown.(*multicluster.ServiceImport).UID
			p.mu.Unlock()
			store.Delete(service.Namespace, service.Name)
		}
		return p.bury(ctx, service)
	}
	if err := p.bury(ctx, service); err != nil {
		return err
	}
	around, err := p.surroundings(service)
	if err != nil {
		return err
	}
	result := newImport(service, exports, around)
	var previous []metav1.Condition
	if alive {
		previous = shown.(*multicluster.ServiceImport).Status.Conditions
	}
	if err := p.config.Births.certify(ctx, service, &result.ObjectMeta, result.Status.Conditions, previous); err != nil {
		return err
	}
	store.Set(result)
	return nil
}

// bury removes the record of an import that is no more. Until that is done the
// import has no next life: it would be taken for the old one.
func (p *Projection) bury(ctx context.Context, service types.NamespacedName) error {
	p.mu.Lock()
	uid, dead := p.dead[service]
	p.mu.Unlock()
	if !dead {
		return nil
	}
	if err := p.config.Births.end(ctx, service, uid); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dead, service)
	return nil
}

// hosts says whether a namespace can have imports: one that is being deleted
// counts as gone.
func (p *Projection) hosts(name string) (bool, error) {
	namespace, err := p.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return namespace.DeletionTimestamp == nil && namespace.Status.Phase != corev1.NamespaceTerminating, nil
}

// surroundings are what this cluster has for an import.
func (p *Projection) surroundings(service types.NamespacedName) (surroundings, error) {
	derived, err := p.local.Service(service.Namespace, multicluster.DerivedServiceName(service.Namespace, service.Name))
	if err != nil {
		return surroundings{}, err
	}
	occupied := derived != nil && (derived.Labels[multicluster.ServiceNameLabel] != service.Name || derived.Labels[multicluster.ManagedByLabel] != multicluster.ManagedBy)
	if occupied || derived != nil && derived.DeletionTimestamp != nil {
		derived = nil
	}
	slices, err := p.imported.IndexKeys(importIndex, service.String())
	return surroundings{derived: derived, occupied: occupied, slices: len(slices) > 0}, err
}

// Clusters are the ids of the clusters that export a service.
func (p *Projection) Clusters(namespace, name string) []string {
	shown, ok := p.config.Stores.ServiceImports.Get(namespace, name)
	if !ok {
		return nil
	}
	var clusters []string
	for _, cluster := range shown.(*multicluster.ServiceImport).Status.Clusters {
		clusters = append(clusters, cluster.Cluster)
	}
	slices.SortFunc(clusters, strings.Compare)
	return clusters
}
