// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// followClaims passes the ClusterClaims of the member to the sink until the
// context ends.
func (f *Feed) followClaims(ctx context.Context) {
	api := f.client.MulticlusterV1().ClusterClaims()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := api.List(ctx, options)
			if err == nil && list.Continue != "" { // a server that honors the limit has a few
				err = fmt.Errorf("member has more than %d ClusterClaims, which are not read", options.Limit)
			}
			err = shortened(err)
			f.config.Sink.ClaimsFailed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watcher, err := api.Watch(access.WithLimit(ctx, maxClaim), options)
			if err != nil {
				return nil, interruptible(shortened(err), options)
			}
			limit := &claimLimit{known: !streamsList(options), pace: func() { f.config.Budget.claims.await(ctx, f.config.Clock) }}
			return newLimitedWatch(watcher, limit.check, nil), nil
		},
	}
	store := &claimStore{sink: f.config.Sink, claims: map[string]*multiclusterv1.ClusterClaim{}}
	f.run(ctx, f.reflector(ctx, "clusterclaims", source, &multiclusterv1.ClusterClaim{}, store))
}

const (
	// maxClaims is how many events of ClusterClaims a watch may begin with, and
	// maxClaim how much memory it may take to decode one.
	maxClaims = 1000
	maxClaim  = 64 << 10
)

// claimLimit counts the events of a watch until all claims are known: the
// reflector keeps them until then. From then on it paces them.
type claimLimit struct {
	events int
	known  bool
	pace   func()
}

func (l *claimLimit) check(event watch.Event) (watch.Event, error) {
	_, ok := event.Object.(*multiclusterv1.ClusterClaim)
	switch {
	case event.Type == watch.Error:
	case !ok || !isEvent(event.Type):
		return event, unexpected(event)
	case event.Type == watch.Bookmark && endsList(event.Object):
		l.known = true
	case l.known:
		l.pace()
	default:
		if l.events++; l.events > maxClaims {
			return event, fmt.Errorf("member has more than %d ClusterClaims", maxClaims)
		}
	}
	return event, nil
}

// claimStore keeps the claims of a member that matter. Only its reflector uses it.
type claimStore struct {
	sink   Sink
	claims map[string]*multiclusterv1.ClusterClaim
}

var _ cache.ReflectorStore = &claimStore{}

// Add implements cache.ReflectorStore.
func (s *claimStore) Add(object any) error {
	s.keep(object)
	s.report()
	return nil
}

func (s *claimStore) keep(object any) {
	claim, ok := object.(*multiclusterv1.ClusterClaim)
	if ok && (claim.Name == multicluster.ClusterIDClaim || claim.Name == multicluster.ClusterSetClaim) {
		s.claims[claim.Name] = claim
	}
}

// Update implements cache.ReflectorStore.
func (s *claimStore) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s *claimStore) Delete(object any) error {
	if claim, ok := object.(*multiclusterv1.ClusterClaim); ok {
		delete(s.claims, claim.Name)
	}
	s.report()
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *claimStore) Replace(objects []any, _ string) error {
	s.claims = map[string]*multiclusterv1.ClusterClaim{}
	for _, object := range objects {
		s.keep(object)
	}
	s.report()
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *claimStore) Resync() error { return nil }

func (s *claimStore) report() {
	s.sink.ClaimsRead(identity.NewClaims(s.claims[multicluster.ClusterIDClaim], s.claims[multicluster.ClusterSetClaim]))
}
