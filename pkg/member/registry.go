// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member knows the other clusters of the ClusterSet: which Secrets make
// them members, what they export, and when they were last seen. It never takes
// silence for an answer: what a member exported stays known, also over a
// restart, until the member itself says otherwise.
package member

import (
	"context"
	"net/netip"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// DefaultTTL is how long a member may be silent before it counts as lost.
const DefaultTTL = time.Minute

// Config is what a Registry needs.
type Config struct {
	// Secrets are those of type clusterset.MemberSecretType in the namespace of the installation.
	Secrets cache.SharedIndexInformer
	Memory  *Memory
	Clock   clock.WithTicker
	// TTL is how long a member may be silent, unless its Secret says otherwise.
	TTL time.Duration
	// LostPolicy is what happens to a lost member's endpoints, unless its Secret
	// says otherwise.
	LostPolicy clusterset.LostPolicy
	// Ranges are where addresses that are the same in all clusters may be.
	Ranges []netip.Prefix
	// ServiceChanged and MemberChanged are told what to read again. They are
	// called with locks held and MUST NOT BLOCK or call back.
	ServiceChanged func(types.NamespacedName)
	MemberChanged  func(name string)
}

// Registry knows the members.
type Registry struct {
	config Config
	memory *recorder

	mu       sync.RWMutex
	identity Identity
	local    localCounts
	// peers are the clusters that Secrets lead to, by the Secret's name.
	peers map[string]*peer
	// remembered is what is left of the memory for Secrets yet to be seen.
	remembered map[string]Remembered
	routes     map[string]route
	entries    map[string]*clusterset.Member
	// parts are the clusters' parts of the addresses for one IP in all clusters.
	parts   []part
	readers map[string]time.Time
	// ownConditions are those of this cluster's own entry.
	ownConditions []metav1.Condition

	running sync.WaitGroup
	// base is what feeds run in; nil before Run and after its end.
	base  context.Context //nolint:containedctx // feeds come and go with Secrets while Run runs
	ready chan struct{}
}

// localCounts is what this cluster exports itself.
type localCounts struct{ exports, endpoints int32 }

// peer is the cluster that one Secret leads to.
type peer struct {
	spec *spec
	feed *feed
	// What the member said; nil or zero until it did.
	claims   *claims
	entry    *clusterset.Member
	relayed  map[string]*clusterset.Member
	lastSeen time.Time
	// resumed is when this server took over a member that was not lost: that
	// nobody looked before is not the member's silence.
	resumed time.Time
	// uid is the member's, claimedAt since when it claims its id, and cidrs its part
	// of the addresses for one IP in all clusters, as it said or as is remembered.
	uid        types.UID
	claimedAt  time.Time
	cidrs      []string
	remembered bool
	probeError error
	// claimsError is why its claims cannot be read.
	claimsError error
	holdings    holdings
	feedErrors  [kinds]error
	synced      [kinds]bool
	// heard is true once everything was read at least once.
	heard bool
	// doubtful are the clusters of which a feed said that nothing is left, until
	// the member's entry confirms it.
	doubtful [kinds]sets.Set[string]
	rejected [kinds]map[types.NamespacedName]error
	verdict  verdict
	// state is what its exports were last passed on with.
	state clusterset.MemberState
	// name is that of its entry.
	name string
	// conditions are those of its entry, kept for their times.
	conditions []metav1.Condition
}

// New returns a Registry without members.
func New(config Config) *Registry {
	return &Registry{
		config:  config,
		memory:  newRecorder(config.Memory, config.Clock),
		peers:   map[string]*peer{},
		routes:  map[string]route{},
		entries: map[string]*clusterset.Member{},
		readers: map[string]time.Time{},
		ready:   make(chan struct{}),
	}
}

// Run follows the Secrets, and reads from the members that they name, until
// the context ends.
func (r *Registry) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	if !cache.WaitForNamedCacheSyncWithContext(ctx, r.config.Secrets.HasSynced) {
		return
	}
	remembered, err := r.memory.load(ctx)
	if err != nil {
		return // the context has ended
	}
	disown(remembered, r.config.Secrets.GetStore().List())
	r.mu.Lock()
	r.base, r.remembered = ctx, remembered
	r.mu.Unlock()
	defer r.running.Wait()
	defer func() { // no feed is started from here on
		r.mu.Lock()
		defer r.mu.Unlock()
		r.base = nil
	}()
	r.running.Go(func() { r.memory.run(ctx) })
	r.running.Go(func() { r.keepTime(ctx) })
	registration, err := r.config.Secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.setSecret(ctx, object) },
		UpdateFunc: func(_, object any) { r.setSecret(ctx, object) },
		DeleteFunc: func(object any) { r.removeSecret(ctx, object) },
	})
	if err != nil {
		logger.Error(err, "The Secrets of the members cannot be followed")
		return
	}
	defer func() { _ = r.config.Secrets.RemoveEventHandler(registration) }()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, registration.HasSynced) {
		return
	}
	r.forgetStrangers(ctx)
	close(r.ready)
	<-ctx.Done()
}

// keepTime looks now and then at what changes only because time passes: a
// member that is silent, or a reader that has ceased to read.
func (r *Registry) keepTime(ctx context.Context) {
	ticker := r.config.Clock.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.mu.Lock()
			r.evaluate()
			r.mu.Unlock()
		}
	}
}

// Ready is closed when all Secrets have been read and all that is remembered
// of their clusters is known. It does not wait for any member.
func (r *Registry) Ready() <-chan struct{} { return r.ready }

// forgetStrangers drops the memory of clusters that ceased to be members while
// this server was not running.
func (r *Registry) forgetStrangers(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.remembered {
		klog.FromContext(ctx).Info("Forgetting a cluster that is no member any more", "cluster", id)
		r.memory.forget(id)
	}
	r.remembered = nil
}

// Identity is who this cluster is.
func (r *Registry) Identity() Identity {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.identity
}

// SetIdentity says who this cluster is. Members that do not fit are out at once.
func (r *Registry) SetIdentity(identity Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.identity == identity {
		return
	}
	renamed := r.identity.ID != identity.ID
	r.identity = identity
	for _, peer := range r.peers {
		if renamed && peer.feed != nil {
			// What was taken was judged by another id: read everything again.
			r.loseUnwanted(peer)
			r.startFeed(peer)
		}
	}
	r.evaluate()
}

// SetLocal says how much this cluster exports itself.
func (r *Registry) SetLocal(exports, endpoints int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.local = localCounts{exports, endpoints}
	r.refreshOwn()
}
