// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"maps"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// exported is what a cluster exports of one Service.
type exported struct {
	objects map[Key]Object
	// share is the Service with all its endpoints, which are published for the audience of the
	// Service. While the Service itself is not held, it has no audience.
	share Share
	// own are the shares of the slices that claim an audience. They are counted while the Service
	// itself is not held.
	own map[Key]Share
}

func newExported() *exported { return &exported{objects: map[Key]Object{}} }

func (e *exported) clone() *exported {
	return &exported{objects: maps.Clone(e.objects), share: e.share, own: maps.Clone(e.own)}
}

// set holds an object, in place of the one with the same key, and counts it.
func (e *exported) set(key Key, object Object, counts *Counts) {
	switch content := object.Object.(type) {
	case *clusterset.ExportedService:
		e.countService(NewShare(content.Spec.Audience, 1, e.share.Endpoints), counts)
	case *clusterset.ExportedEndpointSlice:
		e.countSlice(key, NewShare(content.Spec.Audience, 0, int32(len(content.Spec.Endpoints))), counts) //nolint:gosec // what is admitted is limited
	}
	e.objects[key] = object
}

// delete removes an object that is held.
func (e *exported) delete(key Key, counts *Counts) {
	switch e.objects[key].Object.(type) {
	case *clusterset.ExportedService:
		e.countService(Share{Endpoints: e.share.Endpoints}, counts)
	case *clusterset.ExportedEndpointSlice:
		e.countSlice(key, Share{}, counts)
	}
	delete(e.objects, key)
}

// countService counts everything by another share of the Service. It takes longer only if slices
// claim an audience, and the Service appears or disappears.
func (e *exported) countService(now Share, counts *Counts) {
	before := e.share
	if before.Exports == 0 {
		for _, own := range e.own {
			counts.Replace(own, own.forAll())
		}
	}
	counts.Replace(before, now)
	if now.Exports == 0 {
		for _, own := range e.own {
			counts.Replace(own.forAll(), own)
		}
	}
	e.share = now
}

// countSlice counts a slice whose own share changes.
func (e *exported) countSlice(key Key, now Share, counts *Counts) {
	before, service := e.ownShare(key), e.share
	e.share.Endpoints += now.Endpoints - before.Endpoints
	switch {
	case now.audience == nil:
		delete(e.own, key)
	case e.own == nil:
		e.own = map[Key]Share{key: now}
	default:
		e.own[key] = now
	}
	if e.share.Exports > 0 {
		before, now = service, e.share
	}
	counts.Replace(before, now)
}

// ownShare returns how a slice is counted by its own audience.
func (e *exported) ownShare(key Key) Share {
	if own, claimed := e.own[key]; claimed {
		return own
	}
	if slice, ok := e.objects[key].Object.(*clusterset.ExportedEndpointSlice); ok {
		return Share{Endpoints: int32(len(slice.Spec.Endpoints))} //nolint:gosec // what is admitted is limited
	}
	return Share{}
}
