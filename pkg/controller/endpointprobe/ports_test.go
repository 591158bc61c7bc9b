// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func tcp(numbers ...int32) []discoveryv1.EndpointPort {
	var ports []discoveryv1.EndpointPort
	for _, number := range numbers {
		ports = append(ports, discoveryv1.EndpointPort{Port: ptr.To(number)})
	}
	return ports
}

// R315: a port at which everything answers, or nobody listens, says nothing about other ports
// and Services.
func TestPortSaysNothingAboutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.exportPorts(t, "shop", "east", "api", tcp(8080), "10.1.0.3")
			w.exportPorts(t, "shop", "east", "proxied", tcp(80, 8080), "10.1.0.4")
			w.exportPorts(t, "shop", "east", "closed", tcp(7070, 8080), "10.1.0.5")
			for _, address := range []string{"192.0.2.1:80", "10.1.0.1:80", "10.1.0.4:80", "10.1.0.3:8080", "10.1.0.4:8080", "10.1.0.5:8080"} {
				w.network.alive[address] = true
			}
		})
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(20 * time.Second)
		if got := w.findingsOf("web", "api", "proxied", "closed"); got != "Unaskable Answers Answers Answers" {
			t.Errorf("found %s", got)
		}
		if look := w.recordedLook(t); look == nil || look.Problem != "" || look.Answers != 3 {
			t.Errorf("look: %+v", look)
		}
		w.reported()
		time.Sleep(10 * time.Minute)
		if changes := w.reported(); changes != "" {
			t.Errorf("findings change: %s", changes)
		}
	})
}

// R311: a missing route fails connections at once; they are tried again, but not at once.
func TestAttemptsAreSomeTimeApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, attempts := time.Now(), 0
		asker := newAsker(func(context.Context, string, string) (net.Conn, error) {
			attempts++
			return nil, errors.New("no route to host")
		}, clock.RealClock{})
		answer := asker.ask(t.Context(), [][]netip.AddrPort{{netip.MustParseAddrPort("10.1.0.1:80")}})
		if elapsed := time.Since(begun); !answer.silent || attempts != minAttempts || elapsed < attemptInterval {
			t.Errorf("%+v after %d attempts in %s", answer, attempts, elapsed)
		}
	})
}
