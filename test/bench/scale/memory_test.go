// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

const (
	// fullSize is the number of services that the targets for memory are for: each is exported
	// by fullClusters clusters with fullEndpoints endpoints each.
	fullSize, fullClusters, fullEndpoints = 10_000, 10, 10
	maxSettled, maxPeak                   = 1024, 1536 // MiB
)

// size is what both programs need with a number of services, in MiB.
type size struct {
	services             int
	settled, peak, inUse float64
	detail               string
}

// isFull reports whether the targets for memory are for a number of services in this run.
func isFull(services int) bool {
	return services >= fullSize && *clusters >= fullClusters && *endpoints >= fullEndpoints
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func (r *run) processes() []int {
	return []int{r.home.APIServers[0].PID(), r.home.Controller.PID()}
}

func (r *run) resetPeaks() {
	for _, pid := range r.processes() {
		expect.NoError(r.T, process.ResetPeak(pid))
	}
}

// memory returns the memory of both programs together. The sum of the peaks is an upper limit of
// that of both together.
func (r *run) memory() (both process.Memory, detail string) {
	var parts []string
	for _, pid := range r.processes() {
		memory := expect.Must(process.MemoryOf(pid))(r.T)
		both.Now, both.Peak = both.Now+memory.Now, both.Peak+memory.Peak
		parts = append(parts, fmt.Sprintf("%.0f", mebibytes(memory.Now)))
	}
	return both, "mcs-apiserver and mcs-controller " + strings.Join(parts, " + ") + " MiB"
}

// measureMemory notes the memory with a number of services, when it has settled.
func (r *run) measureMemory(count int) {
	r.pause(*settling)
	both, detail := r.memory()
	measured := size{services: count, settled: mebibytes(both.Now), peak: mebibytes(both.Peak), inUse: r.heapInUse(), detail: detail}
	r.progress("%d services: %.0f MiB resident, of which %.0f MiB are heap in use, %.0f MiB at the peak; %s", count, measured.settled, measured.inUse, measured.peak, detail)
	r.sizes = append(r.sizes, measured)
}

// heapInUse returns how much heap both programs use, which is not a number if they do not say so.
func (r *run) heapInUse() float64 {
	config := rest.AnonymousClientConfig(expect.Must(r.home.APIServers[0].Config())(r.T))
	config.BearerToken = r.scraper
	client := expect.Must(rest.HTTPClientFor(config))(r.T)
	total := 0.0
	for _, url := range []string{config.Host + "/metrics", r.home.MetricsURL()} {
		value, err := metric(client, url, "go_memstats_heap_inuse_bytes")
		if err != nil {
			r.progress("%v", err)
			return math.NaN()
		}
		total += value / (1 << 20)
	}
	return total
}

func metric(client *http.Client, url, name string) (float64, error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s: %s", url, name, response.Status)
}

// memoryFigure is a figure of sizes, and its target at the full size in MiB.
type memoryFigure struct {
	name   string
	of     func(size) float64
	target float64
}

var memoryFigures = []memoryFigure{
	{"resident memory, settled", func(s size) float64 { return s.settled }, maxSettled},
	{"resident memory, peak", func(s size) float64 { return s.peak }, maxPeak},
	{"heap in use", func(s size) float64 { return s.inUse }, 0},
}

// reportMemory reports the memory at the largest size, and what another service costs.
func (r *run) reportMemory() {
	first, last := r.sizes[len(r.sizes)-2], r.sizes[len(r.sizes)-1]
	var lines []report.Line
	for _, figure := range memoryFigures {
		if math.IsNaN(figure.of(first)) || math.IsNaN(figure.of(last)) {
			continue
		}
		r.figure(figure.between(first, last)...)
		line := report.Line{Name: figure.name}
		for _, measured := range r.sizes {
			if value := figure.of(measured); !math.IsNaN(value) {
				line.Points = append(line.Points, report.Point{X: float64(measured.services), Y: value})
			}
		}
		lines = append(lines, line)
	}
	r.plot("memory", report.Plot{Title: "Memory of mcs-apiserver and mcs-controller", X: "services", Y: "MiB", Lines: lines})
}

// between returns the figures of the larger one of two sizes. If it is smaller than that of the
// targets, they say what follows for that size, which is not measured.
func (f memoryFigure) between(first, last size) []report.Figure {
	slope := (f.of(last) - f.of(first)) / float64(last.services-first.services)
	total := report.Figure{
		Name: fmt.Sprintf("%s, %d services × %d clusters × %d endpoints", f.name, last.services, *clusters, *endpoints),
		Unit: report.MiB, Value: f.of(last), Detail: "resident in " + last.detail,
	}
	each := report.Figure{
		Name: f.name + ", per service", Unit: report.KiB, Value: slope * (1 << 10),
		Detail: fmt.Sprintf("between %d and %d services; %.2f KiB per endpoint", first.services, last.services, slope*(1<<10)/float64(*clusters**endpoints)),
	}
	if isFull(last.services) {
		total.Target = f.target
		return []report.Figure{total, each}
	}
	extrapolated := report.Figure{
		Name: fmt.Sprintf("%s, EXTRAPOLATED to %d services, not measured", f.name, fullSize),
		Unit: report.MiB, Value: f.of(last) + slope*float64(fullSize-last.services), Detail: "no target: that is for what is measured at that size",
	}
	if f.target > 0 {
		extrapolated.Detail = fmt.Sprintf("the target is %.0f MiB, and decided with -services %d", f.target, fullSize)
	}
	return []report.Figure{total, each, extrapolated}
}
