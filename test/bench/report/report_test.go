// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFigureMissesItsTarget(t *testing.T) {
	for name, test := range map[string]struct {
		figure Figure
		missed bool
	}{
		"below the largest":  {Figure{Value: 2.4, Target: 2.5}, false},
		"the largest":        {Figure{Value: 2.5, Target: 2.5}, false},
		"above the largest":  {Figure{Value: 2.6, Target: 2.5}, true},
		"above the smallest": {Figure{Value: 3.1, Target: 3, AtLeast: true}, false},
		"below the smallest": {Figure{Value: 2.9, Target: 3, AtLeast: true}, true},
		"without a target":   {Figure{Value: 100}, false},
		"not measured":       {Figure{Value: math.NaN(), Target: 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.figure.Missed(); got != test.missed {
				t.Errorf("got %t, want %t", got, test.missed)
			}
		})
	}
}

func TestTableShowsTargetsAndMisses(t *testing.T) {
	figures := []Figure{
		{Name: "export", Value: 2, Low: 1.5, High: 2.5, Target: 2.5, Unit: Ratio, Detail: "8ms of 10"},
		{Name: "memory", Value: 1200, Low: 1200, High: 1200, Target: 1024, Unit: MiB},
		{Name: "floor", Value: 4, Low: 4, High: 4, Unit: Millis},
	}
	table := Table(figures)
	for _, part := range []string{"≤ 2.50 ×", "2.00 × (1.50 to 2.50)", "PASS", "1200 MiB", "≤ 1024 MiB", "MISS", "4.00 ms", "8ms of 10"} {
		if !strings.Contains(table, part) {
			t.Errorf("%q is missing in:\n%s", part, table)
		}
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines {
		if len([]rune(line)) != len([]rune(lines[0])) {
			t.Errorf("columns are not aligned:\n%s", table)
		}
	}
	if missed := Missed(figures); !slices.Equal(missed, []string{"memory"}) {
		t.Errorf("missed: %v", missed)
	}
}

func TestQuantileIsAMeasuredValue(t *testing.T) {
	durations := []time.Duration{5, 1, 4, 2, 3}
	for q, want := range map[float64]time.Duration{0.2: 1, 0.5: 3, 0.6: 3, 0.99: 5, 1: 5} {
		if got := Quantile(durations, q); got != want {
			t.Errorf("%v: got %d, want %d", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestCompareShowsTheSpread(t *testing.T) {
	var samples, floor []Sample
	for i := range 100 {
		at, took := time.Duration(i)*time.Second, 2*time.Millisecond
		if i >= 80 { // in the last fifth
			took = 6 * time.Millisecond
		}
		samples, floor = append(samples, Sample{at, took}), append(floor, Sample{at, time.Millisecond})
	}
	figure := Compare("export", 0.5, samples, floor)
	if figure.Value != 2 || figure.Low != 2 || figure.High != 6 {
		t.Errorf("got %+v", figure)
	}
	if want := "2ms of 100, floor 1ms of 100"; figure.Detail != want {
		t.Errorf("detail is %q, want %q", figure.Detail, want)
	}
}

func TestComparisonWithoutSamplesMissesItsTarget(t *testing.T) {
	for _, figure := range []Figure{Compare("export", 0.5, nil, []Sample{{0, 1}}), Compare("export", 0.5, []Sample{{0, 1}}, nil)} {
		figure.Target = 2
		if !figure.Missed() {
			t.Errorf("got %+v", figure)
		}
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	plot := Plot{Title: "A & B <1>", X: "ms", Y: "%", LogX: true, Lines: []Line{
		Distribution("export", []Sample{{0, time.Millisecond}, {0, 20 * time.Millisecond}}), {Name: "empty"},
	}}
	decoder := xml.NewDecoder(strings.NewReader(string(plot.SVG())))
	polylines := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if element, ok := token.(xml.StartElement); ok && element.Name.Local == "polyline" {
			polylines++
		}
	}
	if polylines != 2 {
		t.Errorf("%d lines, want 2", polylines)
	}
	if strings.Contains(string(plot.SVG()), "NaN") || strings.Contains(string(plot.SVG()), "Inf") {
		t.Error("a position is not a number")
	}
}
