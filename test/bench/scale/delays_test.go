// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/bench/scale/generator"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	// gently is the time between a change and one of the floor, if each change is of another
	// service. It is so long that each of them finds everything idle.
	gently = 250 * time.Millisecond
	// slowly is that time if two services change in turns: each of them changes once in four times
	// this. What changes more often than once a second is paced.
	slowly = 300 * time.Millisecond
	// arrives is how long a change may take to arrive.
	arrives = time.Minute
	median  = 0.5
	// maxPresence and maxFanOut are how many times as long a change may take.
	maxPresence, maxFanOut = 1.2, 3
)

// delay is how long changes took to arrive, and changes of a ConfigMap in between.
type delay struct {
	name           string
	changes, floor []report.Sample
}

// changeOf returns the member and the slice that a change is about.
type changeOf func(number int) (*generator.Member, generator.Slice)

// ofServices returns changes that are spread over services and members.
func (r *run) ofServices(number int) (*generator.Member, generator.Slice) {
	members := r.exporters()
	member := members[number%len(members)]
	const step = 7
	return member, generator.Slice{Shape: web, Service: number * step % member.Exported(web)}
}

// compare measures how long changes of different kinds take, in turns with those of the floor.
func (r *run) compare(interval time.Duration, names []string, of ...changeOf) []delay {
	r.awaitQuiet()
	measured := make([]delay, len(of))
	begun, ticker := time.Now(), time.NewTicker(interval)
	defer ticker.Stop()
	for number := range *changes {
		for kind, change := range of {
			<-ticker.C
			at, took := time.Since(begun), r.changeFloor()
			measured[kind].floor = append(measured[kind].floor, report.Sample{At: at, Took: took})
			<-ticker.C
			at, took = time.Since(begun), r.change(change(number))
			measured[kind].changes = append(measured[kind].changes, report.Sample{At: at, Took: took})
		}
	}
	for kind, name := range names {
		measured[kind].name = name
		r.progress("%s: a change arrives after %s, that of a ConfigMap after %s (medians of %d)", name,
			report.Quantile(report.Durations(measured[kind].changes), median), report.Quantile(report.Durations(measured[kind].floor), median), *changes)
	}
	r.delays = append(r.delays, measured...)
	return measured
}

// change changes a slice of a member, and returns how long it takes from when the member sends that
// until the imported EndpointSlice arrives at a watch of the importing cluster.
func (r *run) change(member *generator.Member, slice generator.Slice) time.Duration {
	ctx, cancel := context.WithTimeout(r.Context(), arrives)
	defer cancel()
	made, arrival := r.makeChange(member, slice)
	sent := expect.Must(made.Sent(ctx))(r.T)
	select {
	case at := <-arrival:
		return at.Sub(sent)
	case <-ctx.Done():
		r.Fatalf("change of %v in %s has not arrived", slice, member.ID())
	}
	return 0
}

// makeChange changes a slice of a member, and returns a channel that gets the time of its arrival.
func (r *run) makeChange(member *generator.Member, slice generator.Slice) (*generator.Change, <-chan time.Time) {
	r.changed++
	arrival := r.slices.await(generator.Marker(r.changed).String())
	return member.Change(slice, r.changed), arrival
}

// changeFloor changes the ConfigMap, and returns how long it takes from the request until it
// arrives at a watch.
func (r *run) changeFloor() time.Duration {
	ctx, cancel := context.WithTimeout(r.Context(), arrives)
	defer cancel()
	next := r.floor.object()
	begun := time.Now()
	expect.Must(r.home.Kubernetes.CoreV1().ConfigMaps(importing).Update(ctx, next, metav1.UpdateOptions{}))(r.T)
	select {
	case at := <-r.floor.arrivals:
		return at.Sub(begun)
	case <-ctx.Done():
		r.Fatal("change of a ConfigMap has not arrived")
	}
	return 0
}

// measureDelays measures changes of services of which all clusters export some.
func (r *run) measureDelays(name string) delay {
	return r.compare(gently, []string{name}, r.ofServices)[0]
}

// measureFanOut compares changes of a service with many endpoints in all clusters with those of a
// small one in one cluster.
func (r *run) measureFanOut() {
	members := r.exporters()
	export := func(count int) {
		members[0].Export(narrow, count)
		for _, member := range members {
			member.Export(wide, count)
		}
		r.awaitImported()
	}
	export(1)
	ofNarrow := func(int) (*generator.Member, generator.Slice) { return members[0], generator.Slice{Shape: narrow} }
	ofWide := func(number int) (*generator.Member, generator.Slice) {
		return members[number%len(members)], generator.Slice{Shape: wide, Slice: number % shapes("")[wide].Slices}
	}
	measured := r.compare(slowly, []string{"1 cluster × 10 endpoints", fmt.Sprintf("%d clusters × 1,000 endpoints", *clusters)}, ofNarrow, ofWide)
	figure := report.Compare(fmt.Sprintf("change of %s against %s", measured[1].name, measured[0].name), median, measured[1].changes, measured[0].changes)
	figure.Target = maxFanOut
	r.figure(withFloors(figure, measured[1], measured[0]))
	export(0)
}

// withFloors completes the description of a comparison of two kinds of changes.
func withFloors(figure report.Figure, measured, base delay) report.Figure {
	show := func(samples []report.Sample) time.Duration {
		return report.Quantile(report.Durations(samples), median).Round(10 * time.Microsecond)
	}
	figure.Detail = fmt.Sprintf("medians of %d: %s against %s; of a ConfigMap meanwhile %s against %s",
		len(measured.changes), show(measured.changes), show(base.changes), show(measured.floor), show(base.floor))
	return figure
}

// measurePresence compares changes while many services are present with those while few were.
func (r *run) measurePresence() {
	base := r.delays[0]
	each := *present - *services
	if each <= 0 {
		r.progress("-present is not more than -services: there is nothing to compare with")
		return
	}
	others := r.joined[r.exporting():]
	beyond := min(max(*imported-*services, 0), each)
	for i, member := range others {
		share := func(of int) int { return of*(i+1)/len(others) - of*i/len(others) }
		member.Export(more, share(beyond))
		member.Export(known, share(each)-share(beyond))
	}
	took := r.awaitImported()
	r.progress("%d services are present, of which %d are imported, after another %s", *present, *services+beyond, took.Round(time.Millisecond))
	measured := r.measureDelays(fmt.Sprintf("%d services", *present))
	name := fmt.Sprintf("change with %s present against %s", measured.name, base.name)
	figure := report.Compare(name, median, measured.changes, base.changes)
	figure.Target = maxPresence
	r.figure(withFloors(figure, measured, base))
	relative := report.Compare("", median, measured.changes, measured.floor).Value / report.Compare("", median, base.changes, base.floor).Value
	r.figure(report.Figure{Name: name + ", each as a multiple of its floor", Unit: report.Ratio, Value: relative, Detail: "without what the machine did otherwise"})
}

// plotDelays plots how long changes took.
func (r *run) plotDelays() {
	var lines []report.Line
	for _, measured := range r.delays {
		lines = append(lines, report.Distribution(measured.name, measured.changes), report.Distribution("ConfigMap meanwhile", measured.floor))
	}
	if len(lines) > 0 {
		r.plot("delays", report.Plot{Title: "Delay of a change in a member", X: "ms", Y: "%", LogX: true, Lines: lines})
	}
}
