// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// relay makes the server show a cluster that east relays, with eight services that do not answer.
func (w *world) relay(t *testing.T, name string, state clustersetv1alpha1.MemberState) {
	t.Helper()
	for service := range 8 {
		w.export(t, name, fmt.Sprintf("s%d", service), corev1.ProtocolTCP, "10.1.7.1", "10.1.7.2", "10.1.7.3")
	}
	w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: clustersetv1alpha1.MemberStatus{
		ClusterID: name, ClusterUID: types.UID("uid-" + name), State: state, Expired: state == clustersetv1alpha1.MemberLost, TTLSeconds: 60,
		LastSeen: ptr.To(metav1.NewTime(time.Now().Add(-time.Minute))), Path: []string{name, "east"},
	}})
}

// R303: a hub that relays many dead clusters does not delay what is found about another member.
func TestHubDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		west := memberSecret("10.2.0.0/16")
		west.Name, west.UID = "member-west", "secret-west"
		west.Data[clusterset.MemberSecretClusterID] = []byte("west")
		if _, err := w.client.CoreV1().Secrets("mcs-system").Create(t.Context(), west, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.export(t, "west", "honest", corev1.ProtocolTCP, "10.2.0.1")
		time.Sleep(10 * time.Second)
		w.network.set(func() { w.network.max = 0 })
		for i := range 500 {
			w.relay(t, fmt.Sprintf("x%d", i), clustersetv1alpha1.MemberLost)
		}
		time.Sleep(10 * time.Second)
		lost := time.Now()
		w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "west", UID: "secret-west"}, Status: clustersetv1alpha1.MemberStatus{
			ClusterID: "west", ClusterUID: "uid-west", State: clustersetv1alpha1.MemberLost, Expired: true, TTLSeconds: 60,
			LastSeen: ptr.To(metav1.NewTime(time.Now().Add(-time.Minute))),
		}})
		for time.Since(lost) < time.Hour && w.Finding("west", types.NamespacedName{Namespace: "shop", Name: "honest"}) == liveness.Pending {
			time.Sleep(time.Second)
		}
		if took := time.Since(lost); took > 10*time.Second {
			t.Errorf("it took %s to ask the only service of another member", took)
		}
		w.network.set(func() {
			if w.network.max > 2*atOnce {
				t.Errorf("%d connections at once", w.network.max)
			}
		})
	})
}

// R303, R311: a hub that relays many dead clusters delays neither its own samples nor those of
// another cluster that it relays, or of this one.
func TestSilentClustersDoNotPreventSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
			w.relay(t, "alive", clustersetv1alpha1.MemberConnected)
			for i := range 100 {
				w.relay(t, fmt.Sprintf("x%d", i), clustersetv1alpha1.MemberLost)
			}
		})
		time.Sleep((minOwnSamples + 1) * sampleInterval)
		if got := w.experience(); got != neverAnswered {
			t.Errorf("own endpoints: %q", got)
		}
		w.Prober.mu.Lock()
		defer w.Prober.mu.Unlock()
		for _, name := range []string{"east", "alive"} {
			if got := w.looks[name].samples; got < minSamples {
				t.Errorf("%s was sampled %d times", name, got)
			}
		}
	})
}

// R303: of the clusters that a hub relays, some at a time are asked while they respond, and all
// of them in turn.
func TestSamplesOfAHubAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			for i := range 50 {
				w.relay(t, fmt.Sprintf("x%d", i), clustersetv1alpha1.MemberConnected)
			}
		})
		time.Sleep(10 * time.Minute)
		w.network.set(func() {
			if w.network.max > atOnce {
				t.Errorf("%d connections at once", w.network.max)
			}
		})
		w.Prober.mu.Lock()
		defer w.Prober.mu.Unlock()
		for name, look := range w.looks {
			if look.samples < minSamples {
				t.Errorf("%s was sampled %d times in ten minutes", name, look.samples)
			}
		}
	})
}

// R303: a sample that waits for its turn among those of other clusters behind a hub does not
// delay what is found when the member falls silent. It is not taken then, nor at addresses that
// are not allowed any more.
func TestSampleThatWaitsDelaysNothing(t *testing.T) {
	for name, test := range map[string]struct {
		state clustersetv1alpha1.MemberState
		want  string
	}{
		"lost":        {clustersetv1alpha1.MemberLost, "Silent Unaskable"},
		"still there": {clustersetv1alpha1.MemberConnected, "Pending Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var from source
				w := start(t, inEast, func(w *world) {
					entry, err := w.Prober.members.Get("east")
					if err != nil {
						t.Fatal(err)
					}
					from = w.sourceOf(entry)
					for _, slots := range []chan struct{}{from.slots, from.samples} {
						for range cap(slots) {
							slots <- struct{}{}
						}
					}
				})
				time.Sleep(2 * period) // the sample waits
				for range cap(from.slots) {
					<-from.slots
				}
				w.show(t, test.state, time.Now().Add(-time.Minute))
				time.Sleep(againIfAlive)
				if got := w.findings(); got != test.want {
					t.Errorf("found %s while a sample waits, want %s", got, test.want)
				}
				changed := memberSecret("10.2.0.0/16")
				changed.ResourceVersion = "2"
				if _, err := w.client.CoreV1().Secrets("mcs-system").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(period + 3*connectTimeout)
				w.network.set(func() { w.network.dialed = map[string]int{} })
				for range cap(from.samples) {
					<-from.samples
				}
				time.Sleep(10 * time.Second)
				w.network.set(func() {
					if len(w.network.dialed) > 0 {
						t.Errorf("asked %v", w.network.dialed)
					}
				})
			})
		})
	}
}

// R303, R311: connections to endpoints of others delay neither those that tell whether this
// cluster has a problem, nor control connections.
func TestOwnAndControlConnectionsAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
			w.network.alive["10.0.0.1:80"] = true
		})
		time.Sleep(10 * time.Second)
		for range allAtOnce {
			w.asker.slots <- struct{}{}
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !w.hasVantagePoint(ctx, begun) || w.asker.controlAnswers(ctx, netip.MustParseAddrPort("10.1.0.1:443")) {
			t.Error("no vantage point, or everything answers")
		}
		if took := time.Since(begun); took > 2*connectTimeout {
			t.Errorf("it took %s", took)
		}
	})
}
