// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// watchFindings returns for how long each finding about web was seen in a time.
func watchFindings(w *world, passed time.Duration) map[liveness.Finding]time.Duration {
	found := map[liveness.Finding]time.Duration{}
	for end := time.Now().Add(passed); time.Now().Before(end); time.Sleep(time.Second) {
		found[w.Finding("east", types.NamespacedName{Namespace: "shop", Name: "web"})] += time.Second
	}
	return found
}

// R301: a service of which half of the endpoints answer all the time is alive, also if those
// of one node do not.
func TestServiceIsAliveIfHalfOfItsEndpointsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "east", "web", corev1.ProtocolTCP, "10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.2.1", "10.1.2.2", "10.1.2.3")
			for _, alive := range []string{"10.1.2.1:80", "10.1.2.2:80", "10.1.2.3:80"} {
				w.network.alive[alive] = true
			}
		})
		seen := time.Now()
		time.Sleep(liveness.StaleAfter)
		w.show(t, clustersetv1alpha1.MemberStale, seen)
		time.Sleep(45 * time.Second)
		w.show(t, clustersetv1alpha1.MemberLost, seen)
		if found := watchFindings(w, 10*time.Minute); found[liveness.Silent] > 0 {
			t.Errorf("three endpoints answer all the time, found %v", found)
		}
	})
}

// R301: so is a dual-stack service, in a cluster whose Pods have no IPv6 route.
func TestServiceIsAliveIfOneFamilyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast+",fd00::/64", func(w *world) {
			w.export(t, "east", "web", corev1.ProtocolTCP, "10.1.2.1", "10.1.2.2", "10.1.2.3", "fd00::1", "fd00::2", "fd00::3")
			for _, alive := range []string{"10.1.2.1:80", "10.1.2.2:80", "10.1.2.3:80"} {
				w.network.alive[alive] = true
			}
		})
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		if found := watchFindings(w, 10*time.Minute); found[liveness.Silent] > 0 {
			t.Errorf("all IPv4 endpoints answer all the time, found %v", found)
		}
	})
}

// R301: endpoints of an IP family with which a service is not imported are not asked.
func TestFamiliesThatAreNotImportedAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast+",fd00::/64", func(w *world) {
			w.export(t, "east", "web", corev1.ProtocolTCP, "10.1.2.1", "fd00::1")
			w.export(t, "east", "six", corev1.ProtocolTCP, "10.1.2.1", "fd00::1")
			imports := w.own.MulticlusterX().V1beta1().ServiceImports().Informer().GetIndexer()
			for name, family := range map[string]corev1.IPFamily{"web": corev1.IPv4Protocol, "six": corev1.IPv6Protocol} {
				w.hold(t, imports, &multiclusterxv1beta1.ServiceImport{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
					Spec:       multiclusterxv1beta1.ServiceImportSpec{IPFamilies: []corev1.IPFamily{family}},
				})
			}
			w.network.alive["[fd00::1]:80"] = true
		})
		time.Sleep(time.Minute)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		if got := w.findingsOf("web", "six"); got != "Silent Answers" {
			t.Errorf("found %s", got)
		}
	})
}

// R301: an answer renews the lease: a failure of some seconds is not one of the TTL.
func TestShortFailureIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(5 * time.Second)
		var answered time.Time
		for range 5 { // failures of 4 seconds
			time.Sleep(25 * time.Second)
			answered = time.Now()
			w.network.set(func() { w.network.alive["10.1.0.1:80"] = false })
			time.Sleep(4 * time.Second)
			w.network.set(func() { w.network.alive["10.1.0.1:80"] = true })
			if got := w.findingsOf("web"); got == string(liveness.Silent) {
				t.Errorf("found %s, although it answered %s ago", got, time.Since(answered))
			}
		}
	})
}

// R301: it takes longer than the TTL to ask all services of the member, most of which are dead.
// One that answers is asked in time, and a failure of some seconds is not one of the TTL.
func TestDeadServicesDoNotDelayThoseThatAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead = 1400 // it takes 70 seconds
		w := start(t, inEast, func(w *world) {
			w.network.alive["10.1.0.1:80"] = true
			for i := range dead {
				w.export(t, "east", fmt.Sprint("dead-", i), corev1.ProtocolTCP, "10.1.1.1", "10.1.1.2", "10.1.1.3")
			}
		})
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		found := watchFindings(w, 3*time.Minute)
		for range 2 {
			w.network.set(func() { w.network.alive["10.1.0.1:80"], w.network.dialed = false, map[string]int{} })
			for asked := 0; asked < minAttempts; time.Sleep(connectTimeout) {
				w.network.set(func() { asked = w.network.dialed["10.1.0.1:80"] })
				found[w.Finding("east", types.NamespacedName{Namespace: "shop", Name: "web"})] += connectTimeout
			}
			w.network.set(func() { w.network.alive["10.1.0.1:80"], w.network.dialed = true, map[string]int{} })
			for finding, passed := range watchFindings(w, 3*time.Minute) {
				found[finding] += passed
			}
			w.network.set(func() {
				if got := w.network.dialed["10.1.0.1:80"]; got < 3*60/20 {
					t.Errorf("asked %d times in three minutes", got)
				}
			})
		}
		if found[liveness.Silent] > 0 || found[liveness.Answers] < 8*time.Minute {
			t.Errorf("found %v", found)
		}
	})
}

// R315: services answer at the last of their ports only. Samples have found that, of all.
func TestPortThatAnsweredSamplesIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := []string{"app", "web", "zoo"}
		w := start(t, inEast, func(w *world) {
			for _, name := range services {
				w.exportPorts(t, "shop", "east", name, tcp(1001, 1002, 1003, 1004, 1005), "10.1.0.1")
			}
			w.network.alive["10.1.0.1:1005"] = true
		})
		time.Sleep(20*time.Minute - 5*time.Second)
		w.network.set(func() { w.network.dialed = map[string]int{} })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(2 * period)
		if got := w.findingsOf(services...); got != "Answers Answers Answers" {
			t.Errorf("found %s, although port 1005 answers all the time", got)
		}
		w.network.set(func() {
			if len(w.network.dialed) != 1 || w.network.dialed["10.1.0.1:1005"] == 0 {
				t.Errorf("asked %v", w.network.dialed)
			}
		})
	})
}

// R303, R306: that everything answers at the ports of some services is no problem of the member,
// and changes nothing that is written.
func TestSamplesThatSayNothingAboutSomeServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			for i := range 6 {
				w.exportPorts(t, "shop", "east", fmt.Sprint("mesh-", i), tcp(8080), "10.1.0.3")
			}
			w.network.alive["10.1.0.1:80"], w.network.alive["10.1.0.3:8080"], w.network.alive["192.0.2.1:8080"] = true, true, true
		})
		time.Sleep(5 * time.Minute)
		if look := w.recordedLook(t); look == nil || look.Answers != 1 || look.Problem != "" {
			t.Errorf("recorded %+v", look)
		}
		before := w.writes()
		time.Sleep(20 * time.Minute)
		if got := w.writes() - before; got > 0 {
			t.Errorf("%d writes although nothing changed", got)
		}
	})
}

// R315: of a service with five ports that answers no samples, all ports are asked before the
// TTL.
func TestAllPortsAreAskedBeforeTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.exportPorts(t, "shop", "east", "web", tcp(1001, 1002, 1003, 1004, 1005), "10.1.0.1", "10.1.0.2", "10.1.0.3")
		})
		seen := time.Now()
		time.Sleep(liveness.StaleAfter)
		w.network.set(func() { w.network.alive["10.1.0.2:1005"] = true })
		w.show(t, clustersetv1alpha1.MemberStale, seen)
		time.Sleep(45 * time.Second)
		w.show(t, clustersetv1alpha1.MemberLost, seen)
		if got := w.findingsOf("web"); got != string(liveness.Answers) {
			t.Errorf("found %s at the TTL, although port 1005 answers all the time", got)
		}
	})
}

// R301: a service that answered an earlier leader in the same silence counts for the TTL, too.
func TestAnswersToAnEarlierLeaderCountForTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		time.Sleep(time.Minute)
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		w.network.set(func() { w.network.alive["10.1.0.1:80"] = false })
		w.reelect(t)
		if found := watchFindings(w, time.Minute); found[liveness.Silent] > 0 {
			t.Errorf("found %v within the TTL", found)
		}
		time.Sleep(2 * againIfAlive)
		if got := w.findingsOf("web"); got != string(liveness.Silent) {
			t.Errorf("found %s after the TTL", got)
		}
	})
}
