// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// network is what answers connections.
type network struct {
	mu sync.Mutex
	// alive are the addresses with ports that accept connections.
	alive map[string]bool
	// everything is set if all do.
	everything bool
	hostDown   bool
	// hostAsked is how often the Kubernetes API was asked.
	hostAsked int
	// dialed are all addresses that were asked, and open the connections at present.
	dialed    map[string]int
	open, max int
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed[address]++
	n.open++
	n.max = max(n.max, n.open)
	alive := n.alive[address] || n.everything
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.open--
		n.mu.Unlock()
	}()
	if !alive {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	theirs.Close()
	return ours, nil
}

func (n *network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *network) host(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hostAsked++
	if n.hostDown {
		return errors.New("down")
	}
	return nil
}

// world is a prober in a cluster with one member, east, which exports the Services web at
// 10.1.0.1 and dns, which has UDP only.
type world struct {
	*Prober
	network   *network
	client    *kubernetesfake.Clientset
	installed informers.SharedInformerFactory
	own       mcsinformers.SharedInformerFactory
	members   cache.Indexer
	// resign ends the term of the leader.
	resign  func()
	mu      sync.Mutex
	changes []string
}

const kubeconfig = `{"apiVersion": "v1", "kind": "Config", "current-context": "east",
	"contexts": [{"name": "east", "context": {"cluster": "east", "user": "east"}}],
	"clusters": [{"name": "east", "cluster": {"server": "https://east.example.com"}}],
	"users": [{"name": "east", "user": {"token": "secret"}}]}`

func memberSecret(cidrs string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-east", UID: "secret", ResourceVersion: "1"}, Data: map[string][]byte{
		clusterset.MemberSecretClusterID: []byte("east"), clusterset.MemberSecretKubeconfig: []byte(kubeconfig), clusterset.MemberSecretAllowedCIDRs: []byte(cidrs),
	}}
}

func start(t *testing.T, cidrs string, changes ...func(*world)) *world {
	t.Helper()
	lease := sighting.Record(nil, sighting.Sighting{Member: "east", UID: "uid-east", At: time.Now()}, 60)
	lease.Namespace = "mcs-system"
	w := &world{client: kubernetesfake.NewClientset(memberSecret(cidrs), lease), network: &network{alive: map[string]bool{}, dialed: map[string]int{}}}
	ctx, cancel := context.WithCancel(t.Context())
	w.installed = informers.NewSharedInformerFactory(w.client, 0)
	w.own = mcsinformers.NewSharedInformerFactory(mcsfake.NewSimpleClientset(), 0)
	w.elect(t)
	w.installed.StartWithContext(ctx)
	w.own.StartWithContext(ctx)
	w.own.WaitForCacheSyncWithContext(ctx)
	w.members = w.own.ClusterSet().V1alpha1().Members().Informer().GetIndexer()
	w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Status: clustersetv1alpha1.MemberStatus{State: clustersetv1alpha1.MemberLocal}})
	w.export(t, "east", "web", corev1.ProtocolTCP, "10.1.0.1")
	w.export(t, "east", "dns", corev1.ProtocolUDP, "10.1.0.2")
	w.show(t, clustersetv1alpha1.MemberConnected, time.Now())
	synctest.Wait() // the informers have asked; PrependReactor does not lock
	for _, change := range changes {
		change(w)
	}
	w.lead(ctx)
	t.Cleanup(func() {
		w.resign()
		cancel()
		w.installed.Shutdown()
		w.own.Shutdown()
	})
	return w
}

// elect makes another Prober, as every leader has.
func (w *world) elect(t *testing.T) {
	t.Helper()
	var err error
	w.Prober, err = New(Config{
		Leases: w.client.CoordinationV1(), Namespace: "mcs-system", Clock: clock.RealClock{}, Dial: w.network.dial, Host: w.network.host,
		Installed: w.installed, Members: w.installed, Own: w.own,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.OnChange(func(cluster string, service types.NamespacedName) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changes = append(w.changes, cluster+" "+service.String())
	})
}

func (w *world) lead(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	prober := w.Prober
	running.Go(func() { _ = prober.Run(ctx) })
	w.resign = func() {
		cancel()
		running.Wait()
	}
}

// reelect replaces the leader, which takes its memory with it.
func (w *world) reelect(t *testing.T) {
	t.Helper()
	w.resign()
	w.elect(t)
	w.lead(t.Context())
}

// reported returns what was reported to have changed since it was last called.
func (w *world) reported() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := strings.Join(w.changes, ",")
	w.changes = nil
	return changes
}

func (w *world) hold(t *testing.T, in cache.Indexer, object runtime.Object) {
	t.Helper()
	if err := in.Update(object); err != nil {
		t.Fatal(err)
	}
}

func (w *world) export(t *testing.T, cluster, service string, protocol corev1.Protocol, addresses ...string) {
	t.Helper()
	w.exportPorts(t, "shop", cluster, service, []discoveryv1.EndpointPort{{Protocol: &protocol, Port: ptr.To[int32](80)}}, addresses...)
}

func (w *world) exportPorts(t *testing.T, namespace, cluster, service string, ports []discoveryv1.EndpointPort, addresses ...string) {
	t.Helper()
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: clusterset.ObjectName(service, cluster), Labels: clusterset.SourceLabels(cluster, service)}
	w.hold(t, w.exported, &clustersetv1alpha1.ExportedService{ObjectMeta: metadata, Spec: clustersetv1alpha1.ExportedServiceSpec{Cluster: cluster, Service: service}})
	slice := &clustersetv1alpha1.ExportedEndpointSlice{ObjectMeta: metadata, Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
		Cluster: cluster, Service: service, Ports: ports,
	}}
	for _, address := range addresses {
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	w.hold(t, w.slices, slice)
}

// show makes the server show a state of the member.
func (w *world) show(t *testing.T, state clustersetv1alpha1.MemberState, seen time.Time) {
	t.Helper()
	w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "secret"}, Status: clustersetv1alpha1.MemberStatus{
		ClusterID: "east", ClusterUID: "uid-east", State: state, TTLSeconds: 60, LastSeen: ptr.To(metav1.NewTime(seen)), Expired: state == clustersetv1alpha1.MemberLost,
	}})
}

// showOverdue makes the server show that the member has been silent for too long.
func (w *world) showOverdue(t *testing.T, seen time.Time) {
	t.Helper()
	w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "secret"}, Status: clustersetv1alpha1.MemberStatus{
		ClusterID: "east", ClusterUID: "uid-east", State: clustersetv1alpha1.MemberLost, TTLSeconds: 60, LastSeen: ptr.To(metav1.NewTime(seen)), Expired: true, Overdue: true,
	}})
}

func (w *world) findings() string { return w.findingsOf("web", "dns") }

func (w *world) findingsOf(services ...string) string {
	var found []string
	for _, name := range services {
		found = append(found, string(w.Finding("east", types.NamespacedName{Namespace: "shop", Name: name})))
	}
	return strings.Join(found, " ")
}

// recordedLook returns what the Lease says.
func (w *world) recordedLook(t *testing.T) *liveness.Look {
	t.Helper()
	return sighting.LookFromLease(w.lease(t))
}

func (w *world) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := w.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), "member-east", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// renew records when the member was seen, as mcs-apiserver does.
func (w *world) renew(t *testing.T, seen time.Time) {
	t.Helper()
	lease := sighting.Record(w.lease(t), sighting.Sighting{Member: "east", UID: "uid-east", At: seen}, 60)
	if _, err := w.client.CoordinationV1().Leases("mcs-system").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) writes() int {
	count := 0
	for _, action := range w.client.Actions() {
		if action.GetVerb() == "update" {
			count++
		}
	}
	return count
}

const inEast = "10.1.0.0/16"

// R301, R303, R306: the endpoints of a silent member are asked, service by service, and the
// outcome is in its Lease. Services without TCP cannot be asked.
func TestEndpointsOfASilentMemberAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		seen := time.Now()
		time.Sleep(liveness.StaleAfter)
		if got := w.findings(); got != "Pending Pending" {
			t.Errorf("found %s while the member responded", got)
		}
		if look := w.recordedLook(t); look == nil || !look.Sample || look.Answers != 1 {
			t.Errorf("sample: %+v", look)
		}
		w.show(t, clustersetv1alpha1.MemberStale, seen)
		time.Sleep(10 * time.Second)
		if got := w.findings(); got != "Answers Unaskable" {
			t.Errorf("found %s while it answers", got)
		}
		look := w.recordedLook(t)
		if look == nil || look.Sample || look.Answers != 1 || look.Unaskable != 1 || !slices.Equal(look.Services, []string{"shop/web"}) || look.At.Before(seen) {
			t.Errorf("look: %+v", look)
		}
		before := w.writes()
		time.Sleep(10 * time.Minute)
		if got := w.writes() - before; got != 0 {
			t.Errorf("%d writes although nothing changed", got)
		}
		w.network.set(func() { w.network.alive["10.1.0.1:80"] = false })
		w.reported()
		time.Sleep(time.Minute - againIfAlive) // the TTL, from the last answer on
		if got := w.findings(); got != "Answers Unaskable" {
			t.Errorf("found %s within the TTL of its last answer", got)
		}
		time.Sleep(2*againIfAlive + 2*minAttempts*connectTimeout + 2*period)
		changes := w.reported()
		if got := w.findings(); got != "Silent Unaskable" || changes != "east shop/web" {
			t.Errorf("found %s when it does not answer, and %q was reported", got, changes)
		}
		w.network.set(func() { w.network.alive["10.1.0.1:80"] = true })
		time.Sleep(againIfSilent + 2*period + connectTimeout)
		if got := w.findings(); got != "Answers Unaskable" {
			t.Errorf("found %s when it answers again", got)
		}
		w.show(t, clustersetv1alpha1.MemberConnected, time.Now())
		time.Sleep(2 * publishInterval)
		if got, look := w.findings(), w.recordedLook(t); got != "Pending Pending" || !look.Sample {
			t.Errorf("found %s, recorded %+v when the member responds again", got, look)
		}
	})
}

// R303: without allowed CIDRs, and outside of them, nothing is asked.
func TestOnlyAllowedAddressesAreAsked(t *testing.T) {
	for cidrs, want := range map[string]string{"": "Unaskable Unaskable", "10.2.0.0/16": "Unaskable Unaskable"} {
		t.Run(cidrs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, cidrs, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
				w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
				time.Sleep(time.Minute)
				if got := w.findings(); got != want {
					t.Errorf("found %s, want %s", got, want)
				}
				w.network.set(func() {
					if len(w.network.dialed) > 0 {
						t.Errorf("asked %v", w.network.dialed)
					}
				})
				problem := liveness.Problem("")
				if cidrs == "" {
					problem = liveness.NoAllowedCIDRs
				}
				if look := w.recordedLook(t); look == nil || look.Unaskable != 2 || look.Problem != problem {
					t.Errorf("look: %+v", look)
				}
			})
		})
	}
}

// R304: of a cluster that a hub relays, the addresses are asked that the Secret of the hub
// allows, and nothing is found out if the hub is not known. Endpoints of another cluster that exports the same
// service say nothing.
func TestEndpointsOfARelayedClusterAreAskedAsTheHubAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) {
			w.export(t, "far", "web", corev1.ProtocolTCP, "10.1.0.7")
			w.network.alive["10.1.0.1:80"] = true
		})
		relayed := func(hub string) string {
			w.hold(t, w.members, &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "far", UID: "relayed"}, Status: clustersetv1alpha1.MemberStatus{
				ClusterID: "far", ClusterUID: "uid-far", State: clustersetv1alpha1.MemberLost, TTLSeconds: 60, Expired: true,
				LastSeen: ptr.To(metav1.NewTime(time.Now().Add(-time.Minute))), Path: []string{"far", hub},
			}})
			time.Sleep(20 * time.Second)
			return string(w.Finding("far", types.NamespacedName{Namespace: "shop", Name: "web"}))
		}
		if got := relayed("east"); got != "Silent" {
			t.Errorf("found %s", got)
		}
		if got := relayed("nobody"); got != "Pending" {
			t.Errorf("found %s without its hub", got)
		}
	})
}

// R303: where an address that nobody has answers, connections say nothing.
func TestConnectionsSayNothingWhereEverythingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.everything = true })
		time.Sleep(publishInterval)
		if look := w.recordedLook(t); look == nil || !look.Sample || look.Problem != liveness.EverythingAnswers {
			t.Errorf("sample: %+v", look)
		}
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(time.Minute)
		if got := w.findings(); got != "Unaskable Unaskable" {
			t.Errorf("found %s", got)
		}
		w.network.set(func() { w.network.everything, w.network.alive["10.1.0.1:80"] = false, true })
		time.Sleep(controlInterval + againIfSilent + 10*time.Second)
		if got := w.findings(); got != "Answers Unaskable" {
			t.Errorf("found %s when only the endpoint answers", got)
		}
	})
}

// R303: where nothing ever answers, connections say nothing.
func TestConnectionsSayNothingWhereNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		time.Sleep((minSamples + 1) * sampleInterval)
		if look := w.recordedLook(t); look == nil || !look.Sample || look.Problem != liveness.NothingAnswers {
			t.Errorf("sample: %+v", look)
		}
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(time.Minute)
		if look := w.recordedLook(t); look == nil || look.Sample || look.Problem != liveness.NothingAnswers || look.Silent != 1 {
			t.Errorf("look: %+v", look)
		}
	})
}

// R311: while this cluster cannot reach its own API or endpoints either, nothing is found to
// be silent.
func TestVantagePointComesFirst(t *testing.T) {
	ownAPI := func(w *world) { w.network.set(func() { w.network.hostDown = true }) }
	ownEndpoints := func(w *world) { w.network.set(func() { w.network.alive = map[string]bool{} }) }
	for name, fail := range map[string]func(*testing.T, *world){
		"own API":       func(_ *testing.T, w *world) { ownAPI(w) },
		"own endpoints": func(_ *testing.T, w *world) { ownEndpoints(w) },
		"own endpoints, and the leader changes": func(t *testing.T, w *world) {
			t.Helper()
			ownEndpoints(w)
			w.reelect(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, inEast, func(w *world) {
					w.export(t, "here", "own", corev1.ProtocolTCP, "10.0.0.1")
					w.network.alive["10.0.0.1:80"], w.network.alive["10.1.0.1:80"] = true, true
				})
				time.Sleep(2 * publishInterval)
				w.network.set(func() { delete(w.network.alive, "10.1.0.1:80") })
				fail(t, w)
				w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
				time.Sleep(time.Minute)
				if got, look := w.findings(), w.recordedLook(t); got != "Pending Unaskable" || look.Problem != liveness.NoVantagePoint {
					t.Errorf("found %s, recorded %+v", got, look)
				}
				w.network.set(func() { w.network.hostDown, w.network.alive = false, map[string]bool{"10.0.0.1:80": true} })
				time.Sleep(time.Minute)
				if got := w.findings(); got != "Silent Unaskable" {
					t.Errorf("found %s when this cluster is fine", got)
				}
			})
		})
	}
}

// R303: what is asked is bounded: a few endpoints per Service, and a few at a time.
func TestWorkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
			w.export(t, "east", string(letter), corev1.ProtocolTCP, "10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.1.4", "10.1.1.5")
		}
		time.Sleep(10 * time.Second)
		w.network.set(func() { w.network.max, w.network.dialed = 0, map[string]int{} })
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(againIfAlive) // one round
		w.network.set(func() {
			total := 0
			for _, count := range w.network.dialed {
				total += count
			}
			if total < 26*minAttempts || w.network.max < 2 {
				t.Errorf("only %d connections, %d at once", total, w.network.max)
			}
			if w.network.max > atOnce || total > 26*maxTargets+minAttempts {
				t.Errorf("%d connections, %d at once", total, w.network.max)
			}
		})
	})
}

// R314: of a member with many services that is gone, 20 services with a port are decided per second.
func TestManyDeadServicesAreFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const services = 800
		w := start(t, inEast, func(w *world) {
			for i := range services {
				w.export(t, "east", fmt.Sprint("dead-", i), corev1.ProtocolTCP, "10.1.1.1", "10.1.1.2", "10.1.1.3")
			}
		})
		w.show(t, clustersetv1alpha1.MemberLost, time.Now().Add(-time.Minute))
		time.Sleep(services/20*time.Second + 3*connectTimeout + 2*period)
		for i := range services {
			if name := fmt.Sprint("dead-", i); w.findingsOf(name) != string(liveness.Silent) {
				t.Fatalf("%s: %s", name, w.findingsOf(name))
			}
		}
	})
}

// R302: after an hour, nothing is asked any more.
func TestOverdueMemberIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast)
		time.Sleep(10 * time.Second)
		w.network.set(func() { w.network.dialed = map[string]int{} })
		seen := time.Now().Add(-liveness.MaxStale)
		w.show(t, clustersetv1alpha1.MemberLost, seen)
		time.Sleep(time.Minute)
		w.network.set(func() {
			if len(w.network.dialed) == 0 {
				t.Error("not asked before the hour is over")
			}
		})
		w.reported()
		w.showOverdue(t, seen)
		time.Sleep(10 * time.Second)
		if changes := w.reported(); changes != "east shop/dns,east shop/web" {
			t.Errorf("when the hour was over, %q was reported", changes)
		}
		w.network.set(func() { w.network.dialed = map[string]int{} })
		time.Sleep(time.Hour)
		w.network.set(func() {
			if len(w.network.dialed) > 0 {
				t.Errorf("asked %v", w.network.dialed)
			}
		})
	})
}
