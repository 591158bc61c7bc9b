// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetestesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// R303, R311, R315: the problem of a member is that of all its Services.
func TestProblemOfAMember(t *testing.T) {
	answers, silent := record{finding: liveness.Answers}, record{finding: liveness.Silent}
	void := record{finding: liveness.Unaskable, problem: liveness.EverythingAnswers}
	udp := record{finding: liveness.Unaskable}
	unclear := record{problem: liveness.NoVantagePoint}
	for _, test := range []struct {
		name    string
		look    look
		records []record
		want    liveness.Problem
	}{
		{"void", look{}, []record{void, udp}, liveness.EverythingAnswers},
		{"void, but another answers", look{}, []record{void, answers}, ""},
		{"void, but another is silent", look{}, []record{void, silent}, ""},
		{"void, but another was not asked", look{}, []record{void, {}}, ""},
		{"no vantage point", look{}, []record{unclear, void, silent}, liveness.NoVantagePoint},
		{"no vantage point, but another answers", look{}, []record{unclear, answers}, ""},
		{"no vantage point, but that was known to be silent", look{}, []record{{finding: liveness.Silent, problem: liveness.NoVantagePoint}}, ""},
		{"no vantage point, but that was known to be unaskable", look{}, []record{{finding: liveness.Unaskable, problem: liveness.NoVantagePoint}}, ""},
		{"nothing ever answered", look{samples: minSamples}, []record{silent, udp}, liveness.NothingAnswers},
		{"something answered before", look{samples: minSamples, answered: true}, []record{silent}, ""},
		{"forbidden", look{forbidden: true}, []record{answers}, liveness.NoAllowedCIDRs},
	} {
		test.look.silent, test.look.records = true, map[types.NamespacedName]record{}
		var services []types.NamespacedName
		for i, found := range test.records {
			service := types.NamespacedName{Namespace: "shop", Name: string(rune('a' + i))}
			services = append(services, service)
			test.look.records[service] = found
		}
		if got := test.look.summary(services).Problem; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// R311, R315: what was found stays while this cluster cannot tell, and so does where endpoints
// answered. Others are asked in every turn.
func TestRecordAfterAsking(t *testing.T) {
	now, alive := time.Now(), netip.MustParseAddrPort("10.1.0.1:80")
	answered := record{}.after(outcome{finding: liveness.Answers, alive: alive, turns: 1}, time.Minute, now)
	if answered.finding != liveness.Answers || answered.answered != alive || answered.turn != 1 {
		t.Errorf("answered: %+v", answered)
	}
	unclear := answered.after(outcome{finding: liveness.Pending, problem: liveness.NoVantagePoint, turns: 1}, time.Minute, now)
	if unclear.finding != liveness.Answers || unclear.problem != liveness.NoVantagePoint || unclear.answered != alive || unclear.turn != 2 {
		t.Errorf("then unclear: %+v", unclear)
	}
	failing := unclear.after(outcome{finding: liveness.Silent, turns: 1}, time.Minute, now)
	silent := failing.after(outcome{finding: liveness.Silent, turns: 1}, time.Minute, now.Add(time.Minute))
	if silent.finding != liveness.Silent || silent.problem != "" || silent.answered != alive {
		t.Errorf("then silent: %+v", silent)
	}
}

// R301: an answer in the silence counts until none has answered for the TTL in which the
// Service was asked, and until all endpoints were asked, as many as count. A Service that has
// not answered is decided by the first turn.
func TestAnswerCountsForTheTTL(t *testing.T) {
	now := time.Now()
	// failing is a Service that answered long ago, and was asked in vain since a time.
	failing := func(since time.Duration, failures int) record {
		return record{finding: liveness.Answers, alive: true, pace: pace{answeredAt: now.Add(-time.Hour), failures: failures, failing: now.Add(-since)}}
	}
	learned := record{alive: true, pace: pace{answeredAt: now.Add(-time.Hour)}}
	sampled := func(since time.Duration) record { return record{pace: pace{answeredAt: now.Add(-since)}} }
	silent, void, none := outcome{finding: liveness.Silent, turns: 1}, outcome{finding: liveness.Unaskable, problem: liveness.EverythingAnswers, turns: 1}, outcome{finding: liveness.Unaskable}
	many := outcome{finding: liveness.Silent, turns: 3}
	for _, test := range []struct {
		name  string
		last  record
		found outcome
		want  liveness.Finding
		again time.Duration
	}{
		{"never answered", record{}, silent, liveness.Silent, againIfSilent},
		{"never answered, others have not been asked", record{}, many, liveness.Silent, againIfAlive},
		{"never answered, all others were asked", record{pace: pace{failures: 2}}, many, liveness.Silent, againIfSilent},
		{"answered before it was asked in vain", failing(0, 0), silent, liveness.Answers, againIfAlive},
		{"asked in vain within the TTL", failing(40*time.Second, 5), silent, liveness.Answers, againIfAlive},
		{"asked in vain, but not for the TTL when it is due", failing(50*time.Second, 5), silent, liveness.Answers, 10 * time.Second},
		{"asked in vain for the TTL", failing(time.Minute, 1), silent, liveness.Silent, againIfSilent},
		{"asked in vain for the TTL, others have not been asked", failing(time.Hour, 1), many, liveness.Answers, againIfAlive},
		{"asked in vain for the TTL, and all others were", failing(time.Minute, 2), many, liveness.Silent, againIfSilent},
		{"answered an earlier leader", learned, silent, "", againIfAlive},
		{"answered a sample within the TTL", sampled(time.Minute - 1), silent, "", againIfAlive},
		{"answered a sample before", sampled(time.Minute), silent, liveness.Silent, againIfSilent},
		{"asked in vain within the TTL, and now everything answers", failing(0, 0), void, liveness.Answers, againIfAlive},
		{"asked in vain for the TTL, and now everything answers", failing(time.Minute, 1), void, liveness.Unaskable, againIfSilent},
		{"answered, but cannot be asked any more", failing(0, 0), none, liveness.Unaskable, againIfSilent},
	} {
		if got := test.last.after(test.found, time.Minute, now); got.finding != test.want || got.due.Sub(now) != test.again {
			t.Errorf("%s: %q, again after %s, want %q after %s", test.name, got.finding, got.due.Sub(now), test.want, test.again)
		}
	}
}

// R301: time in which this cluster could not tell is not time in which a Service was asked in vain.
func TestTimeWithoutAVantagePointDoesNotCount(t *testing.T) {
	now := time.Now()
	silent, blind := outcome{finding: liveness.Silent, turns: 1}, outcome{finding: liveness.Pending, problem: liveness.NoVantagePoint, turns: 1}
	kept := record{}.after(outcome{finding: liveness.Answers, turns: 1}, time.Minute, now)
	for _, found := range []outcome{silent, blind, blind, blind, blind, silent} {
		now = now.Add(againIfAlive)
		kept = kept.after(found, time.Minute, now)
	}
	if kept.finding != liveness.Answers {
		t.Errorf("found %s after it was asked in vain twice", kept.finding)
	}
	for range 4 {
		now = now.Add(againIfAlive)
		kept = kept.after(silent, time.Minute, now)
	}
	if kept.finding != liveness.Silent {
		t.Errorf("found %s after it was asked in vain for the TTL", kept.finding)
	}
}

// R302, R317: what is known of a member outlives a look at it, findings excepted, but not that
// it is another cluster.
func TestNextLook(t *testing.T) {
	now, service := time.Now(), types.NamespacedName{Namespace: "shop", Name: "web"}
	last := &look{
		uid: "uid-east", answered: true, samples: 2, void: true, published: now, sampled: now,
		records: map[types.NamespacedName]record{service: {finding: liveness.Silent, pace: pace{turn: 3, answeredAt: now}}},
	}
	member := func(uid types.UID) *clustersetv1alpha1.Member {
		return &clustersetv1alpha1.Member{Status: clustersetv1alpha1.MemberStatus{ClusterUID: uid, State: clustersetv1alpha1.MemberLost}}
	}
	same, other := last.next(member("uid-east"), true, now), last.next(member("uid-other"), true, now)
	for _, next := range []*look{same, other} {
		if kept := next.records[service]; kept.finding != "" || kept.turn != 3 || next.published != now || next.sampled != now {
			t.Errorf("next is %+v", next)
		}
	}
	if !same.answered || same.samples != 2 || !same.void || same.records[service].answeredAt != now {
		t.Errorf("at the same cluster, next is %+v", same)
	}
	if other.answered || other.samples != 0 || other.void || !other.records[service].answeredAt.IsZero() || last.isAt(member("uid-other")) || !last.isAt(member("uid-east")) {
		t.Errorf("at another cluster, next is %+v", other)
	}
}

// R302: a silence ends when the member is seen some time later, not when it is shown to have
// been seen a little later, or earlier.
func TestLookIsAtASilence(t *testing.T) {
	seen := time.Now()
	for _, test := range []struct {
		silent bool
		later  time.Duration
		want   bool
	}{
		{true, 0, true}, {true, minStep - 1, true}, {true, -time.Hour, true}, {true, minStep, false}, {false, time.Hour, true},
	} {
		entry := &clustersetv1alpha1.Member{Status: clustersetv1alpha1.MemberStatus{LastSeen: ptr.To(metav1.NewTime(seen.Add(test.later)))}}
		if got := (&look{lastSeen: seen, silent: test.silent}).isAt(entry); got != test.want {
			t.Errorf("silent %t, seen %s later: %t", test.silent, test.later, got)
		}
	}
}

// R302: what was found in one silence does not count in another, from the moment on at which
// the member is known to have been seen.
func TestFindingsOfAnotherSilenceDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-2*time.Minute))
		time.Sleep(20 * time.Second)
		if got := w.findings(); got != "Silent Unaskable" {
			t.Errorf("found %s", got)
		}
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		if got := w.findings(); got != "Pending Pending" {
			t.Errorf("found %s although the member was seen since", got)
		}
	})
}

// R302: the replicas of a hub saw a cluster that is gone last at different times, and answer in
// turn. That is one silence.
func TestReplicasOfAHubReportOneSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		time.Sleep(10 * time.Second)
		seen := time.Now().Add(-time.Minute)
		relayed := func(seen time.Time) {
			w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: clustersetv1alpha1.MemberStatus{
				ClusterID: "x", ClusterUID: "uid-x", State: clustersetv1alpha1.MemberLost, Expired: true, TTLSeconds: 60,
				LastSeen: ptr.To(metav1.NewTime(seen)), Path: []string{"x", "east"},
			}})
		}
		w.exportPorts(t, "shop", "x", "dead", tcp(80, 443, 8080), "10.1.7.1", "10.1.7.2", "10.1.7.3") // it takes 9 seconds to ask
		silent := false
		for i := range 120 { // ten minutes
			relayed(seen.Add(time.Duration(i%2) * 3 * time.Second))
			w.show(t, clustersetv1alpha1.MemberConnected, time.Now())
			time.Sleep(5 * time.Second)
			silent = silent || w.Finding("x", types.NamespacedName{Namespace: "shop", Name: "dead"}) == liveness.Silent
		}
		if !silent {
			t.Error("never found to be silent in ten minutes: endpoints of a dead cluster are kept for an hour")
		}
	})
}

// R301: members are looked at in time while what was found about others cannot be written.
func TestSlowWritesDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.network.alive["10.1.0.1:80"] = true
			w.client.PrependReactor("update", "leases", func(kubernetestesting.Action) (bool, runtime.Object, error) {
				time.Sleep(time.Minute)
				return false, nil, nil
			})
		})
		time.Sleep(2 * publishInterval)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(2 * period)
		if got := w.findings(); got != "Answers Unaskable" {
			t.Errorf("found %s", got)
		}
		time.Sleep(2 * time.Minute) // the write ends
	})
}

// R317: a member that is reported to be seen, or another cluster, all the time is not asked
// more often.
func TestPaceOutlivesALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		time.Sleep(10 * time.Second)
		w.network.set(func() { w.network.dialed = map[string]int{} })
		for range 60 {
			w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
			time.Sleep(period)
		}
		w.network.set(func() {
			if got := w.network.dialed["10.1.0.1:80"]; got < minAttempts || got > minAttempts*(2*60/30+1) {
				t.Errorf("asked %d times in 2 minutes", got)
			}
		})
	})
}

// R316: a Secret that becomes invalid allows what it allowed before. If that is not known,
// nothing is found out.
func TestInvalidSecretAllowsWhatItAllowedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		time.Sleep(period)
		invalid := memberSecret("10.1.0.0/116, 10.2.0.0/16")
		invalid.ResourceVersion = "2"
		if _, err := w.client.CoreV1().Secrets("mcs-system").Update(t.Context(), invalid, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(period)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		if got := w.findings(); got != "Answers Unaskable" {
			t.Errorf("found %s", got)
		}
		w.reelect(t)
		time.Sleep(20 * time.Second)
		if got, look := w.findings(), w.recordedLook(t); got != "Pending Pending" || look.Problem != "" {
			t.Errorf("another leader found %s, and recorded %+v", got, look)
		}
	})
}

// R316: nor is anything found out while the Secret of a member is not known.
func TestUnknownSecretSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			if err := w.client.CoreV1().Secrets("mcs-system").Delete(t.Context(), "member-east", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		})
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		if got := w.findings(); got != "Pending Pending" {
			t.Errorf("found %s", got)
		}
	})
}

// R303: addresses that a Secret does not allow any more are not asked.
func TestChangedSecretDecidesWhatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		time.Sleep(period)
		changed := memberSecret("10.2.0.0/16")
		changed.ResourceVersion = "2"
		if _, err := w.client.CoreV1().Secrets("mcs-system").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(period)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		if got := w.findings(); got != "Unaskable Unaskable" {
			t.Errorf("found %s", got)
		}
	})
}

// R306: what was recorded in one silence is recorded again in another, although it is the same.
func TestLookAtAnotherSilenceIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		first := w.recordedLook(t)
		w.renew(t, time.Now())
		w.show(t, clustersetv1alpha1.MemberLost, time.Now())
		time.Sleep(time.Minute)
		if second := w.recordedLook(t); first == nil || !second.Same(first) || !second.At.After(first.At) {
			t.Errorf("recorded %+v, then %+v", first, second)
		}
	})
}

// R309: nothing is left of members that are gone.
func TestMembersThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(10 * time.Second)
		if got, err := testutil.GetCounterMetricValue(looksDone.WithLabelValues("east", string(liveness.Answers))); err != nil || got == 0 {
			t.Errorf("counted %v looks, %v", got, err)
		}
		if err := w.client.CoreV1().Secrets("mcs-system").Delete(t.Context(), "member-east", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := w.members.Delete(&clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		w.Prober.mu.Lock()
		defer w.Prober.mu.Unlock()
		if len(w.looks) > 0 || len(w.sources) > 0 {
			t.Errorf("looks %v, sources %v", w.looks, w.sources)
		}
		if got, err := testutil.GetCounterMetricValue(looksDone.WithLabelValues("east", string(liveness.Answers))); err != nil || got != 0 {
			t.Errorf("counted %v looks, %v", got, err)
		}
	})
}

// R309: nor of those that leave while another replica leads.
func TestMetricsEndWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(10 * time.Second)
		w.resign()
		if err := w.members.Delete(&clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		w.elect(t)
		w.lead(t.Context())
		time.Sleep(10 * time.Second)
		if got, err := testutil.GetCounterMetricValue(looksDone.WithLabelValues("east", string(liveness.Answers))); err != nil || got != 0 {
			t.Errorf("counted %v looks, %v", got, err)
		}
	})
}

// R204, R520: a hub that relays ever new clusters causes no new series. Those that no Secret names
// are measured together, until there are none.
func TestClustersThatNobodyNamedAreMeasuredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.7.1:80"] = true })
		hub := memberSecret(inEast)
		hub.ResourceVersion, hub.Data[clusterset.MemberSecretRelayFor] = "2", []byte("named,*")
		if _, err := w.client.CoreV1().Secrets("mcs-system").Update(t.Context(), hub, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, test := range []struct {
			relayed string
			want    map[string]bool
		}{
			{"invented", map[string]bool{"named": false, "invented": false, route.Unnamed: true}},
			{"named", map[string]bool{"named": true, "invented": false, route.Unnamed: false}},
		} {
			w.relay(t, test.relayed, clustersetv1alpha1.MemberLost)
			time.Sleep(10 * time.Second)
			for cluster, want := range test.want {
				if got, err := testutil.GetCounterMetricValue(looksDone.WithLabelValues(cluster, string(liveness.Answers))); err != nil || (got > 0) != want {
					t.Errorf("%s is relayed: counted %v looks at cluster %s, %v", test.relayed, got, cluster, err)
				}
			}
			if err := w.members.Delete(&clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: test.relayed}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * period)
		}
	})
}
