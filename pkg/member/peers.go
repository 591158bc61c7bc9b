// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

func (r *Registry) setSecret(ctx context.Context, object any) {
	secret, ok := object.(*corev1.Secret)
	if !ok || secret.Type != clusterset.MemberSecretType {
		return
	}
	said := parseSecret(secret)
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.peers[secret.Name]
	switch {
	case ok && held.spec.digest == said.digest && held.spec.uid == said.uid:
		r.renew(ctx, held, said.token)
		return
	case ok && held.spec.id == said.id && held.spec.uid == said.uid:
		klog.FromContext(ctx).Info("The Secret of a member has changed", "cluster", said.id, "secret", said.secret)
		held.spec = said // another credential, or address: what is known stays
		r.loseUnwanted(held)
	default:
		if ok {
			r.drop(held)
		}
		klog.FromContext(ctx).Info("Found the Secret of a member", "cluster", said.id, "secret", said.secret)
		held = &peer{spec: said, holdings: holdings{}}
		r.recall(held)
		r.peers[secret.Name] = held
	}
	r.startFeed(held)
	r.evaluate()
}

// renew gives a peer another token. What it is being told goes on.
func (r *Registry) renew(ctx context.Context, peer *peer, token string) {
	if peer.spec.token == token {
		return
	}
	klog.FromContext(ctx).Info("The token for a member has been renewed", "cluster", peer.spec.id, "secret", peer.spec.secret)
	peer.spec.token = token
	if peer.feed != nil {
		peer.feed.setToken(token)
		peer.feed.probeNow()
	}
}

func (r *Registry) removeSecret(ctx context.Context, object any) {
	secret, ok := tombstone.Unwrap(object).(*corev1.Secret)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if held, ok := r.peers[secret.Name]; ok {
		klog.FromContext(ctx).Info("The Secret of a member is gone", "cluster", held.spec.id, "secret", secret.Name)
		r.drop(held)
		delete(r.peers, secret.Name)
		delete(r.readers, held.spec.id) // it was right to read until now
		r.evaluate()
	}
}

// disown lets any Secret with the id have what is remembered of a member whose
// own Secret is gone.
func disown(remembered map[string]Remembered, secrets []any) {
	ids := map[string]string{}
	for _, object := range secrets {
		if secret, ok := object.(*corev1.Secret); ok && secret.Type == clusterset.MemberSecretType {
			ids[secret.Name] = parseSecret(secret).id
		}
	}
	for id, memory := range remembered {
		if ids[memory.secret] != id {
			memory.secret = ""
			remembered[id] = memory
		}
	}
}

// recall gives a new peer what is remembered of its cluster, and not of another
// that claims the same id.
func (r *Registry) recall(peer *peer) {
	memory, ok := r.remembered[peer.spec.id]
	if ok && peer.spec.id != "" && (memory.secret == "" || memory.secret == peer.spec.secret) {
		delete(r.remembered, peer.spec.id)
		peer.uid, peer.claimedAt, peer.cidrs, peer.lastSeen, peer.remembered = memory.UID, memory.claimedAt, memory.cidrs, memory.LastSeen, true
		if !memory.lost {
			peer.resumed = r.config.Clock.Now()
		}
		for _, fact := range memory.facts {
			peer.holdings.set(fact)
		}
		peer.relayed = memory.relayed
		r.loseUnwanted(peer)
	}
}

// drop ends a peer and forgets what was remembered of it, unless another
// Secret leads to the same cluster.
func (r *Registry) drop(peer *peer) {
	if peer.feed != nil {
		peer.feed.stop()
		peer.feed = nil
	}
	r.forget(peer)
}

// forget drops the memory of a peer, unless it is also another's.
func (r *Registry) forget(peer *peer) {
	peer.remembered = false
	for _, other := range r.peers {
		if other != peer && other.spec.id == peer.spec.id {
			return
		}
	}
	if peer.spec.id != "" {
		r.memory.forget(peer.spec.id)
	}
}

// startFeed reads from a peer, in place of any feed that did before.
func (r *Registry) startFeed(peer *peer) {
	if peer.feed != nil {
		peer.feed.stop()
		peer.feed = nil
	}
	peer.probeError, peer.feedErrors, peer.synced = nil, [kinds]error{}, [kinds]bool{}
	if peer.spec.problem != nil || r.base == nil || r.base.Err() != nil {
		return
	}
	feed, err := newFeed(r, peer, peer.spec)
	if err != nil {
		peer.spec.problem = err
		return
	}
	logger := klog.FromContext(r.base).WithValues("cluster", peer.spec.id)
	ctx, stop := context.WithCancel(klog.NewContext(r.base, logger))
	feed.stop, peer.feed = stop, feed
	r.running.Go(func() {
		defer stop()
		feed.run(ctx)
	})
}
