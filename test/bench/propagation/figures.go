// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
)

// target is what a run has to reach, as multiples of the floor; zero if it is measured only.
type target struct{ median, p99 float64 }

// targets returns what a run has to reach.
func targets(rate, services int) target {
	switch {
	case rate == 50 && services == 1000:
		return target{median: 2.5, p99: 4}
	case rate == 500 && services == 1000:
		return target{p99: 20}
	}
	return target{}
}

// enough is how many samples the 99th percentile needs: of fewer, it would be one of the
// slowest two.
const enough = 200

// figures returns the figures of a run.
func figures(run string, wanted target, samples map[kind][]report.Sample) []report.Figure {
	var result []report.Figure
	for _, of := range kinds {
		if of == floor || len(samples[of]) == 0 {
			continue
		}
		median := report.Compare(fmt.Sprintf("%s: %s, median", run, of), 0.5, samples[of], samples[floor])
		median.Target = wanted.median
		result = append(result, median)
		if len(samples[of]) >= enough {
			p99 := report.Compare(fmt.Sprintf("%s: %s, p99", run, of), 0.99, samples[of], samples[floor])
			p99.Target = wanted.p99
			result = append(result, p99)
		}
	}
	return result
}

// maxGrowth is how much longer changes may take in the last third of a run than in the first:
// more would be a backlog that grows.
const maxGrowth = 2

// backlog returns whether changes take longer and longer.
func backlog(run string, samples []report.Sample) report.Figure {
	slices.SortFunc(samples, func(a, b report.Sample) int { return int(a.At - b.At) })
	third := len(samples) / 3
	first, last := report.Durations(samples[:third]), report.Durations(samples[len(samples)-third:])
	before, after := report.Quantile(first, 0.5), report.Quantile(last, 0.5)
	figure := report.Figure{
		Name: run + ": last third against first, median", Unit: report.Ratio, Target: maxGrowth, Value: float64(after) / float64(before),
		Detail: fmt.Sprintf("%s after %s", after.Round(10*time.Microsecond), before.Round(10*time.Microsecond)),
	}
	figure.Low, figure.High = figure.Value, figure.Value
	return figure
}

// plot shows how the samples of a run are distributed.
func plot(run string, samples map[kind][]report.Sample) report.Plot {
	result := report.Plot{Title: "Propagation: " + run, X: "milliseconds", Y: "%", LogX: true}
	for _, of := range kinds {
		if len(samples[of]) > 0 {
			result.Lines = append(result.Lines, report.Distribution(string(of), samples[of]))
		}
	}
	return result
}
