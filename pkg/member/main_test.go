// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// host is what outlives a Set: its storage, and what mcs-controller writes.
type host struct {
	*recordtest.Store
	// imported are the endpoints in imported EndpointSlices.
	imported map[exports.Ref][]*clusterset.ExportedEndpointSlice
	// leases are the sightings in the Leases of members.
	leases map[string]sighting.Sighting
}

func newHost() *host {
	return &host{recordtest.New(), map[exports.Ref][]*clusterset.ExportedEndpointSlice{}, map[string]sighting.Sighting{}}
}

// endpoints returns what can be restored from imported EndpointSlices.
func (h *host) endpoints(cluster string, service types.NamespacedName) []*clusterset.ExportedEndpointSlice {
	return h.imported[exports.Ref{Cluster: cluster, Service: service}]
}

// materialize does what mcs-controller does with what a Set shows.
func (h *host) materialize(f *fixture) {
	clear(h.imported)
	for _, service := range f.Services() {
		for _, export := range f.Exports(service) {
			for _, slice := range export.Slices {
				imported := *slice
				imported.Spec.Path = nil
				ref := exports.Ref{Cluster: slice.Spec.Cluster, Service: service}
				h.imported[ref] = append(h.imported[ref], &imported)
			}
		}
	}
	for _, name := range f.Names() {
		if status := f.Entry(name).Status; status.LastSeen != nil {
			h.leases[name] = sighting.Sighting{Member: name, UID: status.ClusterUID, At: status.LastSeen.Time, Lost: status.State == clusterset.MemberLost}
		}
	}
}
