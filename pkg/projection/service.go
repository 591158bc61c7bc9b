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
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// syncService computes everything that depends on one Service: what is
// published to other clusters, and what is imported into this one.
func (p *Projection) syncService(ctx context.Context, service types.NamespacedName) error {
	exports, err := p.exportAndPublish(service)
	if err != nil {
		return err
	}
	return p.projectImport(ctx, service, exports)
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
// cluster first. Outside a ClusterSet nothing is exported or imported.
func (p *Projection) exports(service types.NamespacedName) ([]member.Export, error) {
	identity := p.members.Identity()
	if identity.ID == "" || identity.ClusterSet == "" {
		return nil, nil
	}
	var exports []member.Export
	own, err := p.local.Exported(p.config.origin(identity), service.Namespace, service.Name)
	if err != nil {
		return nil, err
	}
	if own != nil {
		exports = append(exports, member.Export{Export: *own, State: clusterset.MemberLocal})
	}
	return append(exports, p.members.Exports(service)...), nil
}

// origin returns this cluster as the origin of exports.
func (c Config) origin(self identity.Cluster) export.Origin {
	return export.Origin{ID: self.ID, JoinedAt: self.IDClaimedAt, UseClusterSetIP: c.UseClusterSetIP}
}

// projectImport computes the ServiceImport of a Service.
func (p *Projection) projectImport(ctx context.Context, service types.NamespacedName, exports []member.Export) error {
	store, identities := p.stores.serviceImports, p.config.Identities
	hosted, err := hostsImports(p.namespaces, service.Namespace)
	if err != nil {
		return err
	}
	served, exists := store.Get(service.Namespace, service.Name)
	if !hosted || len(exports) == 0 {
		if exists {
			identities.Tombstone(service, served.(*multicluster.ServiceImport).UID)
			store.Delete(service.Namespace, service.Name)
		}
		return identities.Collect(ctx, service)
	}
	local, err := p.localState(service)
	if err != nil {
		return err
	}
	result := newImport(service, exports, local)
	var previous []metav1.Condition
	if exists {
		previous = served.(*multicluster.ServiceImport).Status.Conditions
	}
	if err := identities.Ensure(ctx, service, &result.ObjectMeta, result.Status.Conditions, previous); err != nil {
		return err
	}
	store.Set(result)
	return nil
}

// hostsImports reports whether a namespace can have imports: it exists and is
// not being deleted.
func hostsImports(namespaces corev1listers.NamespaceLister, name string) (bool, error) {
	namespace, err := namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return namespace.DeletionTimestamp == nil && namespace.Status.Phase != corev1.NamespaceTerminating, nil
}

// localState returns the objects of this cluster that belong to an import.
func (p *Projection) localState(service types.NamespacedName) (localState, error) {
	derived, err := p.local.Service(service.Namespace, multicluster.DerivedServiceName(service.Namespace, service.Name))
	if err != nil {
		return localState{}, err
	}
	nameConflict := derived != nil && (derived.Labels[multicluster.ServiceNameLabel] != service.Name || derived.Labels[multicluster.ManagedByLabel] != multicluster.ManagedBy)
	if nameConflict || derived != nil && derived.DeletionTimestamp != nil {
		derived = nil
	}
	slices, err := p.imported.IndexKeys(importIndex, service.String())
	return localState{derived: derived, nameConflict: nameConflict, slices: len(slices) > 0}, err
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
