// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	// turns is how often each kind of watch is measured, and turnTime for how long objects
	// change meanwhile.
	turns, turnTime = 3, 10 * time.Second
	// quiet is how long no event arrives before a turn ends.
	quiet = 3 * time.Second
	// openers is how many watches are opened at the same time.
	openers = 20
)

// watched is what watches of one kind cost.
type watched struct {
	config   *rest.Config
	resource schema.GroupVersionResource
	// changed is what is changed.
	changed schema.GroupVersionResource

	kube, mcs time.Duration
	events    int64
	ended     int
}

// perEvent returns the processor time per event that a watch received.
func (w *watched) perEvent(used time.Duration) float64 { return used.Seconds() / float64(w.events) }

// measureWatches measures watches of custom resources, of ServiceImports directly, and through
// the aggregator, in turns.
func (b *bench) measureWatches(t *testing.T) []report.Figure {
	t.Helper()
	copies := &watched{config: b.through, resource: copied, changed: copied}
	direct := &watched{config: b.direct, resource: computed, changed: services}
	through := &watched{config: b.through, resource: computed, changed: services}
	port := 1000
	for range turns {
		for _, kind := range []*watched{copies, direct, through} {
			b.turn(t, kind, port)
			port += 1000 // what is written again is no change
		}
	}
	// The changes themselves cost the kube-apiserver as much when nobody watches through it.
	share := max(through.kube-time.Duration(float64(direct.kube)*float64(through.events)/float64(direct.events)), 0)
	figure := func(name string, used time.Duration, of *watched, target float64) report.Figure {
		value := of.perEvent(used) / copies.perEvent(copies.kube)
		return report.Figure{
			Name: name, Value: value, Low: value, High: value, Unit: report.Ratio, Target: target,
			Detail: fmt.Sprintf("%.1f µs per event of %d, custom resources %.1f µs of %d", of.perEvent(used)*1e6, of.events, copies.perEvent(copies.kube)*1e6, copies.events),
		}
	}
	kept := func(name string, of *watched) report.Figure {
		total := float64(turns * number(t, "READS_WATCHES", 1000))
		value := 1 - float64(of.ended)/total
		return report.Figure{Name: name, Value: value, Low: value, High: value, Target: 1, AtLeast: true, Detail: fmt.Sprintf("%d of %.0f ended, custom resources %d", of.ended, total, copies.ended)}
	}
	return []report.Figure{
		figure("processor time of watches, direct", direct.mcs, direct, 0.5),
		figure("processor time of watches, through the aggregator", through.mcs+share, through, 0),
		kept("share of watches that go on, direct", direct), kept("share of watches that go on, through the aggregator", through),
	}
}

// turn opens watches, changes objects, and adds up what that costs.
func (b *bench) turn(t *testing.T, kind *watched, port int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watches := openWatches(ctx, t, kind, number(t, "READS_WATCHES", 1000))
	kube, mcs := []int{b.installed.Plane.PID(controlplane.APIServer)}, []int{b.installed.APIServers[0].PID()}
	kubeBefore, mcsBefore := processorTime(t, kube), processorTime(t, mcs)
	b.change(t, kind.changed, port)
	watches.awaitQuiet()
	kind.kube += processorTime(t, kube) - kubeBefore
	kind.mcs += processorTime(t, mcs) - mcsBefore
	kind.events += watches.total()
	kind.ended += int(watches.ended.Load())
	cancel()
	watches.reading.Wait()
}

// change changes one object after the other at a constant rate, to ports from the given one on.
func (b *bench) change(t *testing.T, resource schema.GroupVersionResource, port int) {
	t.Helper()
	rate := number(t, "READS_CHANGES", 100)
	count := rate * int(turnTime/time.Second)
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	limit := make(chan struct{}, writers)
	var writing sync.WaitGroup
	for i := range count {
		patch := ports(t, port+i/b.objects)
		<-ticker.C
		limit <- struct{}{}
		writing.Go(func() {
			defer func() { <-limit }()
			_, err := b.client.Resource(resource).Namespace(namespace).Patch(t.Context(), nameOf(i%b.objects), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
}

// watches are open watches.
type watches struct {
	received []atomic.Int64
	ended    atomic.Int32
	reading  sync.WaitGroup
}

// openWatches opens watches with a connection each.
func openWatches(ctx context.Context, t *testing.T, kind *watched, count int) *watches {
	t.Helper()
	first := httpClient(t, kind.config)
	version := currentVersion(t, first, kind)
	w := &watches{received: make([]atomic.Int64, count)}
	limit := make(chan struct{}, openers)
	var opening sync.WaitGroup
	for i := range count {
		client := httpClient(t, kind.config)
		limit <- struct{}{}
		opening.Go(func() {
			defer func() { <-limit }()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, kind.config.Host+path(kind.resource)+"?watch=true&resourceVersion="+version, nil)
			if err != nil {
				t.Error(err)
				return
			}
			response, err := client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			if response.StatusCode != http.StatusOK {
				t.Errorf("open watch: %s", response.Status)
			}
			w.reading.Go(func() { w.read(ctx, response.Body, &w.received[i]); utilnet.CloseIdleConnectionsFor(client.Transport) })
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return w
}

// read counts events until the watch ends.
func (w *watches) read(ctx context.Context, body io.ReadCloser, received *atomic.Int64) {
	defer body.Close()
	reader := bufio.NewReaderSize(body, 16<<10)
	for {
		_, err := reader.ReadSlice('\n')
		switch {
		case err == nil:
			received.Add(1)
		case errors.Is(err, bufio.ErrBufferFull): // within an event
		case ctx.Err() == nil:
			w.ended.Add(1)
			return
		default:
			return
		}
	}
}

func (w *watches) total() int64 {
	total := int64(0)
	for i := range w.received {
		total += w.received[i].Load()
	}
	return total
}

// awaitQuiet waits until no more events arrive.
func (w *watches) awaitQuiet() {
	last, since := w.total(), time.Now()
	for time.Since(since) < quiet {
		time.Sleep(quiet / 10)
		if total := w.total(); total != last {
			last, since = total, time.Now()
		}
	}
}

// currentVersion returns the version of a list of one object.
func currentVersion(t *testing.T, client *http.Client, kind *watched) string {
	t.Helper()
	request := expect.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, kind.config.Host+path(kind.resource)+"?fieldSelector=metadata.name%3D"+nameOf(0), nil))(t)
	response, err := client.Do(request)
	expect.NoError(t, err)
	defer response.Body.Close()
	content := expect.Must(io.ReadAll(response.Body))(t)
	list := metav1.PartialObjectMetadataList{}
	expect.NoError(t, json.Unmarshal(content, &list))
	if list.ResourceVersion == "" || len(list.Items) != 1 {
		t.Fatalf("unexpected list: %s", content)
	}
	return list.ResourceVersion
}
