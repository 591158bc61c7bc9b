// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
)

// limitedTo sets what may be written because of a member.
func limitedTo(perSecond, burst int) func(*Controller) {
	return func(c *Controller) { c.volume = pace.NewTurns[key](clock.RealClock{}, perSecond, burst) }
}

// sized returns a ready endpoint that makes its slice larger by a number of bytes.
func sized(address string, bytes int) []discoveryv1.Endpoint {
	endpoints := ready(address)
	endpoints[0].Zone = ptr.To(strings.Repeat("z", bytes))
	return endpoints
}

// R444: endpoints that change all the time are written as far as the limit allows, and the
// last state is written. Others are written at once, and so are deletions.
func TestBytesWrittenBecauseOfAMemberAreLimited(t *testing.T) {
	const perSecond, burst, size, services, seconds = 4 << 10, 32 << 10, 2 << 10, 10, 30
	runWith(t, 0, limitedTo(perSecond, burst), func(t *testing.T, h *host) {
		start := time.Now()
		for i := range seconds * 10 {
			for service := range services {
				h.export(t, named(fmt.Sprintf("flood-%d", service), exportedBy("hostile", sized(fmt.Sprintf("10.3.%d.1", i%250), size))))
				synctest.Wait() // the fake watch has a limited buffer
			}
			if i%50 == 25 {
				h.export(t, named("honest", exportedBy("east", sized(fmt.Sprintf("10.1.%d.1", i%250), size))))
				before := time.Now()
				synctest.Wait()
				if _, ok := h.writtenAfter(before, "east"); !ok {
					t.Error("change of another cluster was not written at once")
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		passed := int(time.Since(start).Seconds())
		if wrote := h.wroteBytes("hostile"); wrote > burst+(passed+1)*perSecond || wrote < (burst+passed*perSecond)*9/10 {
			t.Errorf("%d bytes were written in %d s, want about %d", wrote, passed, burst+passed*perSecond)
		}
		if err := h.served.Tracker().Delete(clustersetv1alpha1.SchemeGroupVersion.WithResource("exportedservices"), web.Namespace, "flood-0.hostile"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeInterval)
		synctest.Wait()
		if addresses := strings.Split(h.imported(t, "hostile"), ","); len(addresses) != services-1 {
			t.Errorf("endpoints of %d services are imported, although one of %d was withdrawn", len(addresses), services)
		}
		for service := range services - 1 {
			h.export(t, named(fmt.Sprintf("flood-%d", service+1), exportedBy("hostile", sized("10.3.255.1", size))))
			synctest.Wait()
		}
		time.Sleep(2 * services * size / perSecond * time.Second)
		if got, want := h.imported(t, "hostile"), strings.Repeat(",10.3.255.1", services-1)[1:]; got != want {
			t.Errorf("imported endpoints are %s in the end", got)
		}
	})
}

// R444: endpoints that are withdrawn are deleted at once, also if others of the same
// service have to wait for their turn.
func TestDeletionsAreNotLimited(t *testing.T) {
	runWith(t, 0, limitedTo(1, 4<<10), func(t *testing.T, h *host) {
		export := exportedBy("west", ready("10.3.0.1"))
		withdrawn := export.slices[0].DeepCopy()
		withdrawn.Name, withdrawn.Spec.Endpoints = "web-xyz.west", ready("10.3.0.9")
		h.serve(t, "exportedendpointslices", withdrawn)
		h.export(t, export)
		synctest.Wait()
		if got := h.imported(t, "west"); !strings.Contains(got, "10.3.0.1") || !strings.Contains(got, "10.3.0.9") {
			t.Fatalf("imported endpoints are %s", got)
		}
		h.export(t, exportedBy("west", sized("10.3.0.2", 8<<10)))
		synctest.Wait()
		if err := h.served.Tracker().Delete(clustersetv1alpha1.SchemeGroupVersion.WithResource("exportedendpointslices"), withdrawn.Namespace, withdrawn.Name); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := h.imported(t, "west"); got != "10.3.0.1" {
			t.Errorf("imported endpoints are %s, want the first one", got)
		}
	})
}

// R444, R493: derived Services count as well, also if other members export them. Their changes
// are written at once.
func TestBytesOfDerivedServicesAreLimited(t *testing.T) {
	const perSecond, burst, seconds = 32 << 10, 1 << 20, 30
	for name, others := range map[string][]string{"alone": nil, "with a cluster behind it": {"behind"}, "with another member": {"east"}} {
		t.Run(name, func(t *testing.T) {
			runWith(t, 0, limitedTo(perSecond, burst), func(t *testing.T, h *host) {
				h.serve(t, "members", &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "behind"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "behind", Path: []string{"behind", "hostile"}}})
				for _, cluster := range append(others, "hostile") {
					h.export(t, exportedBy(cluster, ready("10.3.0.1")))
					synctest.Wait()
				}
				time.Sleep(2 * changeVisible)
				change := func(cluster string, round int32) {
					export := exportedBy(cluster, ready("10.3.0.1")).service
					export.ResourceVersion = fmt.Sprint(round)
					h.serve(t, "exportedservices", export)
					h.serve(t, "serviceimports", newImport(func(s *multiclusterxv1beta1.ServiceImport) {
						for port := range int32(50) {
							s.Spec.Ports = append(s.Spec.Ports, multiclusterxv1beta1.ServicePort{Name: fmt.Sprintf("port-%058d", port), Protocol: corev1.ProtocolTCP, Port: 1000*round + port})
						}
					}))
				}
				for round := range int32(seconds) {
					change("hostile", 1+round)
					time.Sleep(time.Second)
				}
				if wrote, allowed := h.wroteServices(), burst+(seconds+1)*perSecond; wrote > allowed || wrote < allowed/2 {
					t.Errorf("%d bytes were written, the limit is %d", wrote, allowed)
				}
				last := int32(seconds)
				if slices.Contains(others, "east") {
					last++
					change("east", last)
					synctest.Wait()
				} else {
					time.Sleep(time.Minute)
				}
				service, err := h.client.CoreV1().Services(web.Namespace).Get(t.Context(), derived, metav1.GetOptions{})
				if err != nil || len(service.Spec.Ports) != 51 || service.Spec.Ports[50].Port != last*1000+49 {
					t.Errorf("in the end, the last port is %v, want %d: %v", service.Spec.Ports[len(service.Spec.Ports)-1].Port, last*1000+49, err)
				}
			})
		})
	}
}

// wroteServices returns how many bytes the updates of derived Services count as.
func (h *host) wroteServices() int {
	wrote := 0
	for _, action := range h.client.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok && action.GetResource().Resource == "services" {
			service := update.GetObject().(*corev1.Service)
			wrote += serviceVolume(service)
		}
	}
	return wrote
}

// R444: what is larger than a burst is written, also while small changes of the same member
// are written all the time.
func TestLargeChangesAreNotOvertakenForever(t *testing.T) {
	runWith(t, 0, limitedTo(1<<10, 4<<10), func(t *testing.T, h *host) {
		for i := range 100 {
			if i == 20 {
				h.export(t, named("large", exportedBy("hostile", sized("10.3.255.1", 20<<10))))
				synctest.Wait()
			}
			for service := range 5 {
				h.export(t, named(fmt.Sprintf("small-%d", service), exportedBy("hostile", sized(fmt.Sprintf("10.3.%d.1", i), 500))))
				synctest.Wait()
			}
			time.Sleep(time.Second)
		}
		if got := h.imported(t, "hostile"); !strings.Contains(got, "10.3.255.1") {
			t.Errorf("imported endpoints are %s", got)
		}
	})
}

// R444: all that a member exports is imported at once for the first time.
func TestFirstImportIsNotLimited(t *testing.T) {
	limited := pace.NewTurns[key](testingclock.NewFakePassiveClock(time.Now()), volumePerSecond, volumeBurst)
	bytes := only(t, slicesOf(newImport(), exportedBy("west", ready("10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5")))).Size()
	for service := range 10_000 {
		if wait := limited.Wait(numberedKey(service), []string{"west"}, bytes); wait > 0 {
			t.Fatalf("service %d of %d bytes has to wait for %s", service, bytes, wait)
		}
	}
}

// R444: Services with many ports, which take their host long, are written rarely if they keep
// changing. Others are not limited before their bytes are.
func TestManyPortsCountAsMoreBytes(t *testing.T) {
	volume := func(ports int) int {
		return serviceVolume(&corev1.Service{Spec: corev1.ServiceSpec{Ports: make([]corev1.ServicePort, ports)}})
	}
	if got, most := volume(clusterset.MaxPorts), volumeBurst/volume(clusterset.MaxPorts); most > 40 {
		t.Errorf("a Service with %d ports counts as %d bytes, so that %d of them are written at once", clusterset.MaxPorts, got, most)
	}
	if got := volume(usualPorts); got > 200*usualPorts {
		t.Errorf("a Service with %d ports counts as %d bytes", usualPorts, got)
	}
}

func numberedKey(number int) key {
	return key{types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(number)}, "west"}
}

// R444: a hub has one limit for all clusters that it relays.
func TestRelayedClustersShareTheLimitOfTheirHub(t *testing.T) {
	const perSecond, burst, size, clusters = 1 << 10, 8 << 10, 2 << 10, 20
	runWith(t, 0, limitedTo(perSecond, burst), func(t *testing.T, h *host) {
		for number := range clusters {
			id := fmt.Sprintf("behind-%d", number)
			h.serve(t, "members", &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: id}, Status: clustersetv1alpha1.MemberStatus{ClusterID: id, Path: []string{id, "hub"}}})
			synctest.Wait()
			h.export(t, named("web-"+id, exportedBy(id, sized("10.3.0.1", size))))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		wrote := 0
		for number := range clusters {
			wrote += h.wroteBytes(fmt.Sprintf("behind-%d", number))
		}
		if wrote == 0 || wrote > burst+2*perSecond {
			t.Errorf("%d bytes were written, want at most %d", wrote, burst+2*perSecond)
		}
	})
}

// R444: slices that are replaced because a namespace asks for another form are not written because
// of a member: its changes do not wait for them, neither of other services nor of the same.
func TestChangesDoNotWaitForAnotherForm(t *testing.T) {
	const size = 8 << 10
	runWith(t, 0, limitedTo(size/8, 9*size/2), func(t *testing.T, h *host) {
		h.export(t, exportedBy("east", sized("10.1.0.1", size)))
		synctest.Wait()
		time.Sleep(time.Minute) // all may be written at once again
		for _, form := range []changeImport{separately, together, separately} {
			h.serve(t, "serviceimports", newImport(form))
			synctest.Wait()
		}
		if got := h.imported(t, "east"); got != "10.1.0.1" {
			t.Fatalf("imported endpoints are %s; the last change of the form has to wait for this test", got)
		}
		h.export(t, named("other", exportedBy("east", sized("10.1.1.1", size))))
		h.serve(t, "exportedendpointslices", exportedBy("east", sized("10.1.0.2", size)).slices[0])
		synctest.Wait()
		if got := h.imported(t, "east"); got != "10.1.0.2,10.1.1.1" && got != "10.1.1.1,10.1.0.2" {
			t.Errorf("imported endpoints are %s, want both changes", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := h.imported(t, "east"); strings.Count(got, "10.1.0.2") != 2 || strings.Count(got, ",") != 2 {
			t.Errorf("imported endpoints are %s in the end, want separate ones of the first service", got)
		}
	})
}
