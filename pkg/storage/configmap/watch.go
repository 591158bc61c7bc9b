// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	initial, version, err := s.start(ctx, r, opts)
	if ended(ctx) {
		return watch.NewEmptyWatch(), nil
	}
	if err != nil {
		return nil, err
	}
	query.ResourceVersion, query.AllowWatchBookmarks = fmt.Sprint(version), true
	if deadline, ok := ctx.Deadline(); ok {
		query.TimeoutSeconds = ptr.To(int64(math.Ceil(max(time.Until(deadline).Seconds(), 1))))
	}
	watching, cancel := context.WithCancel(ctx)
	source, err := s.startWatch(watching, cancel, query)
	if ended(ctx) {
		cancel()
		return watch.NewEmptyWatch(), nil
	}
	if err != nil {
		cancel()
		return nil, unavailable(err)
	}
	w := &watcher{store: s, request: r, opts: opts, cancel: cancel, result: make(chan watch.Event, watchBuffer)}
	w.complete = r.key == s.ResourcePrefix && opts.Recursive && opts.Predicate.Empty()
	go w.run(watching, initial, source)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// ended reports whether the client is gone. It receives an empty watch, not an error.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// startWatch limits how long the host may take to start a watch, not how long the watch
// may last.
func (s *store) startWatch(ctx context.Context, cancel context.CancelFunc, query metav1.ListOptions) (watch.Interface, error) {
	limit := time.AfterFunc(requestTimeout, cancel)
	source, err := s.configMaps.watch(ctx, query)
	if !limit.Stop() {
		if err == nil {
			source.Stop()
		}
		return nil, fmt.Errorf("watch did not start within %s", requestTimeout)
	}
	return source, err
}

// start returns the initial events that were requested, and the version to watch from.
// Initial events are listed rather than requested from the host, which would send them
// in the order of the hashes, and only if its feature gate WatchList is on.
func (s *store) start(ctx context.Context, r request, opts storage.ListOptions) (initial []watch.Event, from uint64, _ error) {
	requested, err := versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents || opts.SendInitialEvents == nil && requested == 0 {
		return s.initialEvents(ctx, r, opts)
	}
	if requested > 0 && requested < r.namespace.version {
		return nil, 0, r.namespace.expired(opts.ResourceVersion)
	}
	current, err := s.GetCurrentResourceVersion(ctx)
	switch {
	case err != nil:
		return nil, 0, err
	case requested == 0:
		return nil, current, nil
	case requested > current:
		// The host would send no events until it reaches the version. It has been
		// restored from a backup.
		return nil, 0, apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is unknown, the current version is %d; list again without it", requested, current))
	}
	return nil, requested, nil
}

// initialEvents returns an event for every object, and, if requested, the bookmark that
// marks their end.
func (s *store) initialEvents(ctx context.Context, r request, opts storage.ListOptions) (events []watch.Event, version uint64, _ error) {
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	objects, version, err := s.list(ctx, r, opts)
	if err != nil {
		return nil, 0, err
	}
	for _, object := range objects {
		events = append(events, watch.Event{Type: watch.Added, Object: object})
	}
	if opts.SendInitialEvents == nil || !opts.Predicate.AllowWatchBookmarks && !opts.ProgressNotify {
		return events, version, nil
	}
	end, err := s.bookmark(version)
	if err != nil {
		return nil, 0, err
	}
	return append(events, end), version, storage.AnnotateInitialEventsEndBookmark(end.Object)
}

func (s *store) bookmark(version uint64) (watch.Event, error) {
	object := s.NewFunc()
	return watch.Event{Type: watch.Bookmark, Object: object}, versioner.UpdateObject(object, version)
}

// watcher translates a watch of wrappers into a watch of their objects.
type watcher struct {
	store   *store
	request request
	opts    storage.ListOptions
	cancel  context.CancelFunc
	result  chan watch.Event
	// complete is whether the watch reports every deletion of the resource, and following whether
	// others rely on that.
	complete, following bool
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

func (w *watcher) run(ctx context.Context, initial []watch.Event, source watch.Interface) {
	defer close(w.result)
	defer w.cancel()
	defer source.Stop()
	for _, event := range initial {
		w.send(ctx, event)
	}
	if err := w.follow(ctx, source); err != nil {
		w.fail(ctx, err)
	}
}

// follow translates events until the watch ends.
func (w *watcher) follow(ctx context.Context, source watch.Interface) error {
	if w.complete {
		w.store.deletions.follow()
		w.following = true
		defer func() {
			w.following = false
			w.store.deletions.unfollow()
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-source.ResultChan():
			if !open {
				return nil
			}
			if err := w.handle(ctx, event); err != nil {
				return err
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
	switch {
	case eventType != watch.Deleted:
		w.store.held.put(wrapper)
	case w.complete:
		w.store.deletions.report(wrapper.UID, wrapper.ResourceVersion)
	}
	if !within(w.request.key, key, w.opts.Recursive) {
		return nil
	}
	// The host sends DELETED with the previous object when one leaves the selection.
	if matches, err := w.opts.Predicate.Matches(object); err != nil || !matches {
		return err
	}
	if eventType == watch.Deleted && !w.store.deletions.own(ctx, wrapper.UID) {
		if err := w.store.confirmAbsence(ctx, w.request, wrapper.ResourceVersion); err != nil {
			return err
		}
	}
	w.send(ctx, watch.Event{Type: eventType, Object: object})
	return nil
}

func (w *watcher) bookmark(ctx context.Context, wrapper *corev1.ConfigMap) error {
	if !w.opts.Predicate.AllowWatchBookmarks && !w.opts.ProgressNotify {
		return nil
	}
	version, err := versioner.ParseResourceVersion(wrapper.ResourceVersion)
	if err != nil {
		return err
	}
	event, err := w.store.bookmark(version)
	if err != nil {
		return err
	}
	w.send(ctx, event)
	return nil
}

// send waits for a slow client. Meanwhile, the watch does not report deletions.
func (w *watcher) send(ctx context.Context, event watch.Event) {
	select {
	case w.result <- event:
		return
	default:
	}
	if w.following {
		w.store.deletions.unfollow()
		defer w.store.deletions.follow()
	}
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
