// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
)

// reviewInterval is how often the access of an open watch of a peer is reviewed. As
// decisions of the kube-apiserver are cached for 10 seconds, a watch ends about 20
// seconds after access was revoked at the latest.
const reviewInterval = 10 * time.Second

// maxPeerWatches is how many watches a peer may have at a time: each takes memory, and
// what changes is sent to all of them. A replica of mcs-apiserver needs four.
const maxPeerWatches = 100

// peerRequests handles requests of other clusters: it decides what they see, and ends
// their watches when their access is revoked or changes. A peer is recognized by its
// service account.
type peerRequests struct {
	// namespace has the service accounts of peers.
	namespace string
	// self returns the ID of this cluster.
	self       func() string
	authorizer authorizer.Authorizer
	// account returns the UID of a service account, empty if it does not exist. It
	// reports false while that is unknown.
	account func(name string) (uid types.UID, known bool)
	// observe is called with the ID of a cluster that reads exports.
	observe func(id string)
	clock   clock.WithTicker

	mu sync.Mutex
	// views are the last known views of peers.
	views map[string]knownView
	// watches are those that peers have, the oldest first.
	watches map[string][]*peerWatch
}

// knownView is a view that a peer has had since a time, zero if it never had another.
type knownView struct {
	view  peerview.View
	since time.Time
}

// peerWatch is an open watch, and how it ends.
type peerWatch struct{ end context.CancelFunc }

// peerRequest is one request of a peer.
type peerRequest struct {
	*peerRequests
	id         string
	user       user.Info
	attributes authorizer.Attributes
}

func (c CompletedConfig) newPeerRequests(config *genericapiserver.Config, computed *computation) *peerRequests {
	members := computed.projection.Members()
	return &peerRequests{
		namespace: c.Namespace, self: func() string { return members.Identity().ID },
		authorizer: config.Authorization.Authorizer, observe: members.ObserveReader,
		account: func(name string) (types.UID, bool) { return accountUID(computed.accounts, c.Namespace, name) },
		clock:   clock.RealClock{}, views: map[string]knownView{}, watches: map[string][]*peerWatch{},
	}
}

// accountUID returns the UID of a service account, empty if it does not exist. It
// reports false while that is unknown.
func accountUID(accounts cache.SharedIndexInformer, namespace, name string) (types.UID, bool) {
	if !accounts.HasSynced() {
		return "", false
	}
	object, exists, err := accounts.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return "", err == nil
	}
	account, ok := object.(*corev1.ServiceAccount)
	if !ok {
		return "", false
	}
	return account.UID, true
}

// withPeers returns a filter that runs after authentication and authorization.
func withPeers(next http.Handler, peers *peerRequests) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, ok := peers.identify(r.Context())
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		peer.observeReads()
		view, err := peer.view(r.Context())
		if err != nil {
			group := schema.GroupVersion{Group: peer.attributes.GetAPIGroup(), Version: peer.attributes.GetAPIVersion()}
			responsewriters.ErrorNegotiated(unknownView(err), Codecs, group, w, r)
			return
		}
		changed := make(chan struct{})
		ctx, cancel := context.WithCancel(peerview.WithAccess(r.Context(), peerview.Access{View: view.view, Since: view.since, Changed: changed}))
		var reviewing sync.WaitGroup
		defer reviewing.Wait()
		defer cancel()
		if peer.attributes.GetVerb() == "watch" {
			defer peer.countWatch(r.Context(), cancel)()
			reviewing.Go(func() { peer.review(ctx, view.view, cancel, func() { close(changed) }) })
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// identify returns the request if it is that of a peer.
func (p *peerRequests) identify(ctx context.Context) (*peerRequest, bool) {
	requester, ok := request.UserFrom(ctx)
	if !ok {
		return nil, false
	}
	id, ok := p.peerID(requester.GetName())
	if !ok {
		return nil, false
	}
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil || !attributes.IsResourceRequest() { // no error: the request was authorized with them
		return nil, false
	}
	return &peerRequest{p, id, requester, attributes}, true
}

// peerID returns the ID of the cluster that a user name stands for.
func (p *peerRequests) peerID(userName string) (string, bool) {
	namespace, account, err := serviceaccount.SplitUsername(userName)
	if err != nil || namespace != p.namespace {
		return "", false
	}
	return clusterset.PeerID(account)
}

// observeReads reports that the peer reads exports, if it does.
func (r *peerRequest) observeReads() {
	switch r.attributes.GetResource() {
	case "exportedservices", "exportedendpointslices":
		r.observe(r.id)
	}
}

// view returns what the peer sees now.
func (r *peerRequest) view(ctx context.Context) (knownView, error) {
	decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: r.user, Verb: clusterset.RelayVerb, ResourceRequest: true,
		APIGroup: clusterset.GroupName, APIVersion: clustersetv1alpha1.SchemeGroupVersion.Version, Resource: "members",
	})
	if err != nil {
		return knownView{}, err
	}
	return r.known(peerview.View{Self: r.self(), Peer: r.id, Relayed: decision == authorizer.DecisionAllow}), nil
}

// known returns since when a peer has had a view.
func (p *peerRequests) known(view peerview.View) knownView {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, ok := p.views[view.Peer]
	if ok && before.view == view {
		return before
	}
	now := knownView{view: view}
	if ok {
		now.since = p.clock.Now()
	}
	p.views[view.Peer] = now
	return now
}

// countWatch counts a watch until the returned function is called. If there are too many, the
// oldest ends: if connections are lost, it is the new ones that a peer reads.
func (r *peerRequest) countWatch(ctx context.Context, end context.CancelFunc) (ended func()) {
	watch := &peerWatch{end}
	r.mu.Lock()
	defer r.mu.Unlock()
	open := append(r.watches[r.id], watch)
	if len(open) > maxPeerWatches {
		klog.FromContext(ctx).V(4).Info("Ending the oldest watch of a peer: it has too many", "cluster", r.id, "limit", maxPeerWatches)
		open[0].end()
		open = slices.Delete(open, 0, 1)
	}
	r.watches[r.id] = open
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		open := slices.DeleteFunc(r.watches[r.id], func(other *peerWatch) bool { return other == watch })
		if r.watches[r.id] = open; len(open) == 0 {
			delete(r.watches, r.id)
		}
	}
}

// unknownView asks the peer to retry: a list without what is relayed to it would look
// as if that were gone.
func unknownView(err error) error {
	unavailable := apierrors.NewServiceUnavailable(fmt.Sprintf("failed to determine what is relayed to this cluster; retry later: %v", err))
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return unavailable
}

// review reviews the access of an open watch until the context ends. It calls revoked
// if the peer may no longer watch, and changed, once, if its view is not what it was when
// the watch began. What is watched may be the same in both views, as ClusterClaims are, so
// that the watch goes on and can be revoked.
func (r *peerRequest) review(ctx context.Context, view peerview.View, revoked, changed func()) {
	ticker := r.clock.NewTicker(reviewInterval)
	defer ticker.Stop()
	var notify sync.Once
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		if reason := r.revocation(ctx); reason != "" {
			klog.FromContext(ctx).Info("Ending the watch of a peer: access was revoked", "cluster", r.id, "resource", r.attributes.GetResource(), "reason", reason)
			revoked()
			return
		}
		r.observeReads()
		if now, err := r.view(ctx); err == nil && now.view != view {
			notify.Do(changed)
		}
	}
}

// revocation returns why the peer may no longer watch, empty if it may or if that is
// unknown: the watch is bounded anyway.
func (r *peerRequest) revocation(ctx context.Context) string {
	account, known := r.account(clusterset.PeerAccountName(r.id))
	switch {
	case known && account == "":
		return "service account was deleted"
	case known && r.user.GetUID() != "" && r.user.GetUID() != string(account):
		return "service account was replaced"
	}
	decision, reason, err := r.authorizer.Authorize(ctx, r.attributes)
	if err != nil || decision == authorizer.DecisionAllow {
		return ""
	}
	return "forbidden: " + reason
}
