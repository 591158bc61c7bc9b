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
	// endpoints are those of all slices.
	endpoints int32
	// share is what is counted: the Service with all its endpoints, which are published for the
	// audience of the Service. Nothing is while the Service itself is not held.
	share Share
}

func newExported() *exported { return &exported{objects: map[Key]Object{}} }

func (e *exported) clone() *exported {
	return &exported{objects: maps.Clone(e.objects), endpoints: e.endpoints, share: e.share}
}

// set holds an object, in place of the one with the same key, and counts it.
func (e *exported) set(key Key, object Object, counts *Counts) {
	now := e.share
	if service, ok := object.Object.(*clusterset.ExportedService); ok {
		now = NewShare(service.Spec.Audience, 1, 0)
	}
	e.endpoints += endpointsOf(object) - endpointsOf(e.objects[key])
	e.objects[key] = object
	e.count(now, counts)
}

// delete removes an object that is held.
func (e *exported) delete(key Key, counts *Counts) {
	now := e.share
	if _, ok := e.objects[key].Object.(*clusterset.ExportedService); ok {
		now = Share{}
	}
	e.endpoints -= endpointsOf(e.objects[key])
	delete(e.objects, key)
	e.count(now, counts)
}

// count replaces what is counted by a share with the present endpoints.
func (e *exported) count(now Share, counts *Counts) {
	if now.Exports > 0 {
		now.Endpoints = e.endpoints
	}
	if !now.Equal(e.share) {
		counts.Replace(e.share, now)
	}
	e.share = now
}

func endpointsOf(object Object) int32 {
	slice, ok := object.Object.(*clusterset.ExportedEndpointSlice)
	if !ok {
		return 0
	}
	return int32(len(slice.Spec.Endpoints)) //nolint:gosec // what is admitted is limited
}
