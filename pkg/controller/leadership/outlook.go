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
	// minTerm and maxTerm are how long a replica leads that has yielded for the same
	// silences before: the other replica may not have been able to lead, or misses other
	// members. Each time it is twice as long.
	minTerm = time.Minute
	maxTerm = 10 * time.Minute
)

// Outlook is which members the server of this replica does not reach, although that of
// another replica does. What this replica knows of them is outdated.
type Outlook struct {
	members clustersetlisters.MemberLister
	yielded yielded
}

// NewOutlook returns an Outlook on the members of the server of this replica.
func NewOutlook(members clustersetlisters.MemberLister) *Outlook {
	return &Outlook{members: members, yielded: yielded{last: map[string]time.Time{}}}
}

// Yield returns when a member has been silent here for its TTL, but not elsewhere, or
// the context is canceled. For silences for which it has returned before, it returns after
// a while, so that replicas that each miss another member lead in turns.
func (o *Outlook) Yield(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), "outlook")
	ticker := time.NewTicker(lookPeriod)
	defer ticker.Stop()
	begun := time.Now()
	for staying := false; ; {
		silent := o.silent()
		names := slices.Sorted(maps.Keys(silent))
		term := o.yielded.term(silent)
		switch led := time.Since(begun); {
		case len(silent) == 0:
		case led >= term:
			logger.Info("Another replica should lead: it reaches members that the mcs-apiserver of this Pod does not", "clusters", names)
			o.yielded.yield(silent, term, time.Now())
			return
		case !staying:
			logger.Info("Leading although another replica reaches members that the mcs-apiserver of this Pod does not: it did not take over, was not able to lead, or does not reach others. "+
				"What is imported from these members stays as it is; check the network of this Pod", "clusters", names, "yieldsIn", term-led)
			staying = true
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Hesitate reports whether other replicas should lead rather than this one.
func (o *Outlook) Hesitate() bool { return len(o.silent()) > 0 }

func (o *Outlook) silent() map[string]time.Time {
	members, err := o.members.List(labels.Everything())
	if err != nil {
		return nil // unreachable: it is a cache
	}
	return silentHere(members, time.Now())
}

// Complete returns an error while the server of this replica does not know what a member
// exported before the server started: a leader would withdraw it.
func (o *Outlook) Complete() error {
	members, err := o.members.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, member := range members {
		if synced := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberSynced); synced != nil && synced.Reason == clusterset.ReasonUnrecorded && !relayed(member) {
			return fmt.Errorf("mcs-apiserver does not know the exports of member %s: %s", member.Name, synced.Message)
		}
	}
	return nil
}

// yielded is why a replica yielded before.
type yielded struct {
	// last is when the replica last yielded because of a member.
	last map[string]time.Time
	// after is how long the replica had to lead before it yielded.
	after time.Duration
}

// term returns how long a replica leads at least before it yields for silences. It does
// not wait if one began long after the replica last yielded because of its member.
func (y *yielded) term(silent map[string]time.Time) time.Duration {
	for member, since := range silent {
		if last, before := y.last[member]; !before || since.Sub(last) >= maxTerm {
			return 0
		}
	}
	return min(max(2*y.after, minTerm), maxTerm)
}

func (y *yielded) yield(silent map[string]time.Time, after time.Duration, now time.Time) {
	for member := range silent {
		y.last[member] = now
	}
	y.after = after
}

// silentHere returns the members that were silent here for longer than their TTL, but
// seen elsewhere, and since when. Conditions of a relayed cluster are those of its hub, except that
// another replica reaches it without the hub.
func silentHere(members []*clustersetv1alpha1.Member, now time.Time) map[string]time.Time {
	silent := map[string]time.Time{}
	for _, member := range members {
		status := &member.Status
		ttl := cmp.Or(time.Duration(status.TTLSeconds)*time.Second, defaultTTL)
		synced := meta.FindStatusCondition(status.Conditions, clusterset.MemberSynced)
		if relayed(member) && synced != nil && synced.Reason == clusterset.ReasonReachedElsewhere && now.Sub(synced.LastTransitionTime.Time) >= ttl {
			silent[member.Name] = synced.LastTransitionTime.Time
		}
		reachable := meta.FindStatusCondition(status.Conditions, clusterset.MemberReachable)
		if relayed(member) || reachable == nil || reachable.Status != metav1.ConditionFalse {
			continue
		}
		since := reachable.LastTransitionTime.Time
		if now.Sub(since) >= ttl && seenElsewhere(status, since) {
			silent[member.Name] = since
		}
	}
	return silent
}

// seenElsewhere reports whether another replica has seen a member that this one has not
// reached since a time. This one may never have.
func seenElsewhere(status *clustersetv1alpha1.MemberStatus, since time.Time) bool {
	switch status.State {
	case clustersetv1alpha1.MemberStale:
		return !status.Expired && status.LastSeen != nil && status.LastSeen.After(since)
	case clustersetv1alpha1.MemberConnecting:
		synced := meta.FindStatusCondition(status.Conditions, clusterset.MemberSynced)
		return synced != nil && synced.Reason == clusterset.ReasonOutdated
	}
	return false
}

func relayed(member *clustersetv1alpha1.Member) bool { return len(member.Status.Path) > 1 }
