// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package peerview

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/endingwatch"
)

// viewChanged is why a watch of a peer ends.
const viewChanged = "what this cluster relays to the reading one has changed"

// newPeerWatch returns a watch that redacts the objects of another one, and ends when the view
// of the peer changes.
func newPeerWatch(source watch.Interface, changed <-chan struct{}, redact func(runtime.Object) runtime.Object) watch.Interface {
	return endingwatch.New(source, changed, viewChanged, func(event watch.Event) watch.Event {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			event.Object = redact(event.Object)
		}
		return event
	})
}
