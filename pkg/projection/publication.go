// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// publications tracks which ExportedServices and ExportedEndpointSlices are
// published for each Service. It is not safe for concurrent use.
type publications struct {
	stores    stores
	byService map[types.NamespacedName]publication
	// byNamespace holds the keys of byService, by namespace.
	byNamespace map[string]sets.Set[types.NamespacedName]
	// exports and endpoints are the totals of this cluster.
	exports, endpoints int32
	// setLocal is called when a total changes.
	setLocal func(exports, endpoints int32)
	// volume limits what is published because of a member; nil before anything is read.
	volume *volume
}

// publication is what is published for one Service, by object name.
type publication struct {
	services, slices sets.Set[string]
	// exports and endpoints count those of this cluster.
	exports, endpoints int32
}

func newPublications(stores stores, setLocal func(exports, endpoints int32)) publications {
	return publications{
		stores: stores, setLocal: setLocal,
		byService: map[types.NamespacedName]publication{}, byNamespace: map[string]sets.Set[types.NamespacedName]{},
	}
}

// publish publishes the exports of a Service and withdraws everything else that
// was published for it.
func (p *publications) publish(service types.NamespacedName, exports []member.Export) {
	before := p.byService[service]
	now := p.set(service, exports, before)
	p.track(service, now, len(exports) > 0)
	for name := range before.services.Difference(now.services) {
		p.stores.exportedServices.Delete(service.Namespace, name)
	}
	for name := range before.slices.Difference(now.slices) {
		// A slice that moved to another Service belongs to that Service now.
		shown, ok := p.stores.exportedEndpointSlices.Get(service.Namespace, name)
		if ok && shown.(*clusterset.ExportedEndpointSlice).Spec.Service == service.Name {
			p.stores.exportedEndpointSlices.Delete(service.Namespace, name)
		}
	}
	if now.exports != before.exports || now.endpoints != before.endpoints {
		p.exports += now.exports - before.exports
		p.endpoints += now.endpoints - before.endpoints
		p.setLocal(p.exports, p.endpoints)
	}
}

// set writes the exports to the stores. Of an export that has to wait, all that is published
// stays as it is: endpoints that move from one slice to another are in one of them.
func (p *publications) set(service types.NamespacedName, exports []member.Export, before publication) publication {
	now := publication{services: sets.New[string](), slices: sets.New[string]()}
	for _, export := range exports {
		if p.volume != nil && export.State != clusterset.MemberLocal && !p.volume.affords(service, export) {
			p.keep(service, export.Service.Spec.Cluster, before, now)
			continue
		}
		// A store modifies the objects that it is given, so it gets copies.
		shown := *export.Service
		p.stores.exportedServices.Set(&shown)
		now.services.Insert(shown.Name)
		for _, slice := range export.Slices {
			shown := *slice
			p.stores.exportedEndpointSlices.Set(&shown)
			now.slices.Insert(shown.Name)
			if export.State == clusterset.MemberLocal {
				now.endpoints += int32(len(slice.Spec.Endpoints)) //nolint:gosec // an EndpointSlice holds at most 1000
			}
		}
		if export.State == clusterset.MemberLocal {
			now.exports = 1
		}
	}
	return now
}

// keep adds what is published of the export of one cluster to a publication.
func (p *publications) keep(service types.NamespacedName, cluster string, before, now publication) {
	for name := range before.services {
		if shown, ok := p.stores.exportedServices.Get(service.Namespace, name); ok && shown.(*clusterset.ExportedService).Spec.Cluster == cluster {
			now.services.Insert(name)
		}
	}
	for name := range before.slices {
		if shown, ok := p.stores.exportedEndpointSlices.Get(service.Namespace, name); ok && shown.(*clusterset.ExportedEndpointSlice).Spec.Cluster == cluster {
			now.slices.Insert(name)
		}
	}
}

// track records what is published for a Service.
func (p *publications) track(service types.NamespacedName, now publication, exported bool) {
	inNamespace := p.byNamespace[service.Namespace]
	if exported {
		p.byService[service] = now
		if inNamespace == nil {
			inNamespace = sets.New[types.NamespacedName]()
			p.byNamespace[service.Namespace] = inNamespace
		}
		inNamespace.Insert(service)
		return
	}
	delete(p.byService, service)
	inNamespace.Delete(service)
	if len(inNamespace) == 0 {
		delete(p.byNamespace, service.Namespace)
	}
}
