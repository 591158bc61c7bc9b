// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
)

const (
	// pause is the time between two updates, in which changes are collected.
	pause = 100 * time.Millisecond
	// pingInterval is the time between two requests that measure how long clusters take to answer.
	pingInterval = 10 * time.Second
)

// board turns what changes in clusters into entries of a store.
type board struct {
	// views are those of all contexts; the list of services is that of the first.
	views []*view
	store *store

	mu sync.Mutex
	// services and members are those that changed themselves. Exporters are members whose services may
	// look different; all is true if everything may.
	services, members, exporters map[string]bool
	all                          bool

	changed chan struct{}
	// revision is that of the service that was updated last, and revisions are those of all.
	revision  int64
	revisions map[string]int64
}

var _ observer = &board{}

// newBoard returns a board of clusters that are not watched yet.
func newBoard(clusters []*cluster.Cluster, namespace string) *board {
	b := &board{store: newStore(), changed: make(chan struct{}, 1), revisions: map[string]int64{}}
	b.services, b.members, b.exporters = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range clusters {
		b.views = append(b.views, newView(c, namespace, b))
	}
	return b
}

// watching returns a cluster whose requests have no timeout: watches would end with it.
func watching(c *cluster.Cluster) (*cluster.Cluster, error) {
	config := rest.CopyConfig(c.Config)
	config.Timeout = 0
	client, err := versioned.NewForConfig(config)
	return &cluster.Cluster{Context: c.Context, Config: c.Config, Kubernetes: c.Kubernetes, MCS: client}, err
}

func (b *board) serviceChanged(key string) { b.mark(func() { b.services[key] = true }) }
func (b *board) memberChanged(name string) { b.mark(func() { b.members[name] = true }) }
func (b *board) stateChanged(name string)  { b.mark(func() { b.exporters[name] = true }) }
func (b *board) everythingChanged()        { b.mark(func() { b.all = true }) }
func (b *board) viewChanged()              { b.wake() }

func (b *board) mark(change func()) {
	b.mu.Lock()
	change()
	b.mu.Unlock()
	b.wake()
}

func (b *board) wake() {
	select {
	case b.changed <- struct{}{}:
	default: // an update is due already
	}
}

// run watches the clusters and updates the store until the context ends.
func (b *board) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, v := range b.views {
		for _, r := range v.resources() {
			group.Go(func() { r.informer.RunWithContext(ctx) })
			group.Go(func() { // a resource without objects has no events
				for !r.synced() && sleep(ctx, pause) {
				}
				b.everythingChanged()
			})
		}
		group.Go(func() { b.measure(ctx, v) })
	}
	b.update()
	for sleep(ctx, pause) {
		select {
		case <-ctx.Done():
		case <-b.changed:
			b.update()
		}
	}
}

// measure measures how long a cluster takes to answer, while a page is open.
func (b *board) measure(ctx context.Context, v *view) {
	for {
		if b.store.open() > 0 {
			v.measure(ctx)
			b.wake()
		}
		if !sleep(ctx, pingInterval) {
			return
		}
	}
}

// sleep reports whether the context has not ended.
func sleep(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// update writes everything that changed.
func (b *board) update() {
	changed := b.take()
	entries := make([][]clustersetv1alpha1.Member, len(b.views))
	for i, v := range b.views {
		entries[i] = v.entries()
		status := v.status(entries[i])
		status.Primary = i == 0
		b.store.set(viewEntry, v.Context, status)
	}
	for name := range changed.members {
		b.updateCluster(name, entries)
	}
	for key, itself := range changed.services {
		b.updateService(key, itself, entries)
	}
}

// changes are members, and services with whether they changed themselves, or only what they depend on.
type changes struct{ members, services map[string]bool }

// take returns what changed since it was last called.
func (b *board) take() changes {
	b.mu.Lock()
	taken := changes{members: b.members, services: b.services}
	exporters, all := b.exporters, b.all
	b.services, b.members, b.exporters, b.all = map[string]bool{}, map[string]bool{}, map[string]bool{}, false
	b.mu.Unlock()
	depends := func(key string) {
		if !taken.services[key] {
			taken.services[key] = false
		}
	}
	if all {
		for _, key := range b.store.keys(serviceEntry) {
			depends(key)
		}
		for _, name := range b.store.keys(clusterEntry) { // links have the name of the cluster that reads
			taken.members[name] = true
		}
		return taken
	}
	for name := range exporters { // of others than the first view, the list has no states
		for _, exported := range indexed[clustersetv1alpha1.ExportedService](b.views[0].exports, byCluster, name) {
			depends(exported.Namespace + "/" + exported.Spec.Service)
		}
	}
	return taken
}

func (b *board) updateCluster(name string, entries [][]clustersetv1alpha1.Member) {
	var opinions []opinion
	for i, v := range b.views {
		for j := range entries[i] {
			if member := &entries[i][j]; member.Name == name {
				opinions = append(opinions, opinion{context: v.Context, viewer: v.nameOf(entries[i]), member: member})
			}
		}
	}
	if len(opinions) == 0 {
		b.store.delete(clusterEntry, name)
		return
	}
	b.store.set(clusterEntry, name, newClusterNode(name, opinions))
}

// updateService writes the row of a service. Its revision grows only if it changed itself, or its row did:
// everything that is written is sent to all pages.
func (b *board) updateService(key string, itself bool, entries [][]clustersetv1alpha1.Member) {
	views := b.facts(key, entries)
	if !exists(views) {
		delete(b.revisions, key)
		b.store.delete(serviceEntry, key)
		return
	}
	row := newServiceRow(views, b.revisions[key])
	if !itself && b.store.has(serviceEntry, key, row) {
		return
	}
	b.revision++
	b.revisions[key], row.Revision = b.revision, b.revision
	b.store.set(serviceEntry, key, row)
}

func (b *board) facts(key string, entries [][]clustersetv1alpha1.Member) []serviceFacts {
	var views []serviceFacts
	for i, v := range b.views {
		views = append(views, v.facts(key, entries[i]))
	}
	return views
}

var errUnknownService = errors.New("no cluster exports this service")

// details returns everything about a service.
func (b *board) details(ctx context.Context, key string) (serviceDetails, error) {
	var entries [][]clustersetv1alpha1.Member
	for _, v := range b.views {
		entries = append(entries, v.entries())
	}
	views := b.facts(key, entries)
	if !exists(views) {
		return serviceDetails{}, errUnknownService
	}
	b.views[0].readNamespace(ctx, &views[0])
	return newServiceDetails(views), nil
}
