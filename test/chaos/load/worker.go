// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// state is what a worker believes about its service.
type state struct {
	spec     *history.Spec
	exported bool
}

// worker changes one service of a cluster.
type worker struct {
	*Load
	cluster string
	number  int
	of      history.Service
	random  *rand.Rand
	state   state
}

// specs are those that Services may have. All of them have one port in common, so that every
// cluster serves a port of the import.
func specs() []history.Spec {
	http := history.Port{Name: "http", Protocol: "TCP", Port: 80}
	return []history.Spec{
		{Ports: []history.Port{http}},
		{SessionAffinity: "ClientIP", Ports: []history.Port{http, {Name: "alt", Protocol: "TCP", Port: 81}}},
		{Ports: []history.Port{http, {Name: "alt", Protocol: "TCP", Port: 82}, {Name: "other", Protocol: "TCP", Port: 81}}},
		{Headless: true, Ports: []history.Port{http}},
	}
}

// create creates the service, and exports it if it does not change.
func (w *worker) create(ctx context.Context) error {
	steps := []history.Change{
		{Operation: history.CreateService, Spec: &specs()[0]},
		{Operation: history.SetEndpoints, Endpoints: w.addresses(func(int) bool { return true })},
	}
	if w.of.Namespace == Steady && (w.of.Name != "one" || w.number == 0) {
		steps = append(steps, history.Change{Operation: history.Export})
	}
	for _, step := range steps {
		step.Service = w.of
		if err := w.must(ctx, w.cluster, step); err != nil {
			return err
		}
		w.believe(step)
	}
	return nil
}

// addresses returns those of the cluster's addresses that are chosen.
func (w *worker) addresses(chosen func(number int) bool) []string {
	all := []string{}
	for number := range Addresses {
		if chosen(number) {
			all = append(all, Address(w.number, number))
		}
	}
	return sorted(all)
}

// run changes the service until the context is done.
func (w *worker) run(ctx context.Context) {
	for sleep(ctx, minPause+time.Duration(w.random.Int64N(int64(maxPause-minPause)))) {
		if w.of.Namespace != Doomed {
			w.step(ctx)
			continue
		}
		w.doomed[w.cluster].RLock()
		w.step(ctx)
		w.doomed[w.cluster].RUnlock()
	}
}

// step makes the next change. It may fail.
func (w *worker) step(ctx context.Context) {
	change := w.next()
	if w.change(ctx, w.cluster, change) == nil {
		w.believe(change)
		return
	}
	// What exists is not known. A change to what is there already fails, and one to what is
	// not there too, so that all changes are tried after a while.
	if w.random.IntN(2) == 0 {
		w.believe(change)
	}
}

// next chooses a change that makes sense.
func (w *worker) next() history.Change {
	change := history.Change{Service: w.of}
	switch kind := w.random.IntN(12); {
	case w.state.spec == nil:
		choice := specs()
		if shared(w.of) {
			choice = choice[:3]
		}
		change.Operation, change.Spec = history.CreateService, &choice[w.random.IntN(len(choice))]
	case kind == 0:
		change.Operation = history.DeleteService
	case !w.state.exported && kind < 8:
		change.Operation = history.Export
	case kind == 1:
		change.Operation = history.Unexport
	default:
		change.Operation = history.SetEndpoints
		change.Endpoints = w.addresses(func(int) bool { return w.random.IntN(100) < 60 })
	}
	return change
}

// believe applies a change to what the worker believes.
func (w *worker) believe(change history.Change) {
	switch change.Operation {
	case history.CreateService:
		w.state.spec = change.Spec
	case history.DeleteService:
		w.state.spec = nil
	case history.Export:
		w.state.exported = true
	case history.Unexport:
		w.state.exported = false
	}
}
