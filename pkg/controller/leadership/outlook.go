// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
)

const (
	// lookPeriod is the time between two looks at the members.
	lookPeriod = 5 * time.Second
	// defaultTTL is that of members whose server does not tell.
	defaultTTL = time.Minute
)

// Outlook is which members the server of this replica does not reach, although that of
// another replica does. What this replica knows of them is outdated.
type Outlook struct {
	members clustersetlisters.MemberLister
	// yielded are the silences for which this replica has yielded, as silent returns them.
	yielded map[string]time.Time
}

// NewOutlook returns an Outlook on the members of the server of this replica.
func NewOutlook(members clustersetlisters.MemberLister) *Outlook { return &Outlook{members: members} }

// Yield returns when a member has been silent here for its TTL, but not elsewhere, or
// the context is canceled. It returns once for each silence: a replica that leads again
// in spite of it is as good as any other, such as one that does not reach another member,
// and leads on.
func (o *Outlook) Yield(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), "outlook")
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	for staying := false; ; {
		members, err := o.members.List(labels.Everything())
		if err != nil {
			logger.Error(err, "Failed to list members") // unreachable: it is a cache
		}
		silent := silentHere(members, time.Now())
		names := slices.Sorted(maps.Keys(silent))
		if !o.covers(silent) {
			logger.Info("Another replica should lead: it reaches members that the mcs-apiserver of this Pod does not", "clusters", names)
			o.yielded = silent
			return
		}
		if !staying && len(names) > 0 {
			logger.Info("No other replica reaches more members, endpoints of some are outdated: check the network of this Pod", "clusters", names)
			staying = true
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Complete returns an error while the server of this replica does not know what a member
// exported before the server started: a leader would withdraw it.
func (o *Outlook) Complete() error {
	members, err := o.members.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, member := range members {
		if synced := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberSynced); synced != nil && synced.Reason == clusterset.ReasonUnrecorded {
			return fmt.Errorf("mcs-apiserver does not know the exports of member %s: %s", member.Name, synced.Message)
		}
	}
	return nil
}

// covers reports whether this replica has yielded for all silences.
func (o *Outlook) covers(silent map[string]time.Time) bool {
	for member, since := range silent {
		if !o.yielded[member].Equal(since) {
			return false
		}
	}
	return true
}

// silentHere returns the members that were silent here for longer than their TTL, but
// seen elsewhere, and since when.
func silentHere(members []*clustersetv1alpha1.Member, now time.Time) map[string]time.Time {
	silent := map[string]time.Time{}
	for _, member := range members {
		status := &member.Status
		reachable := meta.FindStatusCondition(status.Conditions, clusterset.MemberReachable)
		if status.State != clustersetv1alpha1.MemberStale || status.LastSeen == nil || reachable == nil || reachable.Status != metav1.ConditionFalse {
			continue
		}
		since := reachable.LastTransitionTime.Time
		if ttl := cmp.Or(time.Duration(status.TTLSeconds)*time.Second, defaultTTL); now.Sub(since) >= ttl && status.LastSeen.After(since) {
			silent[member.Name] = since
		}
	}
	return silent
}
