// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

const (
	// ProbeInterval is how often a member has to prove that it is alive.
	ProbeInterval = 5 * time.Second
	probeTimeout  = 5 * time.Second
	// evaluationInterval is the minimum time between two probes, and between two changes of
	// claims: all members may have to be evaluated with each of them.
	evaluationInterval = 100 * time.Millisecond
)

// pacer returns a function that waits until an interval has passed since it last
// returned, or the context ends.
func (f *Feed) pacer(ctx context.Context, interval time.Duration) func() {
	var last time.Time
	return func() {
		if wait := last.Add(interval).Sub(f.config.Clock.Now()); wait > 0 {
			select {
			case <-ctx.Done():
			case <-f.config.Clock.After(wait):
			}
		}
		last = f.config.Clock.Now()
	}
}

// probeUntil reads the member's own entry in its members list until the context
// ends. From a hub all entries are read, because it relays other clusters.
func (f *Feed) probeUntil(ctx context.Context) {
	options := metav1.ListOptions{}
	if !f.config.Relay {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.config.ClusterID).String()
	}
	pace := f.pacer(ctx, evaluationInterval)
	for ctx.Err() == nil {
		pace()
		select {
		case <-f.probes: // this is the requested probe
		default:
		}
		entries, err := f.probe(ctx, options)
		if ctx.Err() != nil {
			return
		}
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
	if err != nil {
		return nil, shortened(err)
	}
	if !f.config.Relay { // whatever the member selects
		list.Items = slices.DeleteFunc(list.Items, func(entry clustersetv1alpha1.Member) bool { return entry.Name != f.config.ClusterID })
	}
	return response.Members(list)
}
