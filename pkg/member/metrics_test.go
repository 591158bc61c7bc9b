// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/clockoffset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// measures checks metrics, and returns all of them.
func (f *fixture) measures(t *testing.T, want map[string]float64) map[string]float64 {
	t.Helper()
	measured := &collector{} // which can be registered once
	measured.set.Store(f.Set)
	got := membertest.Gather(t, measured)
	for name, value := range want {
		if found, ok := got["mcs_apiserver_"+name]; !ok || found != value {
			t.Errorf("%s is %v, want %v (in %v)", name, found, value, got)
		}
	}
	return got
}

// R309: metrics tell how many members are in which state, and for how long each has been
// silent. R520: and what is held of each, and what may be, until it is removed.
func TestMembersAreMeasured(t *testing.T) {
	w, b := exporting(t, nil)
	w.join("c")
	w.tick()
	w.measures(t, map[string]float64{
		"members Connected": 2, "members Lost": 0, "member_state b Connected": 1, "member_silence_seconds b": 0, "member_conditions b Reachable Reachable True": 1,
		"member_usage b services": 1, "member_limit b services": 5000, "member_limit b bytes": 64 << 20,
	})
	w.silence(b, liveness.DefaultTTL, nil)
	w.measures(t, map[string]float64{"members Connected": 0, "members Lost": 2, "member_silence_seconds b": liveness.DefaultTTL.Seconds()})
	w.removeSecret(t.Context(), secretFor("b", ""))
	w.tick()
	for name := range w.measures(t, map[string]float64{"members Lost": 1, "members " + string(clusterset.MemberConnected): 0}) {
		if strings.HasSuffix(name, " b") || strings.Contains(name, " b ") {
			t.Errorf("there is %s of a former member", name)
		}
	}
}

// R520: nothing waits while metrics are read, however slowly.
func TestReadingMetricsDoesNotBlock(t *testing.T) {
	w, _ := exporting(t, nil)
	measured := &collector{}
	measured.set.Store(w.Set)
	read := make(chan metrics.Metric)
	go func() {
		defer close(read)
		measured.CollectWithStability(read)
	}()
	for range read {
		if !w.mu.TryLock() {
			t.Fatal("a reader of metrics holds the lock")
		}
		w.mu.Unlock()
	}
}

// R521: metrics tell how often the feed of a member had to begin anew, and how often that failed.
func TestAttemptsToReadAreMeasured(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	attempts := func(result string, count float64) map[string]float64 {
		return map[string]float64{"member_feed_attempts_total b exportedendpointslices " + result: count, "member_feed_attempts_total b exportedservices " + result: 0}
	}
	w.measures(t, attempts("success", 0)) // Prometheus notices an increase only of what it has read before
	w.measures(t, attempts("failure", 0))
	w.replace(t, b, exports.EndpointSlices)
	for range 2 {
		b.ReadFailed(exports.EndpointSlices, errors.New("the connection broke"))
	}
	b.ReadFailed(exports.EndpointSlices, nil) // watched anew
	w.measures(t, attempts("success", 2))
	w.measures(t, attempts("failure", 2))
}

// R522: a metric tells by how much the clock of a member is ahead, if that is known.
func TestClockOffsetsAreMeasured(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	w.join("c")
	b.feed.(*fakeFeed).offset = ptr.To(-3 * time.Second)
	got := w.measures(t, map[string]float64{"member_clock_offset_seconds b": -3})
	if _, ok := got["mcs_apiserver_member_clock_offset_seconds c"]; ok {
		t.Error("there is an offset that is unknown")
	}
}

// delays returns how many propagation delays of a cluster were measured, and their sum.
func delays(t *testing.T, cluster string) (count uint64, sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "mcs_apiserver_member_propagation_delay_seconds" && metric.GetLabel()[0].GetValue() == cluster {
				return metric.GetHistogram().GetSampleCount(), metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}

// R523: the propagation delays of members are measured, also of those that a hub relays, as long
// as they are members.
func TestPropagationDelaysAreMeasured(t *testing.T) {
	t.Cleanup(propagation.Reset)
	w := newFixture(t, nil)
	b := w.join("b", hubFor("c"))
	w.probe(b, ownEntry("b"), relayedEntry("c"))
	w.tick()
	now := w.clock.Now()
	w.Served("b", now.Add(-2*time.Second))
	w.Served("b", now.Add(clockoffset.MaxError)) // it counts as 0
	w.Served("b", now.Add(time.Hour))            // it cannot be right
	w.Served("c", now.Add(-time.Second))
	w.Served("d", now.Add(-time.Second)) // no member
	for cluster, want := range map[string]struct {
		count uint64
		sum   float64
	}{"b": {2, 2}, "c": {1, 1}, "d": {}, route.Unnamed: {}} {
		if count, sum := delays(t, cluster); count != want.count || sum != want.sum {
			t.Errorf("%d delays of %s were measured, %v s in total, want %v", count, cluster, sum, want)
		}
	}
	w.removeSecret(t.Context(), secretFor("b", ""))
	w.Served("b", now.Add(-time.Second)) // computed by now
	for _, cluster := range []string{"b", "c"} {
		if count, _ := delays(t, cluster); count > 0 {
			t.Errorf("there are delays of %s, which was removed", cluster)
		}
	}
}

// R204, R520: a hub that relays ever new clusters causes no new series, but those that it relays are
// measured together.
func TestClustersThatNobodyNamedAreMeasuredTogether(t *testing.T) {
	t.Cleanup(propagation.Reset)
	w := newFixture(t, nil)
	b := w.join("b", hubFor("*"))
	for _, invented := range []string{"c", "d"} {
		w.probe(b, ownEntry("b"), relayedEntry(invented+"1"), relayedEntry(invented+"2"))
		w.tick()
		for _, number := range []string{"1", "2"} {
			w.Served(invented+number, w.clock.Now().Add(-time.Second))
		}
		got := w.measures(t, map[string]float64{"members Connected": 3, "member_state b Connected": 1, "member_state * Connected": 1, "member_silence_seconds *": 0})
		for name := range got {
			if strings.Contains(name, " "+invented) {
				t.Errorf("there is a series %s", name)
			}
		}
		if count, _ := delays(t, invented+"1"); count > 0 {
			t.Errorf("there are delays of %s1", invented)
		}
	}
	if count, _ := delays(t, route.Unnamed); count != 4 {
		t.Errorf("%d delays were measured, want 4", count)
	}
	if got := w.MetricLabels()("b") + w.MetricLabels()("d1"); got != "b*" {
		t.Errorf("the labels are %s", got)
	}
	w.removeSecret(t.Context(), secretFor("b", ""))
	w.tick()
	if count, _ := delays(t, route.Unnamed); count > 0 {
		t.Error("there are delays of clusters that are not relayed any more")
	}
}

// R523: that only the time of a change differs is no change. What the first list of a feed has
// may have changed long before.
func TestTimesOfChanges(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	at := func(seconds time.Duration, zone string) any {
		slice := exportedSlice("b", "web", "web-1")
		slice.Spec.ChangedAt = ptr.To(metav1.NewMicroTime(epoch.Add(seconds * time.Second)))
		slice.Spec.Endpoints[0].Zone = &zone
		return slice
	}
	expect := func(want time.Duration, notified string) {
		t.Helper()
		slice := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0].Slices[0]
		if got := slice.Spec.ChangedAt; (got == nil) != (want == 0) || got != nil && !got.Time.Equal(epoch.Add(want*time.Second)) {
			t.Errorf("the endpoints changed at %v, want %v s", got, want)
		}
		if got := w.notified(); got != notified {
			t.Errorf("%q is reported, want %q", got, notified)
		}
	}
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, at(10, "x"))
	expect(0, "ns/web")
	w.upsert(t, b, at(20, "x"))
	expect(0, "")
	w.upsert(t, b, at(30, "y"))
	expect(30, "ns/web")
	w.replace(t, b, exports.EndpointSlices, at(40, "y"))
	expect(30, "")
	w.replace(t, b, exports.EndpointSlices, at(50, "z"))
	expect(50, "ns/web")
	reread := func(object any) {
		arrival := w.arrival(t, b, object)
		arrival.Reread = true
		b.Replace(exports.EndpointSlices, []exports.Arrival{arrival})
	}
	reread(at(60, "y")) // it changed, as any may
	expect(60, "ns/web")
	w.remove(t, b, at(60, "y"))
	w.notified()
	reread(at(70, "y")) // it was not admitted before
	expect(0, "ns/web")
}

// R520: metrics tell when the credential for a member expires, and when it was issued, unless that
// is unknown of one of its tokens.
func TestExpiryOfCredentialsIsMeasured(t *testing.T) {
	w := newFixture(t, nil)
	b, c := w.join("b"), w.join("c")
	b.peer.tokens = []string{membertest.Token(t, epoch, time.Hour), membertest.Token(t, epoch.Add(time.Minute), 2*time.Hour)}
	c.peer.tokens = []string{membertest.Token(t, epoch, time.Hour), "opaque"}
	got := w.measures(t, map[string]float64{
		"member_credential_expiry_timestamp_seconds b": float64(epoch.Add(2*time.Hour + time.Minute).Unix()),
		"member_credential_issued_timestamp_seconds b": float64(epoch.Add(time.Minute).Unix()),
	})
	if _, ok := got["mcs_apiserver_member_credential_expiry_timestamp_seconds c"]; ok {
		t.Error("there is an expiry that is unknown")
	}
}
