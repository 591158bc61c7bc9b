// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// Plot is lines over a common axis.
type Plot struct {
	Title, X, Y string
	Lines       []Line
	// LogX and LogY are whether axes are logarithmic; values on such axes must be positive.
	LogX, LogY bool
}

// Line is a line of a plot.
type Line struct {
	Name   string
	Points []Point
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

// Distribution returns how many percent of samples took at most how many milliseconds.
func Distribution(name string, samples []Sample) Line {
	line := Line{Name: name}
	for percent := 1.0; percent <= 99; percent++ {
		took := Quantile(Durations(samples), percent/100)
		line.Points = append(line.Points, Point{X: milliseconds(took), Y: percent})
	}
	return line
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration) / float64(time.Millisecond)
}

const (
	plotWidth, plotHeight = 720.0, 420.0
	marginLeft, marginTop = 70.0, 50.0
	areaWidth, areaHeight = 460.0, 300.0
	ticks                 = 5
)

var colors = []string{"#1b6ca8", "#c8553d", "#2a9d5c", "#8e5fb5", "#b8860b", "#555555", "#d1495b", "#00798c"}

// axis maps values to positions.
type axis struct {
	low, high, length float64
	log               bool
}

func newAxis(length float64, log bool, values []float64) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), length: length, log: log}
	for _, value := range values {
		a.low, a.high = min(a.low, value), max(a.high, value)
	}
	switch {
	case len(values) == 0:
		a.low, a.high = 1, 10
	case log:
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low))), math.Pow(10, math.Ceil(math.Log10(a.high)))
	default:
		a.low = min(a.low, 0)
	}
	if a.low == a.high {
		a.high = a.low + 1
		if log {
			a.high = a.low * 10
		}
	}
	return a
}

func (a axis) position(value float64) float64 {
	if a.log {
		return a.length * (math.Log10(value) - math.Log10(a.low)) / (math.Log10(a.high) - math.Log10(a.low))
	}
	return a.length * (value - a.low) / (a.high - a.low)
}

// marks returns the values that are marked: powers of ten, or equal steps.
func (a axis) marks() []float64 {
	var values []float64
	if a.log {
		for value := a.low; value <= a.high*1.001; value *= 10 {
			values = append(values, value)
		}
		return values
	}
	for i := range ticks + 1 {
		values = append(values, a.low+(a.high-a.low)*float64(i)/ticks)
	}
	return values
}

// SVG returns the plot as a picture.
func (p Plot) SVG() []byte {
	var xs, ys []float64
	for _, line := range p.Lines {
		for _, point := range line.Points {
			xs, ys = append(xs, point.X), append(ys, point.Y)
		}
	}
	x, y := newAxis(areaWidth, p.LogX, xs), newAxis(areaHeight, p.LogY, ys)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&svg, `<rect width="%g" height="%g" fill="white"/>`+"\n", plotWidth, plotHeight)
	text(&svg, marginLeft, 24, "start", 15, p.Title)
	for _, value := range x.marks() {
		at := marginLeft + x.position(value)
		fmt.Fprintf(&svg, `<path d="M%.1f %.1fv%.1f" stroke="#ddd"/>`+"\n", at, marginTop, areaHeight)
		text(&svg, at, marginTop+areaHeight+18, "middle", 12, number(value))
	}
	for _, value := range y.marks() {
		at := marginTop + areaHeight - y.position(value)
		fmt.Fprintf(&svg, `<path d="M%.1f %.1fh%.1f" stroke="#ddd"/>`+"\n", marginLeft, at, areaWidth)
		text(&svg, marginLeft-6, at+4, "end", 12, number(value))
	}
	text(&svg, marginLeft+areaWidth/2, marginTop+areaHeight+42, "middle", 12, p.X)
	text(&svg, marginLeft, marginTop-10, "end", 12, p.Y)
	for i, line := range p.Lines {
		color := colors[i%len(colors)]
		points := make([]string, 0, len(line.Points))
		for _, point := range line.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", marginLeft+x.position(point.X), marginTop+areaHeight-y.position(point.Y)))
		}
		fmt.Fprintf(&svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), color)
		top := marginTop + 14*float64(i)
		fmt.Fprintf(&svg, `<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/>`+"\n", marginLeft+areaWidth+14, top, color)
		text(&svg, marginLeft+areaWidth+30, top+9, "start", 11, line.Name)
	}
	svg.WriteString("</svg>\n")
	return []byte(svg.String())
}

func text(svg *strings.Builder, x, y float64, anchor string, size int, content string) {
	fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d">%s</text>`+"\n", x, y, anchor, size, html.EscapeString(content))
}

// number returns a number in few digits.
func number(value float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", value), "0"), ".")
}
