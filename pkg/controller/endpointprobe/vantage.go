// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"cmp"
	"context"
	"iter"
	"net/netip"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
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
	mu sync.Mutex
	// begun is when that was last determined, and good the result.
	begun time.Time
	good  bool
	// sampled is when own endpoints were last asked while everything was fine, and samples
	// how often none has answered since one did.
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
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.begun.Before(since) {
		begun := p.clock.Now()
		own, hostAnswers := p.askOwn(ctx, true)
		if ctx.Err() != nil {
			return false
		}
		v.begun, v.good = begun, hostAnswers && own.suffice(p.experience())
	}
	return v.good
}

// sampleOwn finds out whether own endpoints can be asked, while everything is fine.
func (p *Prober) sampleOwn(ctx context.Context) {
	v := &p.vantage
	v.mu.Lock()
	defer v.mu.Unlock()
	now := p.clock.Now()
	if !v.sampled.IsZero() && now.Sub(v.sampled) < sampleInterval {
		return
	}
	v.sampled = now
	own, hostAnswers := p.askOwn(ctx, false)
	if ctx.Err() != nil || !hostAnswers || own.asked == 0 || own.answered > 0 {
		return
	}
	v.samples++
	p.learn(p.experience().after(v.samples, own.exported, v.answered.Len() > 0, p.othersAnswer(now)))
}

// othersAnswer reports whether an endpoint of a member that responds answered lately.
func (p *Prober) othersAnswer(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.othersAnswered) < 2*sampleInterval
}

// own is how many Services this cluster exports, how many of them were asked, and how many
// answered.
type own struct{ exported, asked, answered int }

// suffice reports whether the silence of the endpoints of others means anything.
func (o own) suffice(known experience) bool {
	return o.asked == 0 || o.answered > 0 || known == neverAnswered
}

// askOwn asks the Kubernetes API and some endpoints of this cluster, in a check of Services
// that answered before, if there are any. The caller holds the lock of the vantage.
func (p *Prober) askOwn(ctx context.Context, check bool) (result own, hostAnswers bool) {
	limited, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	if p.host(limited) != nil {
		return own{}, false
	}
	v := &p.vantage
	v.turn++
	self := p.self()
	all := p.services(self)
	result.exported = len(all)
	v.answered = v.answered.Intersection(sets.New(all...))
	var chosen map[types.NamespacedName][][]netip.AddrPort
	if check {
		chosen = p.chooseOwn(self, all, v.answered.Has)
	}
	if len(chosen) == 0 {
		chosen = p.chooseOwn(self, all, func(types.NamespacedName) bool { return true })
	}
	answers := p.askTogether(ctx, chosen)
	for _, answer := range answers {
		if answer.alive.IsValid() {
			result.answered++
		}
		if answer.alive.IsValid() || answer.silent {
			result.asked++
		}
	}
	if result.answered == 0 {
		return result, true
	}
	v.samples = 0
	p.learn(haveAnswered)
	for service, answer := range answers {
		if answer.alive.IsValid() {
			v.answered.Insert(service)
		} else {
			v.answered.Delete(service)
		}
	}
	return result, true
}

// chooseOwn returns endpoints of some Services of this cluster that can be asked.
func (p *Prober) chooseOwn(self string, all []types.NamespacedName, eligible func(types.NamespacedName) bool) map[types.NamespacedName][][]netip.AddrPort {
	chosen := map[types.NamespacedName][][]netip.AddrPort{}
	for service := range spread(all, p.vantage.turn*maxOwn) {
		if !eligible(service) {
			continue
		}
		if ports, _ := p.targets(self, service, anywhere, pace{turn: p.vantage.turn}); len(ports) > 0 {
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

func (p *Prober) learn(learned experience) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = learned
}

func experienceFrom(lease *coordinationv1.Lease) experience {
	switch recorded := experience(lease.Annotations[clusterset.OwnEndpointsAnnotation]); recorded {
	case haveAnswered, neverAnswered:
		return recorded
	}
	return unknown // there is none, or that of another version
}
