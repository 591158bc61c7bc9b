// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/peertoken"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

const (
	// ProbeInterval is how often a member has to prove that it is alive.
	ProbeInterval = 5 * time.Second
	probeTimeout  = 5 * time.Second
)

// probeUntil reads the member's own entry in its members list until the context
// ends. From a hub all entries are read, because it relays other clusters.
func (f *Feed) probeUntil(ctx context.Context) {
	options := metav1.ListOptions{}
	if !f.config.Relay {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.config.ClusterID).String()
	}
	failed := false
	for ctx.Err() == nil {
		f.config.Budget.probes.await(ctx, f.config.Clock)
		select {
		case <-f.probes: // this is the requested probe
		default:
		}
		entries, err := f.probe(ctx, options)
		if ctx.Err() != nil {
			return
		}
		if failed && err == nil {
			f.retry()
		}
		failed = err != nil
		f.config.Sink.Probed(entries, err)
		f.rereadIfDue()
		jitter := time.Duration(rand.Int64N(int64(ProbeInterval / 5))) //nolint:gosec // spreads load, no secret
		select {
		case <-ctx.Done():
		case <-f.probes:
		case <-f.config.Clock.After(ProbeInterval - ProbeInterval/10 + jitter):
		}
	}
}

func (f *Feed) probe(ctx context.Context, options metav1.ListOptions) (*response.Entries, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	list, err := f.client.ClusterSetV1alpha1().Members().List(ctx, options)
	if apierrors.IsUnauthorized(err) {
		if at, expired := peertoken.Expired(f.tokens.All(), f.config.Clock.Now()); expired {
			return nil, &response.Expired{At: at, Err: shortened(err)}
		}
	}
	if err != nil {
		return nil, shortened(err)
	}
	if !f.config.Relay { // whatever the member selects
		list.Items = slices.DeleteFunc(list.Items, func(entry clustersetv1alpha1.Member) bool { return entry.Name != f.config.ClusterID })
	}
	return response.Members(list)
}
