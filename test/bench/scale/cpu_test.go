// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// maxIdle is how much processor time an idle member may cost mcs-apiserver, in milliseconds per second.
const maxIdle = 0.5

func milliseconds(duration time.Duration) float64 {
	return float64(duration) / float64(time.Millisecond)
}

// tellable is how many members there have to be for a target: what fewer cost is less than what
// a single garbage collection does.
const tellable = 10

// measureIdle measures the processor time per second with some numbers of members that export
// one service each and change nothing. What a member costs is the difference to no members; for the
// kube-apiserver, the difference to the time when mcs-apiserver and mcs-controller are stopped.
func (r *run) measureIdle(members []int) {
	r.awaitQuiet()
	without := r.usageDuring(*window)
	expect.NoError(r.T, r.home.Stop())
	r.awaitQuiet()
	stopped := r.usageDuring(*window)
	expect.NoError(r.T, r.home.StartAPIServers())
	expect.NoError(r.T, r.home.StartController(r.Context()))
	expect.NoError(r.T, r.home.AwaitAvailable(r.Context()))
	r.figure(
		report.Figure{Name: "mcs-apiserver, idle, no members", Unit: report.Millis, Value: milliseconds(without.apiserver), Detail: "processor time per second"},
		report.Figure{Name: "mcs-controller, idle, no members", Unit: report.Millis, Value: milliseconds(without.controller), Detail: "processor time per second"},
		report.Figure{Name: "kube-apiserver, idle, no members", Unit: report.Millis, Value: milliseconds(without.kube - stopped.kube),
			Detail: fmt.Sprintf("processor time per second beyond the %.1f ms while mcs-apiserver is stopped", milliseconds(stopped.kube))},
	)
	lines := []report.Line{{Name: "mcs-apiserver"}, {Name: "mcs-controller"}, {Name: "kube-apiserver"}}
	for _, count := range members {
		r.keepMembers(count)
		r.awaitQuiet()
		total, spread := r.usageInParts(*window)
		cost := total.minus(without)
		cost.kube = total.kube - stopped.kube
		each := cost.per(float64(count))
		name := func(program string) string { return fmt.Sprintf("%s, idle, per member of %d", program, count) }
		detail := func(total time.Duration) string {
			return fmt.Sprintf("processor time per second; %.1f ms in total", milliseconds(total))
		}
		own := report.Figure{Name: name("mcs-apiserver"), Unit: report.Millis, Value: milliseconds(each.apiserver), Detail: detail(total.apiserver)}
		own.Low, own.High = milliseconds(spread.low-without.apiserver)/float64(count), milliseconds(spread.high-without.apiserver)/float64(count)
		if count >= tellable {
			own.Target = maxIdle
		}
		r.figure(
			own,
			report.Figure{Name: name("mcs-controller"), Unit: report.Millis, Value: milliseconds(each.controller), Detail: detail(total.controller)},
			report.Figure{Name: name("kube-apiserver"), Unit: report.Millis, Value: milliseconds(each.kube), Detail: detail(total.kube)},
		)
		for i, used := range []time.Duration{total.apiserver, total.controller, total.kube} {
			lines[i].Points = append(lines[i].Points, report.Point{X: float64(count), Y: milliseconds(used)})
		}
	}
	r.plot("idle", report.Plot{Title: "Processor time of an idle cluster", X: "members", Y: "ms/s", Lines: lines})
}

// spread is that of the processor time of mcs-apiserver per second between parts of a time.
type spread struct{ low, high time.Duration }

// usageInParts returns the processor time per second from now on for a while, and its spread: one
// garbage collection, of which there are a few per minute, is in one part.
func (r *run) usageInParts(length time.Duration) (usage, spread) {
	const parts = 5
	found := spread{low: time.Hour}
	begun, before := time.Now(), r.usage()
	for range parts {
		part := r.usageDuring(length / parts).apiserver
		found.low, found.high = min(found.low, part), max(found.high, part)
	}
	return r.usage().minus(before).per(time.Since(begun).Seconds()), found
}

// throughput is how many changes are made per second while their processor time is measured.
const throughput, throughputChanges = 50, 300

// measureCPUPerChange measures the processor time of changes of different services in quick succession.
func (r *run) measureCPUPerChange() {
	r.awaitQuiet()
	without := r.usageDuring(*window / 3)
	begun, before := time.Now(), r.usage()
	// Of changes of one slice, which there are if the sizes are small, only the last one is sure to arrive.
	arrivals := map[string]<-chan time.Time{}
	ticker := time.NewTicker(time.Second / throughput)
	defer ticker.Stop()
	for number := range throughputChanges {
		<-ticker.C
		member, slice := r.ofServices(number)
		_, arrivals[fmt.Sprint(member.ID(), slice)] = r.makeChange(member, slice)
	}
	for _, arrival := range arrivals {
		select {
		case <-arrival:
		case <-time.After(arrives):
			r.Fatal("a change has not arrived")
		}
	}
	r.pause(time.Second) // until what follows from the last ones is over
	seconds := time.Since(begun).Seconds()
	used := r.usage().minus(before).minus(without.per(1 / seconds)).per(throughputChanges)
	detail := fmt.Sprintf("processor time; %d changes at %d per second", throughputChanges, throughput)
	r.figure(
		report.Figure{Name: "mcs-apiserver, per change", Unit: report.Millis, Value: milliseconds(used.apiserver), Detail: detail},
		report.Figure{Name: "mcs-controller, per change", Unit: report.Millis, Value: milliseconds(used.controller), Detail: detail},
		report.Figure{Name: "kube-apiserver, per change", Unit: report.Millis, Value: milliseconds(used.kube), Detail: detail},
	)
}
