// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"cmp"
	"context"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

const (
	hostTimeout = 5 * time.Second
	// maxOwn is how many Services of this cluster are asked at a time.
	maxOwn = 3
	// minOwnSamples is how many samples of own endpoints have to fail before their silence
	// means nothing. There may be many Services.
	minOwnSamples = 10
)

// experience is what is known of the exported endpoints of this cluster: whether their
// silence means anything. It is recorded in the Leases of all members, because it cannot be
// found out any more when it matters.
type experience string

const (
	// unknown means that they have not been asked often enough.
	unknown experience = ""
	// haveAnswered means that some have answered: if none does, this cluster has a problem.
	haveAnswered experience = "Answered"
	// neverAnswered means that none has, for example because of a network policy.
	neverAnswered experience = "NeverAnswered"
)

// after returns the experience after samples of own endpoints, of which none in a row answered.
// That some have answered is forgotten only if these are not exported any more: there are none
// of which this leader knows, there were enough samples for all Services, and endpoints of
// others answer meanwhile, so that this cluster has no problem.
func (e experience) after(samples, services int, answered, othersAnswer bool) experience {
	if samples < minOwnSamples || e == haveAnswered && (answered || samples*maxOwn < services || !othersAnswer) {
		return e
	}
	return neverAnswered
}

// vantage is whether this cluster can tell that the endpoints of others are silent.
type vantage struct {
	// checking is full while somebody determines that, and guards the result: begun is when
	// that was last begun, and good what was found.
	checking chan struct{}
	begun    time.Time
	good     bool

	// sampled is when own endpoints were last asked while nobody had to know. Only sampleOwn
	// uses it. Prober.mu guards the others: samples is how often none has answered since one
	// did, while everything was fine.
	sampled time.Time
	samples int
	turn    int
	// answered are the Services of this cluster whose endpoints answered.
	answered sets.Set[types.NamespacedName]
}

// hasVantagePoint reports whether this cluster can tell that endpoints of others are silent
// that were asked since a time: its own Kubernetes API has answered since, and so have its
// own exported endpoints, unless it is known that these never do.
func (p *Prober) hasVantagePoint(ctx context.Context, since time.Time) bool {
	v := &p.vantage
	select {
	case v.checking <- struct{}{}:
		defer func() { <-v.checking }()
	case <-ctx.Done():
		return false
	}
	if v.begun.Before(since) {
		begun := p.clock.Now()
		good := p.hostAnswers(ctx) && (p.experience() == neverAnswered || p.checkOwn(ctx))
		if ctx.Err() != nil {
			return false
		}
		v.begun, v.good = begun, good
	}
	return v.good
}

// hostAnswers reports whether the Kubernetes API of this cluster answers.
func (p *Prober) hostAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	return p.host(ctx) == nil
}

// checkOwn reports whether endpoints of this cluster answer, or there are none: those of
// Services that answered before, or of others if these do not.
func (p *Prober) checkOwn(ctx context.Context) bool {
	choice := p.nextOwn()
	before := p.askOwn(ctx, choice, choice.answered.Has)
	if before.answered > 0 {
		return true
	}
	others := p.askOwn(ctx, choice, func(service types.NamespacedName) bool { return !choice.answered.Has(service) })
	return others.answered > 0 || before.asked+others.asked == 0
}

// sampleOwn finds out whether own endpoints can be asked. That they do not answer counts only
// while everything is fine: the Kubernetes API and a member respond.
func (p *Prober) sampleOwn(ctx context.Context, members []*clustersetv1alpha1.Member) {
	v, now := &p.vantage, p.clock.Now()
	if !v.sampled.IsZero() && now.Sub(v.sampled) < sampleInterval {
		return
	}
	v.sampled = now
	if !p.hostAnswers(ctx) {
		return
	}
	choice := p.nextOwn()
	found := p.askOwn(ctx, choice, func(types.NamespacedName) bool { return true })
	isConnected := func(entry *clustersetv1alpha1.Member) bool {
		return entry.Status.State == clustersetv1alpha1.MemberConnected
	}
	if ctx.Err() != nil || found.asked == 0 || found.answered > 0 || !slices.ContainsFunc(members, isConnected) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v.samples++
	othersAnswer := now.Sub(p.othersAnswered) < 2*sampleInterval
	p.own = p.experienceLocked().after(v.samples, len(choice.exported), v.answered.Len() > 0, othersAnswer)
}

// ownServices are the Services that this cluster exports, those of them that answered, and the
// turn in which they are asked.
type ownServices struct {
	cluster  string
	exported []types.NamespacedName
	answered sets.Set[types.NamespacedName]
	turn     int
}

// nextOwn returns the Services of this cluster that can be asked in the next turn.
func (p *Prober) nextOwn() ownServices {
	self := p.self()
	exported := p.services(self)
	p.mu.Lock()
	defer p.mu.Unlock()
	v := &p.vantage
	v.turn++
	v.answered = v.answered.Intersection(sets.New(exported...))
	return ownServices{self, exported, v.answered.Clone(), v.turn}
}

// own is how many Services of this cluster were asked, and how many answered.
type own struct{ asked, answered int }

// askOwn asks endpoints of some Services of this cluster.
func (p *Prober) askOwn(ctx context.Context, services ownServices, eligible func(types.NamespacedName) bool) own {
	var found own
	answers := p.askTogether(ctx, p.chooseOwn(services, eligible))
	for _, answer := range answers {
		if answer.alive.IsValid() {
			found.answered++
		}
		if answer.alive.IsValid() || answer.silent {
			found.asked++
		}
	}
	if found.answered == 0 {
		return found
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.vantage.samples = haveAnswered, 0
	for service, answer := range answers {
		if answer.alive.IsValid() {
			p.vantage.answered.Insert(service)
		} else {
			p.vantage.answered.Delete(service)
		}
	}
	return found
}

// chooseOwn returns endpoints of some Services of this cluster that can be asked.
func (p *Prober) chooseOwn(services ownServices, eligible func(types.NamespacedName) bool) map[types.NamespacedName][][]netip.AddrPort {
	chosen := map[types.NamespacedName][][]netip.AddrPort{}
	for service := range spread(services.exported, services.turn*maxOwn) {
		if !eligible(service) {
			continue
		}
		if ports, _ := p.targets(services.cluster, service, anywhere, pace{turn: services.turn}); len(ports) > 0 {
			chosen[service] = ports
		}
		if len(chosen) == maxOwn {
			break
		}
	}
	return chosen
}

// askTogether asks endpoints of some Services at the same time.
func (p *Prober) askTogether(ctx context.Context, chosen map[types.NamespacedName][][]netip.AddrPort) map[types.NamespacedName]answer {
	var mu sync.Mutex
	answers := map[types.NamespacedName]answer{}
	var workers sync.WaitGroup
	for service, ports := range chosen {
		workers.Go(func() {
			answer := p.ownAsker.ask(ctx, ports)
			mu.Lock()
			defer mu.Unlock()
			answers[service] = answer
		})
	}
	workers.Wait()
	return answers
}

// spread returns Services, which are sorted, in an order in which namespaces alternate,
// beginning with the one that is next after some others: no namespace decides alone.
func spread(services []types.NamespacedName, from int) iter.Seq[types.NamespacedName] {
	var groups [][]types.NamespacedName
	for i, service := range services {
		if i == 0 || services[i-1].Namespace != service.Namespace {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], service)
	}
	return func(yield func(types.NamespacedName) bool) {
		seen := sets.New[types.NamespacedName]()
		for i := from; seen.Len() < len(services); i++ {
			group := groups[i%len(groups)]
			service := group[(i/len(groups))%len(group)]
			if seen.Has(service) {
				continue
			}
			seen.Insert(service)
			if !yield(service) {
				return
			}
		}
	}
}

// experience returns what is known of own endpoints, to this leader or an earlier one.
func (p *Prober) experience() experience {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.experienceLocked()
}

func (p *Prober) experienceLocked() experience {
	if p.own != unknown {
		return p.own
	}
	for _, entry := range p.others() {
		if lease := p.leaseOf(entry); lease != nil && p.own != haveAnswered {
			p.own = cmp.Or(experienceFrom(lease), p.own)
		}
	}
	return p.own
}

func experienceFrom(lease *coordinationv1.Lease) experience {
	switch recorded := experience(lease.Annotations[clusterset.OwnEndpointsAnnotation]); recorded {
	case haveAnswered, neverAnswered:
		return recorded
	}
	return unknown // there is none, or that of another version
}
