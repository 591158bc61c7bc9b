// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale measures one importing cluster with many members, services and endpoints. The
// cluster is real; its members are played by package generator. The test runs alone: other load
// would decide its results.
package scale

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/bench/scale/generator"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

var (
	services  = flag.Int("services", 1000, "how many services are imported while memory, starts and losses are measured; the targets for memory are for 10000")
	clusters  = flag.Int("clusters", 10, "how many clusters export each of these services")
	endpoints = flag.Int("endpoints", 10, "how many endpoints each cluster has of each service")
	few       = flag.Int("few", 1000, "how many services are present in the first measurement of delays")
	present   = flag.Int("present", 50_000, "how many services are present in the second one; all beyond -services are exported by one cluster each")
	imported  = flag.Int("imported", 1000, "how many of these are in a namespace of the importing cluster; others are only known, because writing them would take too long")
	idle      = flag.String("idle", "2,10,50,200", "numbers of members with which the processor time of an idle cluster is measured")
	window    = flag.Duration("window", 15*time.Second, "how long processor time is measured")
	settling  = flag.Duration("settling", 30*time.Second, "how long memory has time to settle")
	changes   = flag.Int("changes", 40, "how many changes of each kind are measured")
	silence   = flag.Duration("silence", 30*time.Second, "for how long half of the members are lost; must be shorter than their TTL of one minute")
)

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run is one run of the benchmark.
type run struct {
	*testing.T
	begun time.Time
	home  *fleet.Cluster
	// scraper is the token with which metrics are read.
	scraper string
	// joined are the members, in the order in which they joined.
	joined  []*generator.Member
	slices  *observer
	floor   *floor
	sizes   []size
	figures []report.Figure
	changed uint32  // number of the last change
	delays  []delay // in the order of their measurement
}

func TestScale(t *testing.T) {
	r := &run{T: t, begun: time.Now()}
	t.Cleanup(r.report) // also what was measured before something failed
	r.start()
	r.measureIdle(numbers(t, *idle))
	r.keepMembers(r.exporting() + r.others())
	r.load()
	r.measureStarts()
	r.measureLoss()
	r.measurePresence()
}

func numbers(t *testing.T, list string) []int {
	t.Helper()
	var parsed []int
	for text := range strings.SplitSeq(list, ",") {
		number := expect.Must(strconv.Atoi(text))(t)
		if number < 1 || len(parsed) > 0 && number <= parsed[len(parsed)-1] {
			t.Fatalf("-idle %s: must be positive numbers in ascending order", list)
		}
		parsed = append(parsed, number)
	}
	return parsed
}

// load exports more and more services, and measures what depends on their number.
func (r *run) load() {
	r.resetPeaks()
	early := min(*few, *services)
	steps := []int{*services / 2, *services}
	if early < steps[0] {
		steps = append([]int{early}, steps...)
	}
	for _, count := range steps {
		r.exportServices(count)
		r.measureMemory(count)
		if count == early {
			r.measureDelays(fmt.Sprintf("%d services", count))
			r.measureFanOut()
			r.measureCPUPerChange()
		}
	}
	r.reportMemory()
}

// progress prints what happens.
func (r *run) progress(format string, args ...any) {
	fmt.Printf("%6.1fs %s\n", time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (r *run) figure(figures ...report.Figure) {
	for _, figure := range figures {
		if figure.Low == 0 && figure.High == 0 {
			figure.Low, figure.High = figure.Value, figure.Value
		}
		r.figures = append(r.figures, figure)
		r.progress("%s: %.2f %s (%s)", figure.Name, figure.Value, figure.Unit, figure.Detail)
	}
}

// plot writes a plot to bin/bench.
func (r *run) plot(name string, plot report.Plot) {
	root, err := repository.Root()
	if err != nil {
		r.Error(err)
		return
	}
	dir := filepath.Join(root, "bin", "bench")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.Error(err)
		return
	}
	file := filepath.Join(dir, "scale-"+name+".svg")
	if err := os.WriteFile(file, plot.SVG(), 0o644); err != nil {
		r.Error(err)
		return
	}
	r.progress("plot written to %s", file)
}

// report prints all figures, and fails the test if a target is missed.
func (r *run) report() {
	r.plotDelays()
	fmt.Printf("\n%s\n", report.Table(r.figures))
	for _, name := range report.Missed(r.figures) {
		r.Errorf("target missed: %s", name)
	}
}
