// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

const (
	// probeInterval is how often a member has to prove that it is alive.
	probeInterval = 5 * time.Second
	probeTimeout  = 5 * time.Second
	// reader is how a cluster introduces itself to the members it reads from.
	reader = "mcs-apiserver cluster/"
)

// backoff is how a feed that fails is tried again: soon at first, and never so
// seldom that a member that is back has to wait for long.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 10 * time.Second}
}

// feed reads from one member until it is stopped. What it learns it tells the
// registry, which ignores feeds that it has replaced.
type feed struct {
	registry *Registry
	peer     *peer
	spec     *spec
	client   versioned.Interface
	stop     context.CancelFunc
	token    atomic.Pointer[string]
	// hurry asks for a probe now.
	hurry chan struct{}

	mu             sync.Mutex
	overLimitUntil [kinds]time.Time
}

func newFeed(registry *Registry, peer *peer, spec *spec) (*feed, error) {
	config := rest.CopyConfig(spec.config)
	f := &feed{registry: registry, peer: peer, spec: spec, stop: func() {}, hurry: make(chan struct{}, 1)}
	f.setToken(spec.token)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return introduction{next, f} })
	var err error
	f.client, err = versioned.NewForConfig(config)
	return f, err
}

// setToken replaces the token that requests are made with from now on.
func (f *feed) setToken(token string) { f.token.Store(&token) }

// introduction says who is reading: by a token, if there is one, and which
// cluster, so that the member can tell that it lacks the cluster among its own
// members.
type introduction struct {
	next http.RoundTripper
	feed *feed
}

func (i introduction) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("User-Agent", reader+i.feed.registry.Identity().ID)
	if token := *i.feed.token.Load(); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return i.next.RoundTrip(request)
}

// run returns when the context has ended and nothing is running any more.
func (f *feed) run(ctx context.Context) {
	selector := ""
	if !f.spec.relay.any() {
		selector = labels.Set{multicluster.SourceClusterLabel: f.spec.id}.String()
	}
	api := f.client.ClusterSetV1alpha1()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		f.follow(ctx, services, selector, &clustersetv1alpha1.ExportedService{}, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return api.ExportedServices(metav1.NamespaceAll).List(ctx, options)
			},
			WatchFuncWithContext: api.ExportedServices(metav1.NamespaceAll).Watch,
		})
	})
	running.Go(func() {
		f.follow(ctx, endpointSlices, selector, &clustersetv1alpha1.ExportedEndpointSlice{}, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return api.ExportedEndpointSlices(metav1.NamespaceAll).List(ctx, options)
			},
			WatchFuncWithContext: api.ExportedEndpointSlices(metav1.NamespaceAll).Watch,
		})
	})
	running.Go(func() { f.followClaims(ctx) })
	f.probeUntil(ctx)
}

// follow keeps what is held of one kind up to date.
func (f *feed) follow(ctx context.Context, kind kind, selector string, example runtime.Object, source *cache.ListWatch) {
	read := 0 // in the pages of a list so far
	listed := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			if err := f.overLimit(kind); err != nil {
				return nil, err
			}
			list, err := source.ListWithContextFunc(ctx, options)
			if err != nil {
				return nil, f.failed(kind, err)
			}
			if options.Continue == "" {
				read = 0
			}
			if read += meta.LenList(list); read > mostObjects[kind] {
				return nil, f.exceeded(kind)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			if err := f.overLimit(kind); err != nil {
				return nil, err
			}
			watcher, err := source.WatchFuncWithContext(ctx, options)
			if err != nil {
				return nil, interruptible(f.failed(kind, err), options)
			}
			known := 0
			if !streamsList(options) {
				f.registry.feedFailed(f, kind, nil) // it goes on from where it was
				known = f.registry.held(f, kind)
			}
			return f.bounded(watcher, kind, known), nil
		},
	}
	reflector := f.reflector(ctx, kind.String(), listed, example, factStore{f, kind})
	reflector.RunWithContext(ctx)
}

// failed notes that reading failed, until everything has been read. A version
// that has expired is no failure: everything is read again.
func (f *feed) failed(kind kind, err error) error {
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		f.registry.feedFailed(f, kind, err)
	}
	return err
}

func streamsList(options metav1.ListOptions) bool {
	return options.SendInitialEvents != nil && *options.SendInitialEvents
}

// interruptible hides from a reflector that it might wait and try the same
// again, which it does without looking whether its context has ended. It then
// gives up, and is started again after the same time.
func interruptible(err error, options metav1.ListOptions) error {
	if streamsList(options) && (utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)) {
		return errors.New(err.Error())
	}
	return err
}

func (f *feed) reflector(ctx context.Context, name string, source *cache.ListWatch, example runtime.Object, store cache.ReflectorStore) *cache.Reflector {
	logger := klog.FromContext(ctx)
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, f.client), example, store,
		cache.ReflectorOptions{Logger: &logger, Name: f.spec.entryName() + "/" + name, Backoff: backoff()})
}

// followClaims keeps up with who the member says it is.
func (f *feed) followClaims(ctx context.Context) {
	api := f.client.MulticlusterV1().ClusterClaims()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := api.List(ctx, options)
			f.registry.claimsFailed(f, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := api.Watch(ctx, options)
			if err != nil {
				return nil, interruptible(err, options)
			}
			return watcher, nil
		},
	}
	f.reflector(ctx, "clusterclaims", source, &multiclusterv1.ClusterClaim{}, &claimStore{feed: f, held: map[string]*multiclusterv1.ClusterClaim{}}).RunWithContext(ctx)
}

// probeUntil asks the member for its own entry until the context ends. A
// hub is asked for all entries, because it speaks for others.
func (f *feed) probeUntil(ctx context.Context) {
	options := metav1.ListOptions{}
	if !f.spec.relay.any() {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.spec.id).String()
	}
	for ctx.Err() == nil {
		select {
		case <-f.hurry: // this is the probe that was asked for
		default:
		}
		probing, cancel := context.WithTimeout(ctx, probeTimeout)
		entries, err := f.client.ClusterSetV1alpha1().Members().List(probing, options)
		cancel()
		if ctx.Err() != nil {
			return
		}
		f.registry.probed(f, entries, err)
		spread := time.Duration(rand.Int64N(int64(probeInterval / 5))) //nolint:gosec // spreads load, hides nothing
		select {
		case <-ctx.Done():
		case <-f.hurry:
		case <-f.registry.config.Clock.After(probeInterval - probeInterval/10 + spread):
		}
	}
}

// probeNow asks for a probe without waiting for it.
func (f *feed) probeNow() {
	select {
	case f.hurry <- struct{}{}:
	default: // one is due already
	}
}

// factStore hands what a reflector reads to the registry.
type factStore struct {
	feed *feed
	kind kind
}

var _ cache.ReflectorStore = factStore{}

func (s factStore) Add(object any) error    { return s.feed.registry.told(s.feed, object) }
func (s factStore) Update(object any) error { return s.feed.registry.told(s.feed, object) }
func (s factStore) Delete(object any) error { return s.feed.registry.untold(s.feed, object) }
func (s factStore) Resync() error           { return nil }

func (s factStore) Replace(objects []any, _ string) error {
	return s.feed.registry.replaced(s.feed, s.kind, objects)
}

// claimStore keeps a member's claims. Only its reflector uses it.
type claimStore struct {
	feed *feed
	held map[string]*multiclusterv1.ClusterClaim
}

var _ cache.ReflectorStore = &claimStore{}

func (s *claimStore) Add(object any) error {
	if claim, ok := object.(*multiclusterv1.ClusterClaim); ok {
		s.held[claim.Name] = claim
	}
	return s.tell()
}

func (s *claimStore) Update(object any) error { return s.Add(object) }

func (s *claimStore) Delete(object any) error {
	if claim, ok := object.(*multiclusterv1.ClusterClaim); ok {
		delete(s.held, claim.Name)
	}
	return s.tell()
}

func (s *claimStore) Replace(objects []any, _ string) error {
	s.held = map[string]*multiclusterv1.ClusterClaim{}
	for _, object := range objects {
		if claim, ok := object.(*multiclusterv1.ClusterClaim); ok {
			s.held[claim.Name] = claim
		}
	}
	return s.tell()
}

func (s *claimStore) Resync() error { return nil }

func (s *claimStore) tell() error {
	id, clusterSet := s.held[multicluster.ClusterIDClaim], s.held[multicluster.ClusterSetClaim]
	told := &claims{idClaimedAt: ClaimedAt(id, clusterSet)}
	if id != nil {
		told.id = id.Spec.Value
	}
	if clusterSet != nil {
		told.clusterSet = clusterSet.Spec.Value
	}
	s.feed.registry.claimed(s.feed, told)
	return nil
}
