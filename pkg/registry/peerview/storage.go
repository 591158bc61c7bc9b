// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package peerview

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/endingwatch"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// Reader reads one resource. Its lists are those of package encoded.
type Reader interface {
	rest.Getter
	rest.Lister
	rest.Watcher
}

// Storage shows peers what the feed lets them see of a resource, and everything to
// all others. What a peer does not see does not exist for it.
//
// Objects are selected with a requirement for labels, and one for the clusters that an
// object is for, which are added to those of the request. So the watch cache decides what an event means to a peer: an object that leaves its
// view is deleted, and resource versions and bookmarks are those of any other selector.
type Storage struct {
	Reader
	Resource schema.GroupResource
	Feed     Feed
}

// Get implements rest.Getter.
func (s Storage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	object, err := s.Reader.Get(ctx, name, options)
	access, restricted := AccessFrom(ctx)
	if err != nil || !restricted {
		return object, err
	}
	if s.Feed.Select != nil {
		metadata, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		requirement := s.Feed.Select(access.View)
		if !requirement.Matches(labels.Set(metadata.GetLabels())) {
			return nil, apierrors.NewNotFound(s.Resource, name)
		}
	}
	if s.Feed.Audience != nil && !s.Feed.Audience(encoded.Unwrap(object)).Includes(access.View.Peer) {
		return nil, apierrors.NewNotFound(s.Resource, name)
	}
	return s.Feed.redact(access.View, object), nil
}

// List implements rest.Lister.
func (s Storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	access, restricted := AccessFrom(ctx)
	if !restricted {
		return s.Reader.List(ctx, options)
	}
	list, err := s.Reader.List(ctx, s.restrict(access.View, options))
	if err != nil {
		return nil, err
	}
	objects, ok := list.(*encoded.List)
	if !ok {
		return nil, fmt.Errorf("cannot show a %T to a peer", list)
	}
	objects.Transform(func(object runtime.Object) runtime.Object { return s.Feed.redact(access.View, object) })
	return objects, nil
}

// Watch implements rest.Watcher.
func (s Storage) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	access, restricted := AccessFrom(ctx)
	if !restricted {
		return s.Reader.Watch(ctx, options)
	}
	if options != nil && predates(options.ResourceVersion, access) {
		events := make(chan watch.Event, 1)
		events <- endingwatch.End(viewChanged)
		close(events)
		return watch.NewProxyWatcher(events), nil
	}
	source, err := s.Reader.Watch(ctx, s.restrict(access.View, options))
	if err != nil {
		return nil, err
	}
	return newPeerWatch(source, access.Changed, func(object runtime.Object) runtime.Object {
		return s.Feed.redact(access.View, object)
	}), nil
}

// predates reports whether a resource version is from before the peer got its view.
func predates(resourceVersion string, access Access) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	return err == nil && version > 0 && virtual.IssuedAt(version).Before(access.Since)
}

// restrict adds what a peer sees to the selector of a request.
func (s Storage) restrict(view View, options *internalversion.ListOptions) *internalversion.ListOptions {
	restricted := internalversion.ListOptions{}
	if options != nil {
		restricted = *options
	}
	if s.Feed.Select != nil {
		selector := restricted.LabelSelector
		if selector == nil {
			selector = labels.NewSelector()
		}
		restricted.LabelSelector = selector.Add(s.Feed.Select(view))
	}
	if s.Feed.Audience != nil {
		selector := restricted.FieldSelector
		if selector == nil {
			selector = fields.Everything()
		}
		restricted.FieldSelector = audienceSelector{selector, view.Peer}
	}
	return &restricted
}
