// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peerview limits what another cluster, a peer, sees of this one. The View
// of a peer follows from who is authenticated, never from what a request says.
// Storage applies it to get, list and watch.
package peerview

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// View is what a peer sees: what this cluster exports, and nothing of third
// clusters but their identity.
type View struct {
	// Self is the ID of this cluster, and Peer that of the cluster that reads.
	Self, Peer string
	// Relayed is whether the peer also sees what third clusters export, because this
	// cluster is its hub.
	Relayed bool
}

// BySource returns which exports a peer sees. Their labels can be relied on: those of
// other clusters are validated when they arrive.
func BySource(view View) labels.Requirement {
	operator, cluster := selection.Equals, view.Self
	if view.Relayed { // all but its own
		operator, cluster = selection.NotEquals, view.Peer
	}
	// Cluster IDs are valid label values. If one were not, the empty requirement, which
	// matches nothing, would be returned.
	requirement, err := labels.NewRequirement(multicluster.SourceClusterLabel, operator, []string{cluster})
	if err != nil {
		return labels.Requirement{}
	}
	return *requirement
}

// Feed describes what peers see of a resource. Nil functions mean everything.
type Feed struct {
	// Select returns the labels of the objects that a peer sees.
	Select func(View) labels.Requirement
	// Audience returns the clusters that an object is for.
	Audience func(runtime.Object) *clusterset.Audience
	// Redact returns an object as a peer sees it. It must not modify the object.
	Redact func(View, runtime.Object) runtime.Object
	// Redaction is what all peers see of an object if that is the same: it is then encoded
	// once for all of them. It excludes Redact.
	Redaction *encoded.Derivation
}

// redact returns an object as a peer sees it.
func (f Feed) redact(view View, object runtime.Object) runtime.Object {
	switch {
	case f.Redaction != nil:
		return f.Redaction.Of(object)
	case f.Redact != nil:
		return f.Redact(view, encoded.Unwrap(object))
	}
	return object
}

// Access is the access of one request of a peer.
type Access struct {
	View View
	// Since is when the peer last had another view. Watches cannot continue from before.
	Since time.Time
	// Changed is closed when the view of the peer changes.
	Changed <-chan struct{}
}

type contextKey struct{}

// WithAccess returns the context of a request of a peer.
func WithAccess(ctx context.Context, access Access) context.Context {
	return context.WithValue(ctx, contextKey{}, access)
}

// AccessFrom returns the access of a peer, and false if the request is that of a
// client of this cluster, which sees everything.
func AccessFrom(ctx context.Context) (Access, bool) {
	access, ok := ctx.Value(contextKey{}).(Access)
	return access, ok
}
