// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package run plays faults on three whole clusters under load, and checks what clients saw.
package run

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/check"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/load"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/nemesis"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/observe"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

var (
	seconds = flag.Int("seconds", 300, "How long faults are played.")
	seed    = flag.Uint64("seed", 0, "The seed of faults and changes; 0 for a new one.")
)

// names are the clusters; their IDs are the same.
var names = []string{"east", "north", "west"}

// promises are the times within which everything must happen.
var promises = history.Run{
	Clusters: names, TTL: time.Minute, Probing: 10 * time.Second, Looking: 30 * time.Second, Propagation: 10 * time.Second, Recovery: 45 * time.Second,
	// A request takes 10 seconds at most, and what it was sent to may be paused for 25.
	RequestTimeout: 40 * time.Second,
}

const (
	// convergence is how long all clusters may take to show what is exported in the end.
	convergence = 2 * time.Minute
	readPeriod  = 2 * time.Second
	callPeriod  = 300 * time.Millisecond
)

var set *localcluster.Set

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

func start(ctx context.Context, clusters *localcluster.Set) error {
	set = clusters
	if err := set.Up(ctx, names...); err != nil {
		return err
	}
	return set.Join(ctx, "chaos")
}

// R327: three clusters under load keep all promises, whatever fails.
func TestPromisesAreKeptWhateverFails(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1 //nolint:gosec // not a secret
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("mcs-chaos-%d-%s.jsonl", *seed, time.Now().UTC().Format("20060102-150405")))
	recorder := expect.Must(history.Create(path))(t)
	plan := nemesis.Plan(*seed, names, time.Duration(*seconds)*time.Second)
	fmt.Printf("seed %d, %d seconds; the history is %s\nplan:\n", *seed, *seconds, path)
	for _, fault := range plan {
		fmt.Println(fault)
	}
	run := promises
	run.Seed = *seed
	recorder.Record(history.Entry{Run: &run})

	w := newWorld(t, recorder)
	w.play(t, plan)
	w.awaitEnd(t)
	expect.NoError(t, recorder.Close())
	report(t, path)
}

// world is the clusters and everything that happens in them.
type world struct {
	clusters map[string]*localcluster.Cluster
	apis     map[string]*load.Cluster
	load     *load.Load
	recorder *history.Recorder
}

func newWorld(t *testing.T, recorder *history.Recorder) *world {
	t.Helper()
	w := &world{clusters: map[string]*localcluster.Cluster{}, apis: map[string]*load.Cluster{}, recorder: recorder}
	apis := map[string]load.API{}
	for _, name := range names {
		cluster := expect.Must(set.Cluster(name))(t)
		w.clusters[name] = cluster
		w.apis[name] = expect.Must(load.NewCluster(name, expect.Must(cluster.Config())(t)))(t)
		apis[name] = w.apis[name]
	}
	for _, name := range names {
		w.allowPods(t, w.clusters[name])
	}
	w.load = load.New(&load.Load{Seed: *seed, Clusters: names, APIs: apis, Record: recorder.Record, Unknown: load.Unknown})
	w.observe(t)
	expect.NoError(t, w.load.Create(t.Context()))
	return w
}

// allowPods tells a cluster which Pod networks the others have, so that it may ask endpoints
// whether they are alive.
func (w *world) allowPods(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	for name, member := range w.clusters {
		if name != cluster.Name {
			cluster.MustKubectl(t, "patch", "secret", "member-"+name, "-n", "mcs-system", "--type=merge", "-p",
				fmt.Sprintf(`{"stringData":{"allowed-cidrs":%q}}`, strings.Join(member.PodCIDRs(), ",")))
		}
	}
}

// observe starts clients and servers in all clusters until the test ends.
func (w *world) observe(t *testing.T) {
	t.Helper()
	var networks []netip.Prefix
	for number, name := range names {
		network := fmt.Sprintf("10.%d.62.0/24", 100+number)
		networks = append(networks, netip.MustParsePrefix(network))
		var addresses []string
		for i := range load.Addresses {
			addresses = append(addresses, load.Address(number, i))
		}
		expect.NoError(t, observe.Serve(t.Context(), w.clusters[name], network, addresses))
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for number, name := range names {
		for _, resource := range []string{history.Imports, history.Slices} {
			for _, client := range []string{"1", "2"} {
				watcher := w.client(t, name, resource, client)
				running.Go(func() { watcher.Watch(t.Context()) })
			}
			reader := w.client(t, name, resource, "reader")
			running.Go(func() { reader.Read(t.Context(), readPeriod) })
		}
		caller := observe.Caller{
			Cluster: w.clusters[name], Services: load.Services(), Endpoints: networks, Record: w.recorder.Record,
			Random: rand.New(rand.NewPCG(*seed, uint64(100+number))), //nolint:gosec // not a secret
		}
		running.Go(func() { caller.Run(t.Context(), callPeriod) })
	}
}

func (w *world) client(t *testing.T, cluster, resource, name string) *observe.Client {
	t.Helper()
	config := expect.Must(w.clusters[cluster].Config())(t)
	return expect.Must(observe.NewClient(cluster, resource, name, config, load.Namespaces(), w.recorder.Record))(t)
}

// play plays the plan under load.
func (w *world) play(t *testing.T, plan []nemesis.Fault) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(*seconds)*time.Second)
	defer cancel()
	var loading sync.WaitGroup
	loading.Go(func() { w.load.Run(ctx) })
	executor := nemesis.Executor{Set: set, Recorder: w.recorder, NewNamespace: w.load.NewNamespace}
	err := executor.Run(ctx, plan)
	loading.Wait()
	expect.NoError(t, err)
	fmt.Printf("all faults and changes are over after %d lines; waiting until all clusters agree\n", w.recorder.Lines())
}

// awaitEnd waits until all clusters show what is exported, and records both.
func (w *world) awaitEnd(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(convergence)
	for round := 0; ; round++ {
		entries, err := w.end(t, fmt.Sprintf("end-%d", round))
		if err == nil {
			found, checkErr := check.End(entries)
			expect.NoError(t, checkErr)
			if len(found) == 0 || time.Now().After(deadline) {
				for _, entry := range entries {
					w.recorder.Record(entry)
				}
				return
			}
			err = fmt.Errorf("%s", found[0])
		}
		if time.Now().After(deadline) {
			t.Errorf("the clusters cannot be read in the end: %v", err)
			return
		}
		time.Sleep(2 * time.Second)
	}
}

// end reads what is exported and imported.
func (w *world) end(t *testing.T, client string) ([]history.Entry, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var entries []history.Entry
	for _, name := range names {
		for _, resource := range []string{history.Imports, history.Slices} {
			config := expect.Must(w.clusters[name].Config())(t)
			reader := expect.Must(observe.NewClient(name, resource, client, config, load.Namespaces(), func(entry history.Entry) {
				entry.At = time.Now()
				entries = append(entries, entry)
			}))(t)
			if err := reader.List(ctx, false); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range names {
		final, err := w.apis[name].Final(ctx)
		if err != nil {
			return nil, err
		}
		entries = append(entries, history.Entry{At: time.Now(), Final: final})
	}
	return entries, nil
}

// report checks the history, and prints what it contains.
func report(t *testing.T, path string) {
	t.Helper()
	entries := expect.Must(history.Read(path))(t)
	found := expect.Must(check.Check(entries))(t)
	for _, violation := range found {
		t.Error(check.Describe(violation, entries))
	}
	fmt.Printf("seed %d: %d violations, %s, history %s\n", *seed, len(found), check.Summarize(entries), path)
}
