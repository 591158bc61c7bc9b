// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/utils/ptr"
)

// watchBuffer is the number of events that are buffered for a slow client.
const watchBuffer = 100

// Watch implements storage.Interface.
func (s *store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	r, err := s.begin(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	query, err := s.query(r.key, opts)
	if err != nil {
		return nil, err
	}
	initial, err := s.start(ctx, r, opts, &query)
	if err != nil {
		return nil, err
	}
	query.AllowWatchBookmarks = true
	if deadline, ok := ctx.Deadline(); ok {
		query.TimeoutSeconds = ptr.To(int64(math.Ceil(max(time.Until(deadline).Seconds(), 1))))
	}
	ctx, cancel := context.WithCancel(ctx)
	source, err := s.configMaps.watch(ctx, query)
	if err != nil {
		defer cancel()
		if ctx.Err() != nil {
			return watch.NewEmptyWatch(), nil // the client is gone
		}
		return nil, unavailable(err)
	}
	w := &watcher{
		store: s, request: r, opts: opts, collecting: initial,
		cancel: cancel, result: make(chan watch.Event, watchBuffer),
	}
	go w.run(ctx, source)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// start sets the version to watch from, and reports whether initial events are
// requested. They are always requested as a streaming list, which is consistent;
// the legacy way may return any version.
func (s *store) start(ctx context.Context, r request, opts storage.ListOptions, query *metav1.ListOptions) (initial bool, _ error) {
	version, err := versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return false, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if version > 0 {
		query.ResourceVersion = opts.ResourceVersion
	}
	switch {
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents, opts.SendInitialEvents == nil && version == 0:
		query.SendInitialEvents = ptr.To(true)
		query.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		return true, nil
	case version > 0 && version < r.namespace.version:
		return false, apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is older than the storage namespace; list again without it", version))
	case version == 0:
		current, err := s.GetCurrentResourceVersion(ctx)
		if err != nil {
			return false, err
		}
		query.ResourceVersion = fmt.Sprint(current)
	}
	return false, nil
}

// watcher translates a watch of wrappers into a watch of their objects.
type watcher struct {
	store   *store
	request request
	opts    storage.ListOptions
	// collecting is true until all initial events were received. They are sent
	// sorted by key.
	collecting bool
	initial    []initialEvent
	cancel     context.CancelFunc
	result     chan watch.Event
}

type initialEvent struct {
	key   string
	event watch.Event
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

func (w *watcher) run(ctx context.Context, source watch.Interface) {
	defer close(w.result)
	defer w.cancel()
	defer source.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-source.ResultChan():
			if !open {
				return
			}
			if err := w.handle(ctx, event); err != nil {
				w.fail(ctx, err)
				return
			}
		}
	}
}

// handle processes an event of the host. An error ends the watch.
func (w *watcher) handle(ctx context.Context, event watch.Event) error {
	switch object := event.Object.(type) {
	case *corev1.ConfigMap:
		if event.Type == watch.Bookmark {
			return w.bookmark(ctx, object)
		}
		return w.change(ctx, event.Type, object)
	case *metav1.Status:
		return unavailable(&apierrors.StatusError{ErrStatus: *object})
	default:
		return fmt.Errorf("unexpected %T in a watch of ConfigMaps", event.Object)
	}
}

func (w *watcher) change(ctx context.Context, eventType watch.EventType, wrapper *corev1.ConfigMap) error {
	object := w.store.NewFunc()
	key, err := w.store.converter.unwrapInto(wrapper, object)
	if err != nil {
		return err
	}
	if !within(w.request.key, key, w.opts.Recursive) {
		return nil
	}
	// The host sends DELETED with the previous object when one leaves the selection.
	if matches, err := w.opts.Predicate.Matches(object); err != nil || !matches {
		return err
	}
	if eventType == watch.Deleted {
		if err := w.store.confirmAbsence(ctx, w.request); err != nil {
			return err
		}
	}
	event := watch.Event{Type: eventType, Object: object}
	if w.collecting {
		w.initial = append(w.initial, initialEvent{key, event})
		return nil
	}
	w.send(ctx, event)
	return nil
}

func (w *watcher) bookmark(ctx context.Context, wrapper *corev1.ConfigMap) error {
	end := wrapper.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	if end && w.collecting {
		w.collecting = false
		if err := w.store.confirmAbsence(ctx, w.request); err != nil {
			return err // missing objects may have been deleted with the namespace
		}
		slices.SortFunc(w.initial, func(a, b initialEvent) int { return strings.Compare(a.key, b.key) })
		for _, initial := range w.initial {
			w.send(ctx, initial.event)
		}
		w.initial = nil
		end = w.opts.SendInitialEvents != nil
	}
	if w.collecting || !w.opts.Predicate.AllowWatchBookmarks && !w.opts.ProgressNotify {
		return nil
	}
	version, err := versioner.ParseResourceVersion(wrapper.ResourceVersion)
	if err != nil {
		return err
	}
	object := w.store.NewFunc()
	if err := versioner.UpdateObject(object, version); err != nil {
		return err
	}
	if end {
		if err := storage.AnnotateInitialEventsEndBookmark(object); err != nil {
			return err
		}
	}
	w.send(ctx, watch.Event{Type: watch.Bookmark, Object: object})
	return nil
}

func (w *watcher) send(ctx context.Context, event watch.Event) {
	select {
	case w.result <- event:
	case <-ctx.Done():
	}
}

// fail sends an error, unless the context has ended.
func (w *watcher) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	failure := status.Status()
	w.send(ctx, watch.Event{Type: watch.Error, Object: &failure})
}
