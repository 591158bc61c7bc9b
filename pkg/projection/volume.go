// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

const (
	// volumePerSecond is how many bytes of ExportedServices and ExportedEndpointSlices are
	// published per second because of one member, and volumeBurst how many at once: every
	// watch sends all of them, in one order, so that what one member changes waits for what
	// others changed before. All that a member exports by default fits into a burst.
	volumePerSecond = 2 << 20
	volumeBurst     = 16 << 20
	// metadata is about how many bytes an object has besides its endpoints and ports, and
	// portBytes how many a port has.
	metadata, portBytes = 512, 64
)

// volume limits the bytes that are published because of each member.
type volume struct {
	stores stores
	turns  *pace.Turns[exports.Ref]
	// again computes an export again after a time.
	again func(exports.Ref, time.Duration)
}

func newVolume(clock clock.PassiveClock, stores stores, again func(exports.Ref, time.Duration)) *volume {
	return &volume{stores, pace.NewTurns[exports.Ref](clock, volumePerSecond, volumeBurst), again}
}

// affords reports whether an export of another cluster may be published now. Otherwise, it is
// computed again when it is its turn, with its state at that time.
func (v *volume) affords(service types.NamespacedName, export member.Export) bool {
	ref := exports.Ref{Cluster: export.Service.Spec.Cluster, Service: service}
	if bytes := v.changed(export); bytes > 0 {
		if wait := v.turns.Wait(ref, exporters([]member.Export{export}), bytes); wait > 0 {
			v.again(ref, wait)
			return false
		}
	}
	v.turns.End(ref) // it was its turn, or it has nothing to publish
	return true
}

// changed returns about how many bytes of an export differ from what is published.
func (v *volume) changed(export member.Export) (bytes int) {
	if shown := *export.Service; v.stores.exportedServices.Changes(&shown) {
		bytes += metadata + portBytes*len(shown.Spec.Ports)
		if audience := shown.Spec.Audience; audience != nil {
			bytes += len(audience.Joined) + audience.Len()*len(`""`)
		}
	}
	for _, slice := range export.Slices {
		shown := *slice
		shown.Spec.Audience = export.Service.Spec.Audience // as it is published
		if v.stores.exportedEndpointSlices.Changes(&shown) {
			bytes += sliceBytes(slice)
		}
	}
	return bytes
}

// sliceBytes returns about how many bytes an ExportedEndpointSlice has.
func sliceBytes(slice *clusterset.ExportedEndpointSlice) int {
	bytes := metadata + portBytes*len(slice.Spec.Ports)
	for i := range slice.Spec.Endpoints {
		bytes += slice.Spec.Endpoints[i].Size()
	}
	return bytes
}
