// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// pass asks Services of a cluster that is silent, those that have answered or the others, or a
// sample of one that responds.
type pass struct {
	cluster             string
	hasAnswered, sample bool
}

// beginLocked does something in a pass, unless the last one has not ended, and reports whether
// it does.
func (p *Prober) beginLocked(next pass, do func()) bool {
	if p.asking.Has(next) {
		return false
	}
	p.asking.Insert(next)
	p.running.Go(func() {
		do()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asking.Delete(next)
	})
	return true
}

// askAll asks all Services of a silent member in a pass that are due, some at a time of one
// source.
func (p *Prober) askAll(ctx context.Context, which pass, look *look, from source) {
	var workers sync.WaitGroup
	defer workers.Wait()
	services := p.services(which.cluster)
	p.forget(look, sets.New(services...))
	for _, service := range services {
		if _, due := p.due(which, look, service); !due {
			continue
		}
		free := from.take(ctx, which.hasAnswered)
		if free == nil {
			return
		}
		workers.Go(func() {
			defer free()
			if last, due := p.due(which, look, service); due { // it may have taken long to get a slot
				ports, turns := p.targets(which.cluster, service, from.cidrs, last)
				p.askService(ctx, which.cluster, look, service, ports, turns)
			}
		})
	}
}

// forget removes what was found about Services that are not exported any more.
func (p *Prober) forget(look *look, exported sets.Set[types.NamespacedName]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(look.records, func(service types.NamespacedName, _ record) bool { return !exported.Has(service) })
}

// due returns when and how a Service was last asked, and whether it is to be asked in a pass
// now. It is not if the member was seen again.
func (p *Prober) due(which pass, look *look, service types.NamespacedName) (pace, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := look.records[service]
	return last.pace, p.looks[which.cluster] == look && last.hasAnswered() == which.hasAnswered && !p.clock.Now().Before(last.due)
}

// askService asks endpoints of a Service of a silent member. It takes some turns to ask all.
func (p *Prober) askService(ctx context.Context, cluster string, look *look, service types.NamespacedName, ports [][]netip.AddrPort, turns int) {
	begun := p.clock.Now()
	answer := p.asker.ask(ctx, ports)
	found := outcome{alive: answer.alive, turns: turns}
	found.finding, found.problem = p.conclude(ctx, answer, begun)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	current := p.looks[cluster]
	if current == nil {
		return
	}
	p.measureLocked(cluster, result(found.finding, found.problem))
	before := current.finding(service)
	current.records[service] = current.records[service].after(found, current.ttl, p.clock.Now()).in(look, current)
	if current.finding(service) != before {
		p.changed(cluster, service)
	}
}

// conclude returns what an answer to what was asked since a time means.
func (p *Prober) conclude(ctx context.Context, answer answer, begun time.Time) (liveness.Finding, liveness.Problem) {
	switch {
	case answer.alive.IsValid():
		return liveness.Answers, ""
	case answer.silent && p.hasVantagePoint(ctx, begun):
		return liveness.Silent, ""
	case answer.silent:
		return liveness.Pending, liveness.NoVantagePoint
	case answer.void:
		return liveness.Unaskable, liveness.EverythingAnswers
	}
	return liveness.Unaskable, ""
}

// sample asks a Service of a member that responds, to find out whether connections say
// anything, and where endpoints answer: another one every time, and others if connections say
// nothing about it.
func (p *Prober) sample(ctx context.Context, cluster string, look *look, from source) {
	free := from.takeForSample(ctx)
	if free == nil {
		return
	}
	defer free()
	if from = p.stillSampled(cluster, look); len(from.cidrs) == 0 {
		return // it may have taken long to get a slot
	}
	services := p.services(cluster)
	p.forget(look, sets.New(services...))
	var found answer
	passed, asked, saysNothing := 0, 0, true
	for ; passed < len(services) && asked < maxTargets && saysNothing; passed++ {
		service := services[(look.turn+passed)%len(services)]
		last, _ := p.due(pass{cluster: cluster}, look, service)
		ports, _ := p.targets(cluster, service, from.cidrs, last)
		if len(ports) == 0 {
			continue
		}
		found = p.asker.ask(ctx, ports)
		p.remember(cluster, look, service, found)
		asked, saysNothing = asked+1, !found.alive.IsValid() && !found.silent
	}
	if asked == 0 || ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	look.turn += passed
	look.samples++
	if look.voids += passed; !saysNothing {
		look.voids = 0
	}
	look.void = look.voids >= min(len(services), minSamples*maxTargets)
	if found.alive.IsValid() {
		look.answered, look.samples, p.othersAnswered = true, 0, p.clock.Now()
	}
}

// stillSampled returns the source of a cluster as it is now, none if the look is not the present
// one at the cluster any more.
func (p *Prober) stillSampled(cluster string, look *look) source {
	entry, err := p.members.Get(cluster)
	if err != nil {
		return source{}
	}
	from := p.sourceOf(entry)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looks[cluster] != look || look.silent {
		return source{}
	}
	return from
}

// remember records where an endpoint of a Service answered. The member may be silent by now.
func (p *Prober) remember(cluster string, look *look, service types.NamespacedName, found answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current := p.looks[cluster]
	if current == nil || current.uid != look.uid {
		return
	}
	next := current.records[service]
	next.turn++
	if found.alive.IsValid() {
		next.answered, next.answeredAt, next.failures = found.alive, p.clock.Now(), 0
	}
	current.records[service] = next
}
