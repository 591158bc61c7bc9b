// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report says whether the figures of benchmarks reach their targets. Pure.
package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Figure is what was measured, and what it should be.
type Figure struct {
	Name string
	// Value is not a number if nothing was measured.
	Value float64
	// Low and High are the spread of the value between parts of the run; equal if it has no parts.
	Low, High float64
	// Target is the limit of the value: the largest that is accepted, or the smallest if AtLeast
	// is set. A figure without a target is shown only.
	Target  float64
	AtLeast bool
	Unit    Unit
	// Detail is what the value was computed from.
	Detail string
}

// Unit is the unit of a figure.
type Unit string

// Units of figures.
const (
	Ratio   Unit = "×"
	Seconds Unit = "s"
	MiB     Unit = "MiB"
	KiB     Unit = "KiB"
	Count   Unit = ""
	Millis  Unit = "ms"
)

func (u Unit) format(value float64) string {
	text := fmt.Sprintf("%.2f", value)
	if value >= 100 {
		text = fmt.Sprintf("%.0f", value)
	}
	return strings.TrimSpace(text + " " + string(u))
}

// Missed reports whether a figure has a target and does not reach it, or was not measured.
func (f Figure) Missed() bool {
	switch {
	case f.Target == 0:
		return false
	case math.IsNaN(f.Value):
		return true
	case f.AtLeast:
		return f.Value < f.Target
	}
	return f.Value > f.Target
}

func (f Figure) target() string {
	switch {
	case f.Target == 0:
		return "-"
	case f.AtLeast:
		return "≥ " + f.Unit.format(f.Target)
	}
	return "≤ " + f.Unit.format(f.Target)
}

func (f Figure) value() string {
	if !(f.Low < f.High) {
		return f.Unit.format(f.Value)
	}
	return fmt.Sprintf("%s (%.2f to %.2f)", f.Unit.format(f.Value), f.Low, f.High)
}

func (f Figure) result() string {
	switch {
	case f.Target == 0:
		return "-"
	case f.Missed():
		return "MISS"
	}
	return "PASS"
}

// Table returns figures as a table, which is Markdown at the same time.
func Table(figures []Figure) string {
	rows := [][]string{{"Figure", "Target", "Value (spread)", "Result", "Measured"}, nil}
	for _, figure := range figures {
		rows = append(rows, []string{figure.Name, figure.target(), figure.value(), figure.result(), figure.Detail})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for column, cell := range row {
			widths[column] = max(widths[column], len([]rune(cell)))
		}
	}
	for _, width := range widths {
		rows[1] = append(rows[1], strings.Repeat("-", width))
	}
	var table strings.Builder
	for _, row := range rows {
		for column, cell := range row {
			fmt.Fprintf(&table, "| %s%s ", cell, strings.Repeat(" ", widths[column]-len([]rune(cell))))
		}
		table.WriteString("|\n")
	}
	return table.String()
}

// Missed returns the names of the figures that do not reach their targets.
func Missed(figures []Figure) []string {
	var names []string
	for _, figure := range figures {
		if figure.Missed() {
			names = append(names, figure.Name)
		}
	}
	return names
}

// Quantile returns the smallest of the durations that at least the share q of them do not
// exceed, and 0 if there are none.
func Quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	at := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// parts is into how many parts a run is divided for the spread of a ratio.
const parts = 5

// Sample is one measurement of a run.
type Sample struct {
	// At is when it began, after the begin of the run.
	At, Took time.Duration
}

// Durations returns how long samples took.
func Durations(samples []Sample) []time.Duration {
	durations := make([]time.Duration, len(samples))
	for i, sample := range samples {
		durations[i] = sample.Took
	}
	return durations
}

// Compare returns a quantile of samples as a multiple of that of the floor, which was measured at
// the same time. The spread is that between fifths of the run.
func Compare(name string, q float64, samples, floor []Sample) Figure {
	measured, base := Quantile(Durations(samples), q), Quantile(Durations(floor), q)
	figure := Figure{Name: name, Unit: Ratio, Value: ratio(measured, base)}
	figure.Low, figure.High = figure.Value, figure.Value
	for part := range parts {
		value := ratio(Quantile(Durations(during(samples, floor, part)), q), Quantile(Durations(during(floor, floor, part)), q))
		if !math.IsNaN(value) {
			figure.Low, figure.High = min(figure.Low, value), max(figure.High, value)
		}
	}
	figure.Detail = fmt.Sprintf("%s of %d, floor %s of %d", round(measured), len(samples), round(base), len(floor))
	return figure
}

// ratio returns a/b, which is not a number if one of them was not measured.
func ratio(a, b time.Duration) float64 {
	if a == 0 || b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// during returns the samples that began in one part of a run, which lasted as long as that
// of the floor.
func during(samples, floor []Sample, part int) []Sample {
	var end time.Duration
	for _, sample := range floor {
		end = max(end, sample.At+1)
	}
	from, to := end*time.Duration(part)/parts, end*time.Duration(part+1)/parts
	return slices.DeleteFunc(slices.Clone(samples), func(sample Sample) bool { return sample.At < from || sample.At >= to })
}

func round(duration time.Duration) time.Duration { return duration.Round(10 * time.Microsecond) }
