// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// maxEvent is how much memory it may take to decode an event of a watch: more
// than that of any valid object.
const maxEvent = 8 << 20

// backoff delays the retries of a failed list or watch: short at first, and
// never so long that a member that is back has to wait.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 10 * time.Second}
}

// follow passes the objects of one kind to the sink until the context ends.
func (f *Feed) follow(ctx context.Context, kind exports.Kind, selector string, example runtime.Object, source *cache.ListWatch) {
	store := &objectStore{feed: f, kind: kind}
	pages, read, bytes := 0, 0, int64(0) // in the pages of a list so far
	listed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			if err := f.overLimit(kind); err != nil {
				return nil, err
			}
			if options.Continue == "" {
				pages, read, bytes = 0, 0, 0
				f.listing(kind)
			}
			list, err := f.list(ctx, source, options)
			if err != nil {
				return nil, f.failed(kind, err)
			}
			pages, read, bytes = pages+1, read+meta.LenList(list), bytes+exports.Footprint(list)
			if pages > maxPages || read > maxObjects[kind] || bytes > f.config.MemoryLimit {
				return nil, f.exceeded(kind)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			if err := f.overLimit(kind); err != nil {
				return nil, err
			}
			if streamsList(options) {
				f.listing(kind)
			}
			watcher, err := source.WatchFuncWithContext(access.WithLimit(ctx, maxEvent), options)
			if err != nil {
				return nil, interruptible(f.failed(kind, err), options)
			}
			limits := &limits{feed: f, kind: kind, initial: streamsList(options), keys: sets.New[exports.Key]()}
			if !limits.initial { // continues where the last watch ended
				f.config.Sink.ReadFailed(kind, nil)
				limits.keys = store.known()
			}
			reread := f.expiry(kind)
			if a, ok := ctx.Value(attemptsKey{}).(*attempts); ok {
				a.watching(reread)
			}
			return newLimitedWatch(watcher, limits.check, reread), nil
		},
	}
	f.run(ctx, f.reflector(ctx, kind.String(), listed, example, store))
}

// list lists objects. Decoding a list may take as much memory as the exports of the
// member, so that one kind is listed after the other.
func (f *Feed) list(ctx context.Context, source *cache.ListWatch, options metav1.ListOptions) (runtime.Object, error) {
	select {
	case f.lists <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-f.lists }()
	return source.ListWithContextFunc(access.WithLimit(ctx, f.config.MemoryLimit), options)
}

// failed reports that reading failed. An expired resource version is not a
// failure: everything is listed again.
func (f *Feed) failed(kind exports.Kind, err error) error {
	err = shortened(err)
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		f.config.Sink.ReadFailed(kind, err)
	}
	return err
}

func streamsList(options metav1.ListOptions) bool {
	return options.SendInitialEvents != nil && *options.SendInitialEvents
}

// interruptible hides errors for which a reflector would retry a streaming list
// in a loop that ignores its context. The reflector gives up instead, and is
// started again after the same backoff.
func interruptible(err error, options metav1.ListOptions) error {
	if streamsList(options) && (utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)) {
		return errors.New(err.Error())
	}
	return err
}

func (f *Feed) reflector(ctx context.Context, name string, source *cache.ListWatch, example runtime.Object, store cache.ReflectorStore) *cache.Reflector {
	logger := klog.FromContext(ctx)
	source.ListWithContextFunc = awaited(source.ListWithContextFunc)
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, f.client), example, store,
		cache.ReflectorOptions{Logger: &logger, Name: f.config.Name + "/" + name, Backoff: backoff()})
}

// objectStore decodes and validates what a reflector reads, and passes it to
// the sink. It keeps only the keys, to count the objects.
type objectStore struct {
	feed *Feed
	kind exports.Kind

	mu   sync.Mutex
	keys sets.Set[exports.Key]
}

var _ cache.ReflectorStore = &objectStore{}

// known returns the keys of all objects.
func (s *objectStore) known() sets.Set[exports.Key] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys.Clone()
}

// arrival decodes and validates an object.
func (s *objectStore) arrival(object any) (exports.Arrival, error) {
	decoded, err := exports.Decode(object)
	if err != nil {
		return exports.Arrival{}, err
	}
	s.feed.localize(decoded)
	if metadata, err := meta.Accessor(object); err == nil {
		if endpoints, over := metadata.GetAnnotations()[overLimitAnnotation]; over {
			count, _ := strconv.ParseInt(endpoints, 10, 32)
			decoded.Endpoints = int32(count)
			return exports.OverMemoryLimit(decoded, s.feed.config.MemoryLimit), nil
		}
	}
	return s.feed.config.Admit(decoded), nil
}

// localize converts the time of a change to the clock of this cluster, if that of the member is
// known. A time that cannot be right is left out: a member may send any, also in its Date headers.
func (f *Feed) localize(object exports.Object) {
	slice, ok := object.Object.(*clusterset.ExportedEndpointSlice)
	if !ok || slice.Spec.ChangedAt == nil {
		return
	}
	offset, known := f.ClockOffset()
	changed := slice.Spec.ChangedAt.Add(-offset)
	slice.Spec.ChangedAt = nil
	if known && clusterset.PlausibleChange(changed, f.config.Clock.Now()) {
		slice.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(changed))
	}
}

// Add implements cache.ReflectorStore.
func (s *objectStore) Add(object any) error {
	arrival, err := s.arrival(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.keys == nil {
		s.keys = sets.New[exports.Key]()
	}
	s.keys.Insert(arrival.Object.Key())
	s.mu.Unlock()
	s.feed.config.Sink.Upsert(arrival)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *objectStore) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s *objectStore) Delete(object any) error {
	decoded, err := exports.Decode(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.keys.Delete(decoded.Key())
	s.mu.Unlock()
	s.feed.config.Sink.Remove(decoded)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *objectStore) Replace(objects []any, _ string) error {
	keys := sets.New[exports.Key]()
	arrivals := make([]exports.Arrival, 0, len(objects))
	for _, object := range objects {
		arrival, err := s.arrival(object)
		if err != nil {
			return err
		}
		keys.Insert(arrival.Object.Key())
		arrivals = append(arrivals, arrival)
	}
	requested := s.feed.listed(s.kind) // not if an object cannot be decoded: the list is requested again
	for i := range arrivals {
		arrivals[i].Reread = requested
	}
	s.mu.Lock()
	s.keys = keys
	s.mu.Unlock()
	s.feed.config.Sink.Replace(s.kind, arrivals)
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *objectStore) Resync() error { return nil }
