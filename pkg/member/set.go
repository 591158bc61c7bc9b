// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member maintains the set of members of the ClusterSet: it follows the
// Secrets that make clusters members, runs a feed for each of them, and combines
// what the feeds read. Failures and silence are never taken for an answer: what
// a member exported stays known, also across a restart, until the member itself
// withdraws it.
//
// The packages below it refer only downwards. feed reads one member; memory
// records exports across restarts; acceptance, allocation, coalesce, exports, liveness
// and route decide; view shows the outcome. Only this package knows all of them.
package member

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/coalesce"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

// Config is what a Set needs.
type Config struct {
	// Secrets are the member Secrets in the namespace of the installation.
	Secrets cache.SharedIndexInformer
	// Renewed are the Secrets with renewed credentials in the same namespace.
	Renewed cache.SharedIndexInformer
	// Leases are those of members in the same namespace, with which the replicas
	// share when they saw a member.
	Leases cache.SharedIndexInformer
	// Memory stores what members export across restarts, and Election decides which
	// replica writes it.
	Memory   record.Store
	Election memory.Election
	// Endpoints returns the endpoints of a Service of another cluster that were
	// imported before a restart. The path of the result is not set.
	Endpoints func(cluster string, service types.NamespacedName) []*clusterset.ExportedEndpointSlice
	Clock     clock.WithTicker
	// TTL is how long a member may be silent before it is lost, unless its Secret
	// overrides it.
	TTL time.Duration
	// LostPolicy is what happens to the endpoints of a lost member, unless its
	// Secret overrides it.
	LostPolicy clusterset.LostPolicy
	// Ranges are the ClusterSet IP ranges.
	Ranges []netip.Prefix
	// Version is the version of this program, which other clusters see.
	Version string
	// ReservedNamespaces are those that members may not export into unless their
	// Secrets allow it.
	ReservedNamespaces sets.Set[string]
	// ServiceChanged, MemberChanged and PropertiesChanged are called with what has to be
	// read again, the latter with the ID of a cluster. They MUST NOT BLOCK.
	ServiceChanged    func(exports.Ref)
	MemberChanged     func(name string)
	PropertiesChanged func(cluster string)
}

// Set is the set of members. mu guards all of its state and that of its peers.
// Only short operations run with mu held; methods that assume it end in Locked.
type Set struct {
	config   Config
	recorder *memory.Recorder
	// newFeed creates the feed of a peer.
	newFeed func(feed.Config) source

	mu sync.RWMutex
	// roster is what is shown as the members list.
	roster roster
	// peers are the clusters that Secrets lead to, by the name of the Secret.
	peers map[string]*peer
	// renewed are the renewed credentials, by the name of the member Secret.
	renewed map[string]secret.Renewed
	// recalled is the memory of members whose Secrets have not been read yet.
	recalled map[string]memory.Member
	// sightings are those of all replicas, by member.
	sightings map[string]sighting.Heard
	routes    map[string]route.Route[*peer]
	// expelled are the IDs of clusters that are expelled. It is replaced, never modified.
	expelled sets.Set[string]
	// properties are the ClusterProperties by which clusters are selected, by their IDs.
	// They are replaced, never modified.
	properties map[string]map[string]string
	// networks are those of this cluster.
	networks *exports.Networks
	// deferred is to be run as soon as mu is released.
	deferred []func()
	// evaluation is when all peers are evaluated because of what members report, and
	// evaluations counts how often they were.
	evaluation  coalesce.Schedule
	evaluations int
	// ticked is when this process last noticed that time passes; zero before it runs.
	ticked time.Time

	running sync.WaitGroup
	// base is the context of the feeds; nil before Run and after its end.
	base  context.Context //nolint:containedctx // feeds come and go with Secrets while Run runs
	ready chan struct{}
}

// source is a *feed.Feed.
type source interface {
	Run(ctx context.Context)
	SetTokens(tokens []string)
	ProbeNow()
	ProbePending() bool
	Reread()
	ClockOffset() (time.Duration, bool)
}

// New returns a Set without members.
func New(config Config) *Set {
	registerMetrics()
	s := &Set{
		config:    config,
		recorder:  memory.NewRecorder(config.Memory, config.Election, config.Clock),
		newFeed:   func(config feed.Config) source { return feed.New(config) },
		peers:     map[string]*peer{},
		renewed:   map[string]secret.Renewed{},
		sightings: map[string]sighting.Heard{},
		routes:    map[string]route.Route[*peer]{},
		ready:     make(chan struct{}),

		evaluation: coalesce.New(evaluationInterval),
	}
	s.roster = newRoster(&s.config)
	current.set.Store(s)
	return s
}

// locked runs change with the lock held, and returns a function that does what
// change deferred. The caller runs it when it holds no lock.
func (s *Set) locked(change func()) (after func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked(s.config.Clock.Now())
	change()
	deferred, changed := s.deferred, s.roster.changed
	s.deferred, s.roster.changed = nil, nil
	return func() {
		for _, name := range changed {
			s.config.MemberChanged(name)
		}
		for _, run := range deferred {
			run()
		}
	}
}

// Run follows the Secrets, and reads from the members that they lead to, until
// the context ends.
func (s *Set) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	sightings, err := s.config.Leases.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.leaseChanged,
		UpdateFunc: func(_, object any) { s.leaseChanged(object) },
		DeleteFunc: s.leaseDeleted,
	})
	if err != nil {
		logger.Error(err, "Failed to watch the Leases of members")
		return
	}
	defer func() { _ = s.config.Leases.RemoveEventHandler(sightings) }()
	renewed, err := s.config.Renewed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.upsertRenewed(ctx, object) },
		UpdateFunc: func(_, object any) { s.upsertRenewed(ctx, object) },
		DeleteFunc: func(object any) { s.removeRenewed(ctx, object) },
	})
	if err != nil {
		logger.Error(err, "Failed to watch renewed credentials")
		return
	}
	defer func() { _ = s.config.Renewed.RemoveEventHandler(renewed) }()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, s.config.Secrets.HasSynced, sightings.HasSynced, renewed.HasSynced) {
		return
	}
	recalled, err := s.recorder.Load(ctx, clusterIDs(s.config.Secrets.GetStore().List()))
	if err != nil {
		return // the context has ended
	}
	s.locked(func() { s.base, s.recalled, s.ticked = ctx, recalled, s.config.Clock.Now() })()
	defer s.running.Wait()
	defer func() { s.locked(func() { s.base = nil })() }() // no feed is started from here on
	s.running.Go(func() { every(ctx, s.config.Clock, feed.ProbeInterval, s.tick) })
	registration, err := s.config.Secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.upsertSecret(ctx, object) },
		UpdateFunc: func(_, object any) { s.upsertSecret(ctx, object) },
		DeleteFunc: func(object any) { s.removeSecret(ctx, object) },
	})
	if err != nil {
		logger.Error(err, "Failed to watch member Secrets")
		return
	}
	defer func() { _ = s.config.Secrets.RemoveEventHandler(registration) }()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, registration.HasSynced) {
		return
	}
	s.locked(func() {
		for id := range s.recalled {
			logger.Info("Removing the recorded exports of a cluster that is no longer a member", "cluster", id)
			s.recorder.Forget(id)
		}
		s.recalled = nil
	})()
	s.running.Go(func() { s.recorder.Run(ctx) })
	if s.awaitMembers(ctx) {
		close(s.ready)
		<-ctx.Done()
	}
}

// clusterIDs returns the cluster IDs in member Secrets, by their names.
func clusterIDs(secrets []any) map[string]string {
	ids := map[string]string{}
	for _, object := range secrets {
		if s, ok := object.(*corev1.Secret); ok && s.Type == clusterset.MemberSecretType {
			ids[s.Name] = secret.Parse(s).ClusterID
		}
	}
	return ids
}

// Ready is closed when all Secrets have been read, and everything recorded about
// their clusters is known. It waits a few seconds for members that were not lost before:
// their latest exports may not be recorded.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// every calls a function regularly until the context ends.
func every(ctx context.Context, clock clock.WithTicker, interval time.Duration, call func()) {
	ticker := clock.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			call()
		}
	}
}

// tick updates what changes only because time passes: the state of a silent
// member, and the clusters that read from this one.
func (s *Set) tick() {
	s.locked(func() {
		now := s.config.Clock.Now()
		s.ticked = now
		s.rebaseLocked(now)
		s.doubtLocked(now)
		believed := false
		for _, p := range s.peers {
			believed = p.believeLocked(now) || believed
			expired := !p.unrecordedUntil.IsZero() && !now.Before(p.unrecordedUntil)
			if expired {
				p.unrecordedUntil = time.Time{}
			}
			if s.assessLocked(p, now) || expired {
				s.refreshLocked(p)
			}
		}
		if believed {
			s.selectByPropertiesLocked()
		}
		changed := s.applyLooksLocked(now) || s.overdueChangedLocked(now) || s.seenOtherwiseLocked(now)
		for _, p := range s.peers {
			changed = changed || p.state != p.stateLocked(now, s.config.TTL)
		}
		if changed {
			s.evaluateLocked()
			return
		}
		s.roster.observeReadersLocked(now)
	})()
}

// Identity returns the identity of this cluster.
func (s *Set) Identity() identity.Cluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.roster.identity
}

// SetIdentity changes the identity of this cluster. Members that do not match it
// are refused at once.
func (s *Set) SetIdentity(self identity.Cluster) {
	s.locked(func() {
		if s.roster.identity == self {
			return
		}
		renamed := s.roster.identity.ID != self.ID
		s.roster.identity = self
		if renamed {
			// What was admitted depends on the ID: read everything again.
			for _, p := range s.peers {
				s.startFeedLocked(p)
				s.deferred = append(s.deferred, func() { s.enforcePolicy(p) })
			}
		}
		s.evaluateLocked()
	})()
}

// SetNetworks changes the networks of this cluster. Endpoints in them are removed at
// once. Members whose endpoints were refused before are read again.
func (s *Set) SetNetworks(networks *exports.Networks) {
	s.mu.Lock()
	s.networks = networks
	peers := slices.Collect(maps.Values(s.peers))
	s.mu.Unlock()
	for _, p := range peers {
		removed := s.enforcePolicy(p)
		s.mu.RLock()
		if r := p.receiver; r != nil && (removed || p.rejectedLocked(exports.ReasonAddress) > 0) {
			r.feed.Reread() // also to report what was removed
		}
		s.mu.RUnlock()
	}
}

// ReplaceLocal changes how much this cluster exports itself: a share of it is replaced by another
// one. The entry shows the totals only.
func (s *Set) ReplaceLocal(before, now exports.Share) {
	s.locked(func() {
		s.roster.local.Replace(before, now)
		if before.Exports != now.Exports || before.Endpoints != now.Endpoints {
			s.roster.refreshOwnLocked(s.config.Clock.Now())
		}
	})()
}

// SetKubernetesVersion changes the version of Kubernetes that this cluster reports.
func (s *Set) SetKubernetesVersion(version string) {
	s.locked(func() {
		if s.roster.kubernetesVersion != version {
			s.roster.kubernetesVersion = version
			s.roster.refreshOwnLocked(s.config.Clock.Now())
		}
	})()
}

// SetProperties changes the ClusterProperties that this cluster reports.
func (s *Set) SetProperties(properties []clusterset.ClusterProperty) {
	s.locked(func() {
		if !slices.Equal(s.roster.properties, properties) {
			s.roster.properties = properties
			s.roster.refreshOwnLocked(s.config.Clock.Now())
		}
	})()
}

// ObserveReader records that the cluster with the given ID reads from this one.
func (s *Set) ObserveReader(id string) {
	s.locked(func() {
		if now := s.config.Clock.Now(); s.roster.readers.observe(id, now) {
			s.roster.observeReadersLocked(now)
		}
	})()
}
