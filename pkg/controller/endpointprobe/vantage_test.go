// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// R311: what was found about this cluster before others did not answer is not proof that it
// was fine then. All that are asked at the same time share one check.
func TestVantagePointIsNotOlderThanWhatItConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		time.Sleep(period)
		w.network.set(func() { w.network.hostAsked = 0 })
		first := time.Now()
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				if !w.hasVantagePoint(t.Context(), first) {
					t.Error("no vantage point although the Kubernetes API answers")
				}
			})
		}
		workers.Wait()
		w.network.set(func() {
			if w.network.hostAsked != 1 {
				t.Errorf("the Kubernetes API was asked %d times", w.network.hostAsked)
			}
			w.network.hostDown = true
		})
		time.Sleep(time.Second)
		if w.hasVantagePoint(t.Context(), time.Now()) {
			t.Error("the Kubernetes API is down since before endpoints were asked")
		}
	})
}

// R311: neither Services of this cluster that never answer nor those of one namespace decide.
func TestOwnServicesThatNeverAnswerDoNotDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			for i := range 9 {
				w.exportPorts(t, fmt.Sprint("dead", i), "here", "dead", tcp(80), fmt.Sprint("10.0.1.", i+1))
				w.exportPorts(t, "alone", "here", fmt.Sprint("dead", i), tcp(80), fmt.Sprint("10.0.2.", i+1))
			}
			w.exportPorts(t, "zoo", "here", "alive", tcp(80), "10.0.0.1")
			w.network.alive["10.0.0.1:80"] = true
		})
		time.Sleep(5*sampleInterval + sampleInterval/2)
		for range 5 {
			if !w.hasVantagePoint(t.Context(), time.Now()) {
				t.Error("no vantage point although an endpoint of this cluster answers")
			}
			time.Sleep(time.Second)
		}
		w.network.set(func() { w.network.alive = map[string]bool{} })
		if w.hasVantagePoint(t.Context(), time.Now()) {
			t.Error("the only endpoint of this cluster that ever answered does not answer")
		}
	})
}

// R311: if own endpoints that answered before do not, others may.
func TestOtherOwnServicesAreAskedIfThoseThatAnsweredDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "here", "a", corev1.ProtocolTCP, "10.0.0.1")
			w.export(t, "here", "b", corev1.ProtocolTCP, "10.0.0.2")
			w.network.alive["10.0.0.1:80"] = true
		})
		time.Sleep(10 * time.Second)
		w.network.set(func() { w.network.alive = map[string]bool{"10.0.0.2:80": true} })
		for range 2 {
			begun := time.Now()
			if !w.hasVantagePoint(t.Context(), begun) {
				t.Errorf("no vantage point after %s, although an endpoint of this cluster answers", time.Since(begun))
			}
			time.Sleep(time.Second)
		}
		w.network.set(func() { w.network.alive = map[string]bool{} })
		if w.hasVantagePoint(t.Context(), time.Now()) {
			t.Error("no endpoint of this cluster answers")
		}
	})
}

// R311: own endpoints are asked also if no member responds, or may be asked. That they do not
// answer counts only while one responds.
func TestOwnEndpointsAreSampledWithoutMembers(t *testing.T) {
	for alive, want := range map[bool]experience{true: haveAnswered, false: unknown} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, "", func(w *world) {
				w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
				w.network.alive["10.0.0.1:80"] = alive
				w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
			})
			time.Sleep((minOwnSamples + 1) * sampleInterval)
			if got := w.experience(); got != want {
				t.Errorf("alive %t: %q", alive, got)
			}
			w.network.set(func() {
				if got := w.network.dialed["10.0.0.1:80"]; got < minOwnSamples {
					t.Errorf("alive %t: asked %d times", alive, got)
				}
			})
		})
	}
}

// R311: own endpoints that never answered while everything was fine say nothing, also to
// another leader. Until that is known, nothing is withdrawn.
func TestOwnEndpointsThatCannotBeAskedSayNothing(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		want  string
	}{
		{"not known yet", sampleInterval, "Pending Unaskable"},
		{"known", (minOwnSamples + 1) * sampleInterval, "Silent Unaskable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, inEast, func(w *world) { w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1") })
				time.Sleep(test.after)
				w.reelect(t)
				w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
				time.Sleep(time.Minute)
				if got := w.findings(); got != test.want {
					t.Errorf("found %s, want %s", got, test.want)
				}
			})
		})
	}
}

// R314: own endpoints whose silence is known to mean nothing do not delay what is found about
// others.
func TestOwnEndpointsThatSayNothingDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead = 300
		w := start(t, inEast, func(w *world) {
			w.exportPorts(t, "shop", "here", "own", tcp(80, 443, 8080), "10.0.0.1", "10.0.0.2", "10.0.0.3") // protected by a network policy
			for i := range dead {
				w.export(t, "east", fmt.Sprint("dead-", i), corev1.ProtocolTCP, "10.1.1.1", "10.1.1.2", "10.1.1.3")
			}
		})
		time.Sleep((minOwnSamples + 1) * sampleInterval)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(dead/20*time.Second + 3*connectTimeout + 2*period)
		for i := range dead {
			if name := fmt.Sprint("dead-", i); w.findingsOf(name) != string(liveness.Silent) {
				t.Fatalf("%s: %s", name, w.findingsOf(name))
			}
		}
	})
}

// R311: that own endpoints answered is forgotten only if that cannot be a problem of this cluster.
func TestExperienceAfterSamples(t *testing.T) {
	for _, test := range []struct {
		name                   string
		last                   experience
		samples, services      int
		answered, othersAnswer bool
		want                   experience
	}{
		{"too few samples", unknown, minOwnSamples - 1, 1, false, true, unknown},
		{"never answered", unknown, minOwnSamples, 1, false, false, neverAnswered},
		{"known", neverAnswered, minOwnSamples, 1, false, false, neverAnswered},
		{"answered, too few samples", haveAnswered, minOwnSamples - 1, 1, false, true, haveAnswered},
		{"what answered is still exported", haveAnswered, minOwnSamples, 1, true, true, haveAnswered},
		{"others do not answer either", haveAnswered, minOwnSamples, 1, false, false, haveAnswered},
		{"there are more services", haveAnswered, minOwnSamples, minOwnSamples*maxOwn + 1, false, true, haveAnswered},
		{"what answered is not exported any more", haveAnswered, minOwnSamples, minOwnSamples * maxOwn, false, true, neverAnswered},
	} {
		if got := test.last.after(test.samples, test.services, test.answered, test.othersAnswer); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// R311: what is known of own endpoints is recorded in the Leases of all members: another leader
// does not believe one that nobody can correct.
func TestExperienceIsRecordedInAllLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
			w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "west"}, Status: clustersetv1alpha1.MemberStatus{State: clustersetv1alpha1.MemberConnecting}})
		})
		time.Sleep((minOwnSamples + 1) * sampleInterval)
		if got := w.experience(); got != neverAnswered {
			t.Fatalf("found %q", got)
		}
		for _, name := range []string{"west", "former"} { // another cluster, and a former member
			lease := sighting.Record(nil, sighting.Sighting{Member: name, UID: "uid-another", At: time.Now()}, 60)
			lease.Namespace, lease.Annotations[clusterset.OwnEndpointsAnnotation] = "mcs-system", string(haveAnswered)
			if _, err := w.client.CoordinationV1().Leases("mcs-system").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * publishInterval)
		w.reelect(t)
		if got := w.experience(); got != neverAnswered {
			t.Errorf("another leader knows %q", got)
		}
		lease, err := w.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), sighting.LeaseName("west"), metav1.GetOptions{})
		if err != nil || lease.Annotations[clusterset.EndpointsAnnotation] != "" {
			t.Errorf("the Lease of another cluster: %v, %v", lease, err)
		}
	})
}

// R311: own endpoints that answered say nothing when they are not exported any more.
func TestOwnServiceThatAnsweredAndIsGoneSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
			w.network.alive["10.1.0.1:80"] = true
		})
		time.Sleep(minOwnSamples / 2 * sampleInterval)
		w.network.set(func() { w.network.alive["10.0.0.1:80"] = true })
		time.Sleep(5 * sampleInterval)
		for _, indexer := range []interface {
			List() []any
			Delete(any) error
		}{w.exported, w.slices} {
			for _, object := range indexer.List() {
				if strings.HasPrefix(object.(metav1.Object).GetName(), "own") {
					if err := indexer.Delete(object); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		w.export(t, "here", "protected", corev1.ProtocolTCP, "10.0.0.2") // by a network policy
		time.Sleep((minOwnSamples/2 + 1) * sampleInterval)
		if got := w.experience(); got != haveAnswered {
			t.Errorf("%s after some samples", got)
		}
		time.Sleep((minOwnSamples/2 + 1) * sampleInterval)
		w.network.set(func() { delete(w.network.alive, "10.1.0.1:80") })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(90 * time.Second)
		if got := w.findingsOf("web"); got != string(liveness.Silent) {
			t.Errorf("found %s: endpoints that answered before are exported no more, none answered in ten samples", got)
		}
	})
}

// R370: while this cluster cannot tell, endpoints are asked after a pause.
func TestEndpointsAreNotAskedWithoutAPauseIfThisClusterCannotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.hostDown = true })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(10 * time.Second)
		w.network.set(func() { w.network.dialed = map[string]int{} })
		time.Sleep(time.Minute)
		w.network.set(func() {
			if got := w.network.dialed["10.1.0.1:80"]; got < minAttempts || got > minAttempts*int(time.Minute/againIfAlive) {
				t.Errorf("asked %d times in a minute", got)
			}
		})
		if got := w.findings(); got != "Pending Unaskable" {
			t.Errorf("found %s", got)
		}
	})
}

// R306, R311: that own endpoints answered is recorded once.
func TestExperienceIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
			w.network.alive["10.0.0.1:80"], w.network.alive["10.1.0.1:80"] = true, true
		})
		time.Sleep(time.Minute)
		if got := w.lease(t).Annotations[clusterset.OwnEndpointsAnnotation]; got != string(haveAnswered) {
			t.Errorf("recorded %q", got)
		}
		before := w.writes()
		time.Sleep(10 * time.Minute)
		if got := w.writes() - before; got != 0 {
			t.Errorf("%d writes although nothing changed", got)
		}
	})
}

func TestSpread(t *testing.T) {
	var services []types.NamespacedName
	for _, name := range []string{"a/1", "a/2", "a/3", "b/1", "c/1", "c/2"} {
		services = append(services, types.NamespacedName{Namespace: name[:1], Name: name[2:]})
	}
	for from, want := range map[int]string{
		0: "[a/1 b/1 c/1 a/2 c/2 a/3]",
		1: "[b/1 c/1 a/2 c/2 a/3 a/1]",
		3: "[a/2 b/1 c/2 a/3 c/1 a/1]",
	} {
		if got := fmt.Sprint(slices.Collect(spread(services, from))); got != want {
			t.Errorf("from %d: %s, want %s", from, got, want)
		}
	}
	if got := slices.Collect(spread(nil, 5)); len(got) > 0 {
		t.Errorf("%v of none", got)
	}
}
