// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// R643: 5,000 ServiceImports are listed at least three times as fast as the same objects as custom
// resources of the same kube-apiserver, and through the aggregator not slower. 1,000 watches
// of 100 changes a second cost at most half as much processor time, and none ends.
func TestCostOfReads(t *testing.T) {
	b := newBench(t)
	figures := append(b.measureLists(t), b.measureWatches(t)...)
	t.Logf("\n%s", report.Table(figures))
	if missed := report.Missed(figures); len(missed) > 0 {
		t.Errorf("targets were missed: %s", strings.Join(missed, ", "))
	}
}

const (
	// warmups and rounds are how often each list is requested.
	warmups, rounds = 3, 25
)

// source is one way to read the objects.
type source struct {
	name   string
	client *http.Client
	url    string
	// processes serve it.
	processes []int

	size    int64
	samples []report.Sample
	used    time.Duration
}

// sources returns the ways to read: custom resources, directly, and through the aggregator.
func (b *bench) sources(t *testing.T) (copies, direct, through *source) {
	t.Helper()
	kube, mcs := b.installed.Plane.PID(controlplane.APIServer), b.installed.APIServers[0].PID()
	source := func(name string, config *rest.Config, path string, processes ...int) *source {
		return &source{name: name, client: httpClient(t, config), url: config.Host + path, processes: processes}
	}
	return source("custom resources", b.through, path(copied), kube), source("direct", b.direct, path(computed), mcs),
		source("through the aggregator", b.through, path(computed), kube, mcs)
}

// measureLists lists all objects in each way in turns.
func (b *bench) measureLists(t *testing.T) []report.Figure {
	t.Helper()
	var figures []report.Figure
	for _, encoding := range []string{"identity", "gzip"} {
		copies, direct, through := b.sources(t)
		began := time.Now()
		for round := range warmups + rounds {
			for _, source := range []*source{copies, direct, through} {
				source.list(t, encoding, began, round >= warmups)
			}
		}
		fast := report.Compare("list of custom resources, as a multiple of direct, "+encoding, 0.5, copies.samples, direct.samples)
		fast.Target, fast.AtLeast = 3, true
		fast.Detail += fmt.Sprintf(", %d KiB and %d KiB", copies.size>>10, direct.size>>10)
		aggregated := report.Compare("list through the aggregator, as a multiple of custom resources, "+encoding, 0.5, through.samples, copies.samples)
		aggregated.Target = 1
		figures = append(figures, fast, aggregated, cost("processor time of a list, direct, "+encoding, direct, copies, rounds),
			cost("processor time of a list, through the aggregator, "+encoding, through, copies, rounds))
	}
	return figures
}

// cost compares the processor time of two sources.
func cost(name string, of, floor *source, count int) report.Figure {
	value := of.used.Seconds() / floor.used.Seconds()
	each := func(used time.Duration) time.Duration {
		return (used / time.Duration(count)).Round(100 * time.Microsecond)
	}
	return report.Figure{
		Name: name, Value: value, Low: value, High: value, Unit: report.Ratio,
		Detail: fmt.Sprintf("%s, custom resources %s", each(of.used), each(floor.used)),
	}
}

// compressedFrom is the size from which responses are compressed.
const compressedFrom = 128 << 10

// list lists all objects, and reads the response without decompressing it.
func (s *source) list(t *testing.T, encoding string, began time.Time, measured bool) {
	t.Helper()
	request := expect.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil))(t)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Accept-Encoding", encoding)
	used, started := processorTime(t, s.processes), time.Now()
	response, err := s.client.Do(request)
	expect.NoError(t, err)
	defer response.Body.Close()
	size := expect.Must(io.Copy(io.Discard, response.Body))(t)
	took := time.Since(started)
	compressed := response.Header.Get("Content-Encoding") == "gzip"
	if response.StatusCode != http.StatusOK || !compressed && encoding == "gzip" && size > compressedFrom {
		t.Fatalf("%s: %s, %d bytes, compressed: %t", s.name, response.Status, size, compressed)
	}
	s.size = size
	if measured {
		s.samples = append(s.samples, report.Sample{At: started.Sub(began), Took: took})
		s.used += processorTime(t, s.processes) - used
	}
}

// processorTime returns how much processor time processes have used so far.
func processorTime(t *testing.T, processes []int) time.Duration {
	t.Helper()
	var total time.Duration
	for _, pid := range processes {
		total += expect.Must(process.CPU(pid))(t)
	}
	return total
}
