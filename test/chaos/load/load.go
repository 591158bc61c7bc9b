// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load changes what clusters export, in an order that follows from a seed, and records
// every change and its outcome.
package load

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// Namespaces of the load.
const (
	// Steady has services that do not change.
	Steady = "chaos-steady"
	// Busy has services that change.
	Busy = "chaos-busy"
	// Doomed has services that change, and is deleted and created again.
	Doomed = "chaos-doomed"
)

// Addresses is how many endpoints a service can have in a cluster.
const Addresses = 6

// pause is how long a service is left alone between two changes: 10 changes a second on
// average, of 21 services in three clusters.
const (
	minPause = 600 * time.Millisecond
	maxPause = 3500 * time.Millisecond
)

// Namespaces returns the namespaces of the load.
func Namespaces() []string { return []string{Busy, Doomed, Steady} }

// Services returns all services of the load.
func Services() []history.Service {
	var all []history.Service
	for _, name := range []string{"all", "one", "shared"} {
		all = append(all, history.Service{Namespace: Steady, Name: name})
	}
	for i := range 5 {
		all = append(all, history.Service{Namespace: Busy, Name: fmt.Sprintf("web-%d", i)})
	}
	for i := range 2 {
		all = append(all, history.Service{Namespace: Doomed, Name: fmt.Sprintf("api-%d", i)})
	}
	return all
}

// shared reports whether a service has a shared ClusterSet IP.
func shared(of history.Service) bool { return of.Name == "shared" || of.Name == "web-4" }

// Address returns the address of an endpoint of a cluster, in a part of the Pod network that
// no Pod has.
func Address(cluster, number int) string { return fmt.Sprintf("10.%d.62.%d", 100+cluster, number+1) }

// API makes changes in one cluster.
type API interface {
	// Make makes a change, and returns when a ServiceExport was created.
	Make(ctx context.Context, change history.Change) (created time.Time, err error)
	// Happened reports whether a change without an answer has happened.
	Happened(ctx context.Context, change history.Change) (bool, error)
}

// Load changes services of clusters.
type Load struct {
	Seed     uint64
	Clusters []string
	APIs     map[string]API
	Record   func(history.Entry)
	// Unknown reports whether an error leaves open whether a change happened.
	Unknown func(error) bool

	ids atomic.Int64
	// doomed is held by changes in the namespace that is deleted, and exclusively while it is.
	doomed  map[string]*sync.RWMutex
	workers map[string][]*worker
}

// New returns a load.
func New(l *Load) *Load {
	l.doomed, l.workers = map[string]*sync.RWMutex{}, map[string][]*worker{}
	for number, cluster := range l.Clusters {
		l.doomed[cluster] = &sync.RWMutex{}
		for _, of := range Services() {
			hash := fnv.New64a()
			fmt.Fprintf(hash, "%s %s", cluster, of)
			l.workers[cluster] = append(l.workers[cluster], &worker{
				Load: l, cluster: cluster, number: number, of: of,
				random: rand.New(rand.NewPCG(l.Seed, hash.Sum64())), //nolint:gosec // not a secret
			})
		}
	}
	return l
}

// Create creates all namespaces and services. Those that do not change are exported.
func (l *Load) Create(ctx context.Context) error {
	return l.each(func(cluster string, workers []*worker) error {
		for _, namespace := range Namespaces() {
			if err := l.must(ctx, cluster, history.Change{Operation: history.CreateNamespace, Service: history.Service{Namespace: namespace}}); err != nil {
				return err
			}
		}
		for _, w := range workers {
			if err := w.create(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Run changes services until the context is done, and returns when all outcomes are known that
// can be known.
func (l *Load) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, workers := range l.workers {
		for _, w := range workers {
			if w.of.Namespace != Steady {
				running.Go(func() { w.run(ctx) })
			}
		}
	}
	running.Wait()
}

// each runs a function for all clusters at the same time.
func (l *Load) each(do func(cluster string, workers []*worker) error) error {
	errs := make([]error, len(l.Clusters))
	var running sync.WaitGroup
	for i, cluster := range l.Clusters {
		running.Go(func() { errs[i] = do(cluster, l.workers[cluster]) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// NewNamespace deletes a namespace of a cluster and creates it again. Changes in it wait.
func (l *Load) NewNamespace(ctx context.Context, cluster string) error {
	l.doomed[cluster].Lock()
	defer l.doomed[cluster].Unlock()
	for _, operation := range []string{history.DeleteNamespace, history.CreateNamespace} {
		if err := l.must(ctx, cluster, history.Change{Operation: operation, Service: history.Service{Namespace: Doomed}}); err != nil {
			return err
		}
	}
	for _, w := range l.workers[cluster] {
		if w.of.Namespace == Doomed {
			w.state = state{}
		}
	}
	return nil
}

// must repeats a change until it succeeds, for some minutes at most.
func (l *Load) must(ctx context.Context, cluster string, change history.Change) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	for {
		err := l.change(ctx, cluster, change)
		if err == nil {
			return nil
		}
		if !sleep(ctx, time.Second) {
			return fmt.Errorf("%s %s in %s: %w", change.Operation, change.Service, cluster, err)
		}
	}
}

func sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}

// requestTimeout is how long a request may take, and lookTimeout how long the test tries to find
// out what became of one.
const (
	requestTimeout = 10 * time.Second
	lookTimeout    = 3 * time.Minute
)

// change makes a change and records it. The error is nil if the change has happened.
func (l *Load) change(ctx context.Context, cluster string, change history.Change) error {
	ctx = context.WithoutCancel(ctx)
	change.ID, change.Cluster = int(l.ids.Add(1)), cluster
	l.Record(history.Entry{Invoke: &change})
	complete := func(outcome string, created time.Time, err error) {
		completion := history.Completion{ID: change.ID, Outcome: outcome, Created: created}
		if err != nil {
			completion.Error = err.Error()
		}
		l.Record(history.Entry{Complete: &completion})
	}
	timeout := requestTimeout
	if change.Operation == history.DeleteNamespace {
		timeout = 2 * time.Minute // it waits until the namespace is gone
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	created, err := l.APIs[cluster].Make(limited, change)
	cancel()
	switch {
	case err == nil:
		complete(history.OK, created, nil)
		return nil
	case !l.Unknown(err):
		complete(history.Fail, time.Time{}, err)
		return err
	}
	complete(history.Unknown, time.Time{}, err)
	for begun := time.Now(); time.Since(begun) < lookTimeout; sleep(ctx, time.Second) {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		happened, lookErr := l.APIs[cluster].Happened(limited, change)
		cancel()
		switch {
		case lookErr != nil:
		case happened:
			complete(history.OK, time.Time{}, nil)
			return nil
		default:
			complete(history.Fail, time.Time{}, errors.New("it had not happened"))
			return err
		}
	}
	return fmt.Errorf("no answer for %s: %w", lookTimeout, err)
}

// sorted returns addresses in a fixed order.
func sorted(addresses []string) []string {
	slices.Sort(addresses)
	return addresses
}
