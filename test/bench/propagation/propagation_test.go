// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/profile"
	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

var (
	sizes    = flag.String("services", "10,1000,10000", "How many services are exported all the time, in ascending order.")
	rates    = flag.String("rates", "1,50,500", "How many changes are made per second.")
	lasts    = flag.Duration("lasts", 25*time.Second, "How long each run lasts.")
	profiles = flag.String("profiles", "", "A directory for CPU profiles of all runs.")
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{Names: []string{"east", "west"}, ClusterSet: "bench", Configure: func(_ string, plane *controlplane.Config, _ *installation.Config) {
		plane.Realistic = true
	}})
}

// bench is the clusters, what is observed, and what was measured.
type bench struct {
	east, west *fleet.Cluster
	arrivals   *arrivals
	observers  observers
	changes    atomic.Int64
	steady     int
	runs       int
	figures    []report.Figure
}

// R650: a change reaches another cluster within a small multiple of the time that one hop
// through a kube-apiserver takes, whatever else is exported. R651: it costs one write there.
func TestPropagation(t *testing.T) {
	b := &bench{east: clusters.Cluster("east"), west: clusters.Cluster("west"), arrivals: newArrivals()}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	expect.NoError(t, populate(ctx, clusters.Clusters))
	b.observers = observeAll(ctx, &running, b.east, b.west, b.arrivals)
	for _, size := range numbers(t, *sizes) {
		b.grow(t, size)
		for _, rate := range numbers(t, *rates) {
			if tooMany(rate, size) {
				continue
			}
			b.run(t, rate)
		}
		if size >= counted {
			b.countWrites(t)
		}
	}
	fmt.Print("\n", report.Table(b.figures), "\n")
	if missed := report.Missed(b.figures); len(missed) > 0 {
		t.Errorf("%d figures do not reach their targets: %s", len(missed), strings.Join(missed, "; "))
	}
}

func numbers(t *testing.T, list string) []int {
	t.Helper()
	var result []int
	for text := range strings.SplitSeq(list, ",") {
		result = append(result, expect.Must(strconv.Atoi(text))(t))
	}
	return result
}

// endpointsOnly reports whether nothing but endpoints changes at a rate: nobody exports hundreds of
// services a second all the time.
func endpointsOnly(rate int) bool { return rate > 100 }

// tooMany reports whether the endpoints of a service would change more often than about once a
// second at a rate, which is paced.
func tooMany(rate, services int) bool {
	if !endpointsOnly(rate) {
		rate /= mixed
	}
	return rate > services/2
}

func (b *bench) next() int { return int(b.changes.Add(1)) }

// grow exports services until there are as many as wanted, and waits until all are imported.
func (b *bench) grow(t *testing.T, size int) {
	t.Helper()
	begun := time.Now()
	expect.NoError(t, forEach(t.Context(), b.steady, size, func(ctx context.Context, number int) error {
		s := steady(number)
		if err := s.create(ctx, b.east, address(b.next())); err != nil {
			return err
		}
		_, err := b.east.Clientset.MulticlusterXV1beta1().ServiceExports(s.namespace).Create(ctx, s.export(), metav1.CreateOptions{})
		return err
	}))
	b.steady = size
	created := time.Since(begun)
	b.settle(t)
	progress("%d services: created in %.1f s, imported %.1f s later", size, created.Seconds(), (time.Since(begun) - created).Seconds())
}

// settle waits until exactly the steady services are imported, and nothing is written any more.
func (b *bench) settle(t *testing.T) {
	t.Helper()
	var before map[string]float64
	expect.Within(t, 10*time.Minute, "all imports", func(ctx context.Context) error {
		if imports, slices := b.observers.imports.len(), b.observers.slices.len(); imports != b.steady || slices != b.steady {
			return fmt.Errorf("%d imports and %d EndpointSlices of %d", imports, slices, b.steady)
		}
		after, err := writes(ctx, b.west)
		if err != nil {
			return err
		}
		figure := perChange("", 1, 0, before, after)
		before = after
		if figure.Value > 0 {
			return fmt.Errorf("still writing: %s", figure.Detail)
		}
		return nil
	})
}

// run makes changes at a rate, and adds the figures.
func (b *bench) run(t *testing.T, rate int) {
	t.Helper()
	b.runs++
	load := &load{
		exporting: b.east, importing: b.west, arrivals: b.arrivals, next: b.next,
		steady: b.steady, run: b.runs, rate: rate, lasts: *lasts, endpointsOnly: endpointsOnly(rate),
	}
	expect.NoError(t, load.prepare(t.Context()))
	stop := profile.Start(t, *profiles, fmt.Sprintf("%d-services-%d-changes", b.steady, rate), *lasts, clusters.Clusters...)
	expect.NoError(t, load.play(t.Context()))
	expect.Within(t, time.Minute, "all changes", func(context.Context) error { return b.arrivals.missing() })
	stop()
	samples := b.arrivals.measured()
	added := figures(load.String(), targets(rate, b.steady), samples)
	if load.endpointsOnly {
		added = append(added, backlog(load.String(), samples[endpoint]))
	}
	for _, figure := range added {
		progress("%s: %.2f (%s)", figure.Name, figure.Value, figure.Detail)
	}
	b.figures = append(b.figures, added...)
	b.save(t, fmt.Sprintf("propagation-%d-services-%d-changes.svg", b.steady, rate), plot(load.String(), samples))
	b.withdraw(t, load)
}

// withdraw withdraws what a run has exported and not withdrawn.
func (b *bench) withdraw(t *testing.T, load *load) {
	t.Helper()
	withdrawn := max(load.exports()-load.lag(), 0)
	expect.NoError(t, forEach(t.Context(), withdrawn, load.exports(), func(ctx context.Context, number int) error {
		return load.withdraw(ctx, passing(load.run, number))
	}))
	b.settle(t)
}

// counted is how many changes are made to count the writes that they cause.
const counted = 100

// countWrites counts the writes that changes cause in the importing cluster, and the requests in both.
func (b *bench) countWrites(t *testing.T) {
	t.Helper()
	b.runs++
	load := &load{
		exporting: b.east, importing: b.west, arrivals: b.arrivals, next: b.next,
		steady: b.steady, run: b.runs, rate: counted, lasts: time.Second, endpointsOnly: true,
	}
	before := expect.Must(writes(t.Context(), b.west))(t)
	load.each(t.Context(), time.Now(), counted, counted, load.change)
	expect.NoError(t, load.err)
	expect.Within(t, time.Minute, "all changes", func(context.Context) error { return b.arrivals.missing() })
	b.settle(t)
	after := expect.Must(writes(t.Context(), b.west))(t)
	b.figures = append(b.figures, perChange(fmt.Sprintf("%d services: writes per changed endpoint", b.steady), counted, 1, before, after))

	load.endpointsOnly, load.lasts = false, mixed*time.Second
	expect.NoError(t, load.prepare(t.Context()))
	before = expect.Must(writes(t.Context(), b.west))(t)
	exported := expect.Must(requests(t.Context(), b.east, b.west))(t)
	load.each(t.Context(), time.Now(), counted, counted, func(ctx context.Context, number int) error { return load.export(ctx, passing(load.run, number)) })
	expect.NoError(t, load.err)
	expect.Within(t, time.Minute, "all changes", func(context.Context) error { return b.arrivals.missing() })
	b.steady += counted
	b.settle(t)
	b.steady -= counted
	after = expect.Must(writes(t.Context(), b.west))(t)
	b.figures = append(b.figures, perChange(fmt.Sprintf("%d services: writes per new import (Service and EndpointSlice)", b.steady), counted, 2, before, after))
	withdrawn := expect.Must(requests(t.Context(), b.east, b.west))(t)
	b.figures = append(b.figures, perChange(fmt.Sprintf("%d services: requests per export in both clusters", b.steady), counted, 0, exported, withdrawn))
	expect.NoError(t, forEach(t.Context(), 0, counted, func(ctx context.Context, number int) error { return load.withdraw(ctx, passing(load.run, number)) }))
	b.settle(t)
	ended := expect.Must(requests(t.Context(), b.east, b.west))(t)
	b.figures = append(b.figures, perChange(fmt.Sprintf("%d services: requests per withdrawal in both clusters", b.steady), counted, 0, withdrawn, ended))
}

// save writes a plot to bin/bench.
func (b *bench) save(t *testing.T, name string, plot report.Plot) {
	t.Helper()
	dir := filepath.Join(expect.Must(repository.Root())(t), "bin", "bench")
	expect.NoError(t, os.MkdirAll(dir, 0o755))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, name), plot.SVG(), 0o644))
}

var begun = time.Now()

func progress(format string, args ...any) {
	fmt.Printf("%6.1fs %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
}
