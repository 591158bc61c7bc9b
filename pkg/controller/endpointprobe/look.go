// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

const (
	// againIfAlive and againIfSilent are how long after it was asked a Service is asked
	// again that is alive, or may be, and one that is not.
	againIfAlive  = 15 * time.Second
	againIfSilent = 30 * time.Second
	// sampleInterval is the time between two samples of a member that responds, and
	// minSamples how many have to fail before connections to it say nothing.
	sampleInterval = time.Minute
	minSamples     = 3
	// minStep is how much later a silent member has to be seen before that is another
	// silence. The replicas of a hub have seen a cluster that they relay at different
	// times, and answer in turn.
	minStep = 10 * time.Second
)

// record is what was found about a Service.
type record struct {
	// finding is empty if nothing was found in the present silence, and problem why
	// the last connections said nothing.
	finding liveness.Finding
	problem liveness.Problem
	// alive is set if an endpoint has answered in the present silence, this leader or the
	// one before, and the Service does not count as silent since.
	alive bool
	pace
}

// pace is when and how a Service is asked again. It outlives a look, so that a member that
// reports something else all the time is not asked more often.
type pace struct {
	due  time.Time
	turn int
	// answered is where an endpoint last answered, and answeredAt when. failures is in how
	// many turns none has since, and failing when the first of them was.
	answered   netip.AddrPort
	answeredAt time.Time
	failures   int
	failing    time.Time
}

// outcome is what was found when a Service was asked.
type outcome struct {
	finding liveness.Finding
	problem liveness.Problem
	// alive is where an endpoint answered, and turns how many it takes to ask all
	// endpoints, 0 if none can be asked.
	alive netip.AddrPort
	turns int
}

// after returns what is known of a Service of a member with a TTL after it was asked. What
// was found before stays if this cluster could not tell, or while an answer counts.
func (r record) after(found outcome, ttl time.Duration, now time.Time) record {
	next := record{finding: found.finding, problem: found.problem, alive: r.alive, pace: r.pace}
	next.turn++
	switch found.finding {
	case liveness.Answers:
		next.alive, next.answered, next.answeredAt, next.failures = true, found.alive, now, 0
	case liveness.Silent, liveness.Unaskable:
		if next.failures++; next.failures == 1 {
			next.failing = now
		}
		if found.turns > 0 && next.isRenewed(found.turns, ttl, now) {
			next.finding = r.finding
		} else {
			next.alive = false
		}
	case liveness.Pending:
		next.finding = r.finding
		if next.alive { // it is not asked in vain while this cluster cannot tell
			next.failures = 0
		}
	}
	next.due = now.Add(next.interval(found.turns, ttl, now))
	return next
}

// isRenewed reports whether an answer counts as if the member had been seen, although none
// answered in some turns since. One in the present silence counts for the TTL from the first
// of them on, because it may have taken long until the Service was asked again, and until all
// endpoints were asked, as many as count. One from before counts for the TTL.
func (r record) isRenewed(turns int, ttl time.Duration, now time.Time) bool {
	if r.alive {
		return now.Sub(r.failing) < ttl || r.failures < turns
	}
	return now.Sub(r.answeredAt) < ttl
}

// interval returns the time until a Service is asked again that was asked now: sooner if its
// answer ceases to count before.
func (r record) interval(turns int, ttl time.Duration, now time.Time) time.Duration {
	left := r.failing.Add(ttl).Sub(now)
	switch {
	case (r.finding == liveness.Silent || r.finding == liveness.Unaskable) && r.failures >= turns:
		return againIfSilent
	case r.alive && r.failures > 0 && left > 0:
		return min(left, againIfAlive)
	}
	return againIfAlive
}

// hasAnswered reports whether a Service answers, or did so before anything was found: such
// Services do not wait for those that do not.
func (r record) hasAnswered() bool {
	return r.finding == liveness.Answers || r.finding == "" && !r.answeredAt.IsZero()
}

// look is what is known about the endpoints of a member. Prober.mu guards it.
type look struct {
	// uid, lastSeen and ttl are those of the member: another silence is another look.
	uid      types.UID
	lastSeen time.Time
	ttl      time.Duration
	// shown is when the member was last seen, as shown now, and since when that is.
	shown, shownSince time.Time
	// silent is set while the endpoints decide or may have to.
	silent bool
	// forbidden is set if the Secret of the member does not allow to ask any address, and
	// overdue if nothing is kept any more because it answers.
	forbidden, overdue bool
	records            map[types.NamespacedName]record
	// answered is set if an endpoint has answered while the member responded. samples is
	// how many did not, sampled when that was last tried, and turn which Service is next.
	answered bool
	samples  int
	sampled  time.Time
	turn     int
	// voids is about how many Services in a row connections said nothing, and void whether
	// these are all, or many.
	voids int
	void  bool
	// begun is when the look began, and published when it was last written.
	begun, published time.Time
}

// isSilent reports whether the endpoints of a member decide, or may have to if it stays
// silent. unchanged is for how long it has been shown as last seen when it is now: a member
// that another replica sees is stale as well.
func isSilent(entry *clustersetv1alpha1.Member, unchanged time.Duration) bool {
	switch entry.Status.State {
	case clustersetv1alpha1.MemberStale, clustersetv1alpha1.MemberUnavailable, clustersetv1alpha1.MemberLost:
		return entry.Status.Expired || entry.Status.State == clustersetv1alpha1.MemberLost || unchanged >= liveness.StaleAfter
	}
	return false
}

// shownAt returns since when a member has been shown as last seen when it is now. That is
// measured here, because the clock of mcs-apiserver may differ.
func (l *look) shownAt(entry *clustersetv1alpha1.Member, now time.Time) time.Time {
	if l != nil && l.uid == entry.Status.ClusterUID && l.shown.Equal(lastSeen(entry)) {
		return l.shownSince
	}
	return now
}

// lastSeen returns when a member was last seen, zero if that is not known.
func lastSeen(entry *clustersetv1alpha1.Member) time.Time {
	if entry.Status.LastSeen == nil {
		return time.Time{}
	}
	return entry.Status.LastSeen.Time
}

func ttlOf(entry *clustersetv1alpha1.Member) time.Duration {
	return time.Duration(entry.Status.TTLSeconds) * time.Second
}

// next returns the look that follows one, which may be nil, at a member that was seen
// again, or is another cluster. Of the findings, none counts any more.
func (l *look) next(entry *clustersetv1alpha1.Member, silent bool, now time.Time) *look {
	next := &look{uid: entry.Status.ClusterUID, lastSeen: lastSeen(entry), silent: silent, begun: now, records: map[types.NamespacedName]record{}}
	if l == nil {
		return next
	}
	for service, last := range l.records {
		next.records[service] = last.in(l, next)
	}
	next.published, next.sampled = l.published, l.sampled
	if l.uid == next.uid {
		next.answered, next.samples, next.turn, next.voids, next.void = l.answered, l.samples, l.turn, l.voids, l.void
	}
	return next
}

// in returns the record of one look in another one.
func (r record) in(from, to *look) record {
	switch {
	case from == to:
		return r
	case from.uid == to.uid:
		return record{pace: r.pace}
	}
	return record{pace: pace{due: r.due, turn: r.turn}}
}

// learn adds what is recorded about the member. Services of which nothing else is known, and
// that answered an earlier leader, count as if they did now: it is not known when they last did.
func (l *look) learn(recorded *liveness.Look, now time.Time) {
	if recorded == nil || recorded.Answers == 0 {
		return
	}
	l.answered = true
	if !recorded.IsPresent() {
		return
	}
	for _, name := range recorded.Services {
		namespace, name, _ := strings.Cut(name, string(types.Separator))
		service := types.NamespacedName{Namespace: namespace, Name: name}
		if _, known := l.records[service]; !known {
			l.records[service] = record{alive: true, pace: pace{answeredAt: now}}
		}
	}
}

// isAt reports whether a look is one at the present silence of a member, if it is silent.
func (l *look) isAt(entry *clustersetv1alpha1.Member) bool {
	return l.uid == entry.Status.ClusterUID && (!l.silent || lastSeen(entry).Sub(l.lastSeen) < minStep)
}

// finding returns what is known of a Service.
func (l *look) finding(service types.NamespacedName) liveness.Finding {
	switch {
	case !l.silent:
		return liveness.Pending
	case l.forbidden || l.overdue:
		return liveness.Unaskable
	}
	return cmp.Or(l.records[service].finding, liveness.Pending)
}

// summary returns what the replicas share about a silent member. services are all that it
// exports.
func (l *look) summary(services []types.NamespacedName) *liveness.Look {
	result := &liveness.Look{}
	problems := map[liveness.Problem]bool{}
	for _, service := range services {
		switch found := l.finding(service); found {
		case liveness.Answers:
			result.Answers++
			result.Services = append(result.Services, service.String())
		case liveness.Silent:
			result.Silent++
		case liveness.Unaskable:
			result.Unaskable++
			problems[l.records[service].problem] = true
		case liveness.Pending:
			result.Pending++
			problems[l.records[service].problem] = true
		}
	}
	slices.Sort(result.Services)
	result.Problem = l.problem(result, problems)
	return result
}

// problem returns why connections to the endpoints of a silent member say nothing. What they
// do not say about some Services is none if they do about others.
func (l *look) problem(found *liveness.Look, problems map[liveness.Problem]bool) liveness.Problem {
	switch {
	case l.forbidden:
		return liveness.NoAllowedCIDRs
	case found.Answers > 0:
		return ""
	case found.Pending > 0 && problems[liveness.NoVantagePoint]:
		return liveness.NoVantagePoint
	case found.Pending > 0:
		return ""
	case found.Silent > 0 && !l.answered && l.samples >= minSamples:
		return liveness.NothingAnswers
	case found.Silent == 0 && problems[liveness.EverythingAnswers]:
		return liveness.EverythingAnswers
	}
	return ""
}

// sample returns what the replicas share about a member that responds, nil if that is
// nothing.
func (l *look) sample() *liveness.Look {
	result := &liveness.Look{Sample: true}
	switch {
	case l.forbidden:
		result.Problem = liveness.NoAllowedCIDRs
	case l.void:
		result.Problem = liveness.EverythingAnswers
	case l.answered:
		result.Answers = 1
	case l.samples >= minSamples:
		result.Problem = liveness.NothingAnswers
	default:
		return nil
	}
	return result
}
