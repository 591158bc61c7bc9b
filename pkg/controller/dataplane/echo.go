// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"maps"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/sourceindex"
)

// echoes are updates of imported EndpointSlices whose events are still to come. The event of an
// update after which nothing is left to do need not be reconciled. It is safe for concurrent use.
type echoes struct {
	mu      sync.Mutex
	pending map[key]map[string]*discoveryv1.EndpointSlice
}

func newEchoes() *echoes {
	return &echoes{pending: map[key]map[string]*discoveryv1.EndpointSlice{}}
}

// expect expects the events of updates. It is called before these are sent, because an event may be
// faster than a response. Updates that are not sent, or fail, do not matter: their key is
// reconciled again.
func (e *echoes) expect(of key, changes []sliceChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, change := range changes {
		if change.verb != updateSlice {
			continue
		}
		if e.pending[of] == nil {
			e.pending[of] = map[string]*discoveryv1.EndpointSlice{}
		}
		e.pending[of][change.slice.Name] = change.slice
	}
}

// forget forgets what was expected. It is called before the cache is read to reconcile the key:
// if the cache does not show an update yet, its event has to be reconciled.
func (e *echoes) forget(of key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.pending, of)
}

// contain reports whether the change of a slice is an expected update, which is then expected no
// more. What others wait for is never an echo: labels, which the type of an import depends on.
func (e *echoes) contain(old, changed *discoveryv1.EndpointSlice) bool {
	of := key{
		types.NamespacedName{Namespace: changed.Namespace, Name: sourceindex.ImportName(changed.Labels)},
		changed.Labels[multicluster.SourceClusterLabel],
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	updated := e.pending[of][changed.Name]
	if updated == nil || !sameSlice(changed, updated) {
		return false
	}
	delete(e.pending[of], changed.Name)
	if len(e.pending[of]) == 0 {
		delete(e.pending, of)
	}
	return maps.Equal(old.Labels, changed.Labels)
}

// sliceChanged handles imported EndpointSlices.
func (c *Controller) sliceChanged(old, object any) {
	before, existed := old.(*discoveryv1.EndpointSlice)
	after, exists := object.(*discoveryv1.EndpointSlice)
	if existed && exists && c.echoes.contain(before, after) {
		return
	}
	if existed {
		c.enqueueOwned(before)
	}
	if exists {
		c.enqueueOwned(after)
	}
}
