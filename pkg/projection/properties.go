// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// propertiesChanged handles members whose ClusterProperties changed.
func (p *Projection) propertiesChanged(cluster string) {
	p.queue.Add(key{propertiesKey, types.NamespacedName{Name: cluster}, cluster})
}

// syncProperties enqueues what may depend on the ClusterProperties of a member: the Services that are
// exported to clusters with some property, and those of the member in namespaces that import from such
// clusters. It is because of the member, as if that had changed its exports of them.
func (p *Projection) syncProperties(cluster string) error {
	local, err := p.local.Exports.List(everything)
	if err != nil {
		return err
	}
	for _, export := range local {
		if clusterlist.NamesProperties(export.Annotations, multicluster.ExportToAnnotation) {
			p.exportChanged(exports.Ref{Cluster: cluster, Service: types.NamespacedName{Namespace: export.Namespace, Name: export.Name}})
		}
	}
	namespaces, err := p.namespaces.List(everything)
	if err != nil {
		return err
	}
	selecting := sets.New[string]()
	for _, namespace := range namespaces {
		if clusterlist.NamesProperties(namespace.Annotations, clusterset.ImportFromAnnotation) {
			selecting.Insert(namespace.Name)
		}
	}
	if len(selecting) == 0 {
		return nil
	}
	for _, service := range p.members.ServicesOf(cluster) {
		if selecting.Has(service.Namespace) {
			p.exportChanged(exports.Ref{Cluster: cluster, Service: service})
		}
	}
	return nil
}
