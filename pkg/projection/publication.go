// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// publications tracks which ExportedServices and ExportedEndpointSlices are
// published for each Service. It is not safe for concurrent use.
type publications struct {
	stores    stores
	byService map[types.NamespacedName]publication
	// byNamespace holds the keys of byService, by namespace.
	byNamespace map[string]sets.Set[types.NamespacedName]
	// replaceLocal is called when a share of what this cluster exports is replaced by another one.
	replaceLocal func(before, now exports.Share)
	// served is called when endpoints of another cluster are published that changed there at
	// a time.
	served func(cluster string, changed time.Time)
	// volume limits what is published because of a member; nil before anything is read.
	volume *volume
}

// publication is what is published for one Service, by object name.
type publication struct {
	services, slices sets.Set[string]
	// narrowed are the clusters whose export waits, and whose audience became smaller meanwhile.
	narrowed sets.Set[string]
	// own counts what this cluster itself exports.
	own exports.Share
}

func newPublications(stores stores, replaceLocal func(before, now exports.Share), served func(cluster string, changed time.Time)) publications {
	return publications{
		stores: stores, replaceLocal: replaceLocal, served: served,
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
	if !now.own.Equal(before.own) {
		p.replaceLocal(before.own, now.own)
	}
}

// set writes the exports to the stores. Of an export that has to wait, all that is published
// stays as it is: endpoints that move from one slice to another are in one of them.
func (p *publications) set(service types.NamespacedName, exported []member.Export, before publication) publication {
	now := publication{services: sets.New[string](), slices: sets.New[string]()}
	for _, export := range exported {
		if p.volume != nil && export.State != clusterset.MemberLocal && !p.volume.affords(service, export) {
			p.keep(service, export.Service.Spec.Cluster, before, now)
			p.narrow(service, export, before, &now)
			continue
		}
		// A store modifies the objects that it is given, so it gets copies.
		shown := *export.Service
		p.stores.exportedServices.Set(&shown)
		now.services.Insert(shown.Name)
		var endpoints int32
		for _, slice := range export.Slices {
			shown := *slice
			shown.Spec.Audience = export.Service.Spec.Audience
			held, _ := p.stores.exportedEndpointSlices.Get(shown.Namespace, shown.Name)
			if p.stores.exportedEndpointSlices.Set(&shown) {
				p.measure(export, held, slice, before)
			}
			now.slices.Insert(shown.Name)
			endpoints += int32(len(slice.Spec.Endpoints)) //nolint:gosec // an EndpointSlice holds at most 1000
		}
		if export.State == clusterset.MemberLocal {
			now.own = exports.NewShare(export.Service.Spec.Audience, 1, endpoints)
		}
	}
	return now
}

// measure measures how long it took until a change of endpoints in another cluster was
// published. What was not imported until now was not on its way. held is the slice that was
// published before, if there was any.
func (p *publications) measure(export member.Export, held runtime.Object, slice *clusterset.ExportedEndpointSlice, before publication) {
	if export.State == clusterset.MemberLocal || slice.Spec.ChangedAt == nil || !before.services.Has(export.Service.Name) {
		return
	}
	if was, ok := held.(*clusterset.ExportedEndpointSlice); ok && !changedThere(was, slice) {
		return
	}
	p.served(slice.Spec.Cluster, slice.Spec.ChangedAt.Time)
}

// changedThere reports whether a slice differs because its endpoints changed in the other cluster,
// and not because of what is imported of them, or on which way.
func changedThere(before, now *clusterset.ExportedEndpointSlice) bool {
	return slices.Equal(before.Spec.Path, now.Spec.Path) && (before.Spec.ChangedAt == nil || before.Spec.ChangedAt.Time.Before(now.Spec.ChangedAt.Time)) &&
		(!clusterset.SameEndpoints(before.Spec.Endpoints, now.Spec.Endpoints) || !apiequality.Semantic.DeepEqual(before.Spec.Ports, now.Spec.Ports))
}

// keep adds what is published of the export of one cluster to a publication.
func (p *publications) keep(service types.NamespacedName, cluster string, before, now publication) {
	for name := range before.services {
		if shown, ok := p.stores.exportedServices.Get(service.Namespace, name); ok && shown.(*clusterset.ExportedService).Spec.Cluster == cluster {
			now.services.Insert(name)
		}
	}
	for name := range before.slices {
		if _, ok := p.sliceOf(service, cluster, name); ok {
			now.slices.Insert(name)
		}
	}
}

// sliceOf returns a slice that is published of the export of a Service by a cluster, and false if
// there is none, or if it moved to another Service.
func (p *publications) sliceOf(service types.NamespacedName, cluster, name string) (*clusterset.ExportedEndpointSlice, bool) {
	held, ok := p.stores.exportedEndpointSlices.Get(service.Namespace, name)
	if !ok {
		return nil, false
	}
	slice := held.(*clusterset.ExportedEndpointSlice)
	return slice, slice.Spec.Cluster == cluster && slice.Spec.Service == service.Name
}

// narrow hides what is kept of an export that waits from clusters that the export is not for any more,
// as what is withdrawn does not wait. That happens at most twice: at first, the clusters stay that it
// was for and is for, and if one of them has to go as well, nobody stays.
func (p *publications) narrow(service types.NamespacedName, export member.Export, before publication, now *publication) {
	cluster := export.Service.Spec.Cluster
	narrowed := before.narrowed.Has(cluster)
	for name := range now.services {
		held, ok := p.stores.exportedServices.Get(service.Namespace, name)
		if !ok || held.(*clusterset.ExportedService).Spec.Cluster != cluster {
			continue
		}
		shown := *held.(*clusterset.ExportedService)
		audience := shown.Spec.Audience.Intersection(export.Service.Spec.Audience)
		if !audience.Same(shown.Spec.Audience) {
			if narrowed {
				audience = clusterset.NewAudience()
			}
			narrowed = true
			shown.Spec.Audience = audience
			p.stores.exportedServices.Set(&shown)
			bytes := metadata + p.narrowSlices(service, cluster, audience, *now)
			p.volume.turns.Charge(exporters([]member.Export{export}), bytes)
		}
	}
	if narrowed {
		now.narrowed = now.narrowed.Union(sets.New(cluster))
	}
}

// narrowSlices shows the endpoints that are kept of an export to an audience, and returns about how
// many bytes they have.
func (p *publications) narrowSlices(service types.NamespacedName, cluster string, audience *clusterset.Audience, now publication) (bytes int) {
	for name := range now.slices {
		if slice, ok := p.sliceOf(service, cluster, name); ok {
			shown := *slice
			shown.Spec.Audience = audience
			p.stores.exportedEndpointSlices.Set(&shown)
			bytes += sliceBytes(slice)
		}
	}
	return bytes
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
