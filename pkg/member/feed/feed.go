// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package feed reads one member: what it exports, its ClusterClaims, and its
// entry in the members list, which proves that it is alive. A feed decodes and
// validates what it reads before it passes it to a Sink.
package feed

import (
	"context"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/clockoffset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

// userAgent precedes the cluster ID in the User-Agent of a feed, for the audit log of
// the member. The member does not rely on it.
const userAgent = "mcs-apiserver cluster/"

// Sink receives what a feed reads. Its methods are called by several goroutines,
// but for one kind of object in the order of the member's changes.
type Sink interface {
	// Replace passes a complete list of one kind.
	Replace(kind exports.Kind, arrivals []exports.Arrival)
	// Upsert passes an object that was added or modified.
	Upsert(arrival exports.Arrival)
	// Remove passes an object that was deleted.
	Remove(object exports.Object)
	// ReadFailed passes the outcome of an attempt to list or watch one kind.
	ReadFailed(kind exports.Kind, err error)
	// ClaimsRead passes the ClusterClaims of the member.
	ClaimsRead(claims identity.Claims)
	// ClaimsFailed passes the outcome of an attempt to list the ClusterClaims.
	ClaimsFailed(err error)
	// Probed passes the members list in response to a probe: the member's own
	// entry, or all entries if the member is a hub.
	Probed(entries *response.Entries, err error)
}

// Config is what a Feed needs.
type Config struct {
	// Name is used in logs.
	Name string
	// ClusterID is the ID of the member, and Self that of this cluster.
	ClusterID, Self string
	// Relay is set if everything is read that the member knows, not only its own
	// exports.
	Relay bool
	// MemoryLimit is how much memory the exports of the member may take.
	MemoryLimit int64
	// Budget is that of the member.
	Budget *Budget
	// Client leads to the member. It lacks the token.
	Client *rest.Config
	// Tokens are those for the member, the preferred one first.
	Tokens []string
	Clock  clock.WithTicker
	// Admit decides which objects are admitted. It may modify them.
	Admit func(exports.Object) exports.Arrival
	Sink  Sink
}

// Feed reads from one member until its context ends.
type Feed struct {
	config Config
	client versioned.Interface
	tokens access.Tokens
	// probes requests a probe now.
	probes chan struct{}
	// lists has an element while objects are listed.
	lists chan struct{}
	// offset is that of the clock of the member.
	offset clockoffset.Estimate

	mu sync.Mutex
	// attempts are those of all reflectors.
	attempts       []*attempts
	overLimitUntil [exports.Kinds]time.Time
	// rereads end the watches of a kind when they are closed. A watch that begins
	// replaces its own. outdated are the kinds that have not been listed since.
	rereads  [exports.Kinds]chan struct{}
	outdated [exports.Kinds]bool
	// requested are the kinds whose next complete list was requested by Reread.
	requested [exports.Kinds]bool
	// reread is when Reread last ended the watches.
	reread time.Time
	// rereading is set if they are to be ended again.
	rereading bool
}

// New returns a Feed. It does not connect to the member.
func New(config Config) *Feed {
	f := &Feed{config: config, probes: make(chan struct{}, 1), lists: make(chan struct{}, 1)}
	f.SetTokens(config.Tokens)
	return f
}

// SetTokens replaces the tokens that requests are made with from now on, the preferred one
// first.
func (f *Feed) SetTokens(tokens []string) { f.tokens.Set(tokens...) }

// ProbeNow requests a probe without waiting for it.
func (f *Feed) ProbeNow() {
	select {
	case f.probes <- struct{}{}:
	default: // requested already
	}
}

// ProbePending reports whether a probe was requested that has not begun. The
// response to an earlier probe may be outdated then.
func (f *Feed) ProbePending() bool { return len(f.probes) > 0 }

// rereadInterval is how often everything is read again at most.
const rereadInterval = 30 * time.Second

// Reread requests that everything is listed again, without waiting for it: objects
// that were not admitted may be now.
func (f *Feed) Reread() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rereading = true
	f.rereadLocked()
}

// rereadIfDue does what was requested too early.
func (f *Feed) rereadIfDue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rereadLocked()
}

// rereadLocked ends the watches if that was requested and the last time is long
// enough ago.
func (f *Feed) rereadLocked() {
	if now := f.config.Clock.Now(); f.rereading && now.Sub(f.reread) >= rereadInterval {
		f.reread, f.rereading = now, false
		for kind, ended := range f.rereads {
			if ended != nil {
				close(ended)
			}
			f.rereads[kind], f.outdated[kind] = nil, true
		}
	}
}

// listing records that a kind is listed from now on.
func (f *Feed) listing(kind exports.Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requested[kind] = f.requested[kind] || f.outdated[kind] // still, if an attempt failed
	f.outdated[kind] = false
}

// listed records that the list of a kind is complete, and reports whether Reread requested it.
func (f *Feed) listed(kind exports.Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	requested := f.requested[kind]
	f.requested[kind] = false
	return requested
}

// expiry returns a channel that is closed when the watch of a kind that begins
// now has to end.
func (f *Feed) expiry(kind exports.Kind) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	expired := make(chan struct{})
	if f.outdated[kind] { // no watch was open when it was requested
		close(expired)
		return expired
	}
	f.rereads[kind] = expired
	return expired
}

// connect creates the client. Tests that replace the client do not call it.
func (f *Feed) connect() error {
	config := rest.CopyConfig(f.config.Client)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, f} })
	var err error
	f.client, err = versioned.NewForConfig(config)
	return err
}

// transport adds a token and the User-Agent to requests, and limits how many are sent and
// how fast responses are read.
type transport struct {
	next http.RoundTripper
	feed *Feed
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("User-Agent", userAgent+t.feed.config.Self)
	response, err := watched(t.feed.tokens.Over(limited(t)), request)
	if err != nil {
		return nil, err
	}
	response.Body = &pacedBody{response.Body, request.Context(), t.feed.config.Budget.bandwidth}
	return response, nil
}

// limited limits how many requests are sent, with each token, and compares the clock of the
// member with that of this cluster.
type limited struct {
	next http.RoundTripper
	feed *Feed
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := l.feed.config.Budget.requests.Wait(request.Context()); err != nil {
		return nil, err
	}
	sent := l.feed.config.Clock.Now()
	response, err := l.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusOK { // of mcs-apiserver, and not of a proxy
		l.feed.offset.Observe(response.Header.Get("Date"), sent, l.feed.config.Clock.Now())
	}
	return response, err
}

// ClockOffset returns by how much the clock of the member is ahead of that of this cluster, and
// false if that is unknown.
func (f *Feed) ClockOffset() (time.Duration, bool) { return f.offset.Offset() }

// Run reads until the context ends. It returns when everything that it started
// has ended.
func (f *Feed) Run(ctx context.Context) {
	f.config.Budget.starts.await(ctx, f.config.Clock)
	if ctx.Err() != nil {
		return
	}
	if err := f.connect(); err != nil {
		f.config.Sink.Probed(nil, err)
		return
	}
	selector := ""
	if !f.config.Relay {
		selector = labels.Set{multicluster.SourceClusterLabel: f.config.ClusterID}.String()
	}
	api := f.client.ClusterSetV1alpha1()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		f.follow(ctx, exports.Services, selector, &clustersetv1alpha1.ExportedService{}, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return api.ExportedServices(metav1.NamespaceAll).List(ctx, options)
			},
			WatchFuncWithContext: api.ExportedServices(metav1.NamespaceAll).Watch,
		})
	})
	running.Go(func() {
		f.follow(ctx, exports.EndpointSlices, selector, &clustersetv1alpha1.ExportedEndpointSlice{}, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return api.ExportedEndpointSlices(metav1.NamespaceAll).List(ctx, options)
			},
			WatchFuncWithContext: api.ExportedEndpointSlices(metav1.NamespaceAll).Watch,
		})
	})
	running.Go(func() { f.followClaims(ctx) })
	f.probeUntil(ctx)
}
