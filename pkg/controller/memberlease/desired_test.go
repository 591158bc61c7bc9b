// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memberlease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// member returns a member that was last seen so long after the epoch, never if negative.
func member(state clustersetv1alpha1.MemberState, seen time.Duration, ttl int32) *clustersetv1alpha1.Member {
	entry := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: clustersetv1alpha1.MemberStatus{ClusterUID: "uid-east", State: state, TTLSeconds: ttl}}
	if seen >= 0 {
		entry.Status.LastSeen = ptr.To(metav1.NewTime(epoch.Add(seen)))
	}
	return entry
}

func lease(renewed time.Duration, ttl int32, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	result := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: "member-east", Labels: map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy},
			Annotations: map[string]string{clusterset.ClusterUIDAnnotation: "uid-east"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("east"), RenewTime: ptr.To(metav1.NewMicroTime(epoch.Add(renewed)))},
	}
	if ttl > 0 {
		result.Spec.LeaseDurationSeconds = ptr.To(ttl)
	}
	for _, change := range changes {
		change(result)
	}
	return result
}

func markedLost(lease *coordinationv1.Lease) { lease.Annotations[clusterset.LostAnnotation] = "true" }

func of(uid string) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) { lease.Annotations[clusterset.ClusterUIDAnnotation] = uid }
}

// R79: the renew time of a Lease is when its member was last known to be alive.
func TestDesiredLease(t *testing.T) {
	const connected, lost, connecting = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberLost, clustersetv1alpha1.MemberConnecting
	for _, test := range []struct {
		name     string
		existing *coordinationv1.Lease
		entry    *clustersetv1alpha1.Member
		want     *coordinationv1.Lease
		// kept is true when nothing is to be written.
		kept bool
	}{
		{name: "no member"},
		{name: "former member", existing: lease(0, 60)},
		{name: "this cluster", existing: lease(0, 60), entry: member(clustersetv1alpha1.MemberLocal, 5*time.Minute, 60)},
		{name: "refused", existing: lease(0, 60), entry: member(clustersetv1alpha1.MemberRefused, 5*time.Minute, 60)},
		{name: "never seen", entry: member(connecting, -1, 60)},
		{name: "not seen since a restart", existing: lease(0, 60), entry: member(connecting, -1, 60), want: lease(0, 60), kept: true},
		{name: "new", entry: member(connected, time.Minute, 60), want: lease(time.Minute, 60)},
		{name: "new and lost", entry: member(lost, time.Minute, 60), want: lease(time.Minute, 60, markedLost)},
		{name: "not seen since", existing: lease(time.Minute, 60), entry: member(connected, time.Minute, 60), want: lease(time.Minute, 60), kept: true},
		{name: "seen shortly after", existing: lease(time.Minute, 60), entry: member(connected, time.Minute+renewEvery-time.Second, 60), want: lease(time.Minute, 60), kept: true},
		{name: "seen later", existing: lease(time.Minute, 60), entry: member(connected, time.Minute+renewEvery, 60), want: lease(time.Minute+renewEvery, 60)},
		{name: "seen earlier by a server that lags behind", existing: lease(time.Minute, 60), entry: member(connected, 0, 60), want: lease(time.Minute, 60), kept: true},
		{name: "renewed ahead of this clock", existing: lease(2*time.Hour+maxSkew, 60), entry: member(connected, 2*time.Hour, 60), want: lease(2*time.Hour+maxSkew, 60), kept: true},
		{name: "renewed in the future", existing: lease(2*time.Hour+maxSkew+1, 60), entry: member(connected, 2*time.Hour, 60), want: lease(2*time.Hour, 60)},
		{name: "lost, and renewed in the future", existing: lease(48*time.Hour, 60), entry: member(lost, time.Hour, 60), want: lease(time.Hour, 60, markedLost)},
		{name: "lost by now", existing: lease(time.Minute, 60), entry: member(lost, time.Minute, 60), want: lease(time.Minute, 60, markedLost)},
		{name: "lost, and renewed by a clock that is ahead", existing: lease(time.Minute+maxSkew, 60), entry: member(lost, time.Minute, 60), want: lease(time.Minute+maxSkew, 60, markedLost)},
		{name: "lost, but seen since", existing: lease(time.Minute+2*maxSkew, 60), entry: member(lost, time.Minute, 60), want: lease(time.Minute+2*maxSkew, 60), kept: true},
		{name: "lost for long", existing: lease(time.Minute, 60, markedLost), entry: member(lost, time.Minute, 60), want: lease(time.Minute, 60, markedLost), kept: true},
		{name: "lost to a server that does not know of the newest sighting", existing: lease(time.Minute, 60), entry: member(lost, 0, 60), want: lease(time.Minute, 60), kept: true},
		{name: "not lost to a server that was just started", existing: lease(time.Minute, 60, markedLost), entry: member(connected, time.Minute, 60), want: lease(time.Minute, 60, markedLost), kept: true},
		{name: "found again", existing: lease(time.Minute, 60, markedLost), entry: member(connected, time.Minute+time.Second, 60), want: lease(time.Minute+time.Second, 60)},
		{name: "lost after it was seen again", existing: lease(0, 60, markedLost), entry: member(lost, time.Minute, 60), want: lease(time.Minute, 60, markedLost)},
		{name: "another cluster with the same ID", existing: lease(0, 60, of("another"), markedLost), entry: member(connected, time.Minute, 60), want: lease(time.Minute, 60)},
		{name: "another cluster that was just seen", existing: lease(time.Minute, 60, of("another")), entry: member(lost, time.Minute+time.Second, 30), want: lease(time.Minute, 60, of("another")), kept: true},
		{name: "another TTL", existing: lease(time.Minute, 60), entry: member(connected, time.Minute, 30), want: lease(time.Minute, 30)},
		{name: "no TTL", existing: lease(time.Minute, 60), entry: member(connected, time.Minute, 0), want: lease(time.Minute, 0)},
		{name: "still no TTL", existing: lease(time.Minute, 0), entry: member(connected, time.Minute, 0), want: lease(time.Minute, 0), kept: true},
		{name: "another holder", existing: func() *coordinationv1.Lease {
			l := lease(0, 60)
			l.Spec.HolderIdentity = nil
			return l
		}(), entry: member(connected, time.Hour, 60), want: lease(time.Hour, 60)},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.existing.DeepCopy()
			got := desired(test.existing, test.entry, sighting.Sighting{}, epoch.Add(2*time.Hour))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
			if kept := got != nil && got == test.existing; kept != test.kept {
				t.Errorf("got kept %t, want %t", kept, test.kept)
			}
			if diff := cmp.Diff(before, test.existing); diff != "" {
				t.Errorf("the cached object was changed: %s", diff)
			}
		})
	}
}

// R302: a member that is kept because its endpoints answer has not been seen either, so that
// a restart does not prolong its silence.
func TestLeaseOfASilentMemberIsMarkedAlthoughItsEndpointsAnswer(t *testing.T) {
	kept := member(clustersetv1alpha1.MemberStale, time.Minute, 60)
	kept.Status.Expired = true
	if diff := cmp.Diff(lease(time.Minute, 60, markedLost), desired(lease(time.Minute, 60), kept, sighting.Sighting{}, epoch.Add(2*time.Hour))); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

func TestForeignMetadataOfALeaseIsPreserved(t *testing.T) {
	existing := lease(0, 60)
	existing.Labels["team"], existing.ResourceVersion = "platform", "7"
	got := desired(existing, member(clustersetv1alpha1.MemberConnected, time.Hour, 60), sighting.Sighting{}, epoch.Add(time.Hour))
	if got.Labels["team"] != "platform" || got.ResourceVersion != "7" {
		t.Errorf("%+v", got.ObjectMeta)
	}
}

func TestForeignLeaseIsLeftAlone(t *testing.T) {
	foreign := lease(0, 60)
	foreign.Labels = nil
	for _, entry := range []*clustersetv1alpha1.Member{nil, member(clustersetv1alpha1.MemberConnected, time.Hour, 60)} {
		if got := desired(foreign, entry, sighting.Sighting{}, epoch.Add(time.Hour)); got != foreign {
			t.Errorf("want the existing Lease, got %v", got)
		}
	}
}

// replicas are controllers that share the API of one cluster, each with a server of its own.
type replicas struct {
	client  *fake.Clientset
	servers []*mcsfake.Clientset
	// unanswered is whether Leases that are created get no response.
	unanswered atomic.Bool
	// unhealthy is whether the servers are not ready.
	unhealthy atomic.Bool
	stop      func()
}

// Leases implements LeasesGetter for the controllers.
func (r *replicas) Leases(namespace string) coordinationv1client.LeaseInterface {
	return leases{r.client.CoordinationV1().Leases(namespace), r}
}

type leases struct {
	coordinationv1client.LeaseInterface
	replicas *replicas
}

func (l leases) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if l.replicas.unanswered.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.LeaseInterface.Create(ctx, lease, options)
}

// startReplicas starts controllers in a bubble of synctest, and waits until they watch: what a
// fake client is given between a list and a watch is lost.
func startReplicas(t *testing.T, count int) *replicas {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &replicas{client: fake.NewClientset()}
	var running sync.WaitGroup
	for range count {
		server := mcsfake.NewSimpleClientset()
		r.servers = append(r.servers, server)
		host := informers.NewSharedInformerFactoryWithOptions(r.client, 0, informers.WithNamespace("mcs-system"))
		own := mcsinformers.NewSharedInformerFactory(server, 0)
		controller := New(r, clock.RealClock{}, "mcs-system", host, own, func() bool { return !r.unhealthy.Load() })
		host.StartWithContext(ctx)
		own.StartWithContext(ctx)
		running.Go(func() {
			_ = controller.Run(ctx)
			host.Shutdown()
			own.Shutdown()
		})
	}
	r.stop = func() {
		cancel()
		running.Wait()
	}
	synctest.Wait()
	return r
}

var members = clustersetv1alpha1.SchemeGroupVersion.WithResource("members")

// show makes the server of a replica show a member.
func (r *replicas) show(t *testing.T, replica int, entry *clustersetv1alpha1.Member) {
	t.Helper()
	err := r.servers[replica].Tracker().Update(members, entry, "")
	if apierrors.IsNotFound(err) {
		err = r.servers[replica].Tracker().Create(members, entry, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writes returns how many writes there were.
func (r *replicas) writes() int {
	count := 0
	for _, action := range r.client.Actions() {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" && verb != "get" {
			count++
		}
	}
	return count
}

// R168: every replica renews the Lease, but not if another one just did.
func TestReplicasRenewOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 2)
		defer r.stop()
		start := time.Now().Truncate(time.Second)
		const minutes = 10
		for time.Since(start) < minutes*time.Minute {
			for replica := range r.servers {
				if replica == 1 && time.Since(start) > minutes*time.Minute/2 {
					break // it no longer reaches the member
				}
				entry := member(clustersetv1alpha1.MemberConnected, 0, 60)
				entry.Status.LastSeen = ptr.To(metav1.NewTime(time.Now().Truncate(time.Second)))
				r.show(t, replica, entry)
			}
			time.Sleep(5 * time.Second)
		}
		lease, err := r.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), "member-east", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > 20*time.Second {
			t.Errorf("the Lease was renewed %s ago", age)
		}
		// Both may try at once, and one of them fails.
		if got, most := r.writes(), 2*minutes*6; got > most {
			t.Errorf("%d writes in %d minutes, want at most %d", got, minutes, most)
		}
	})
}

// R375: a member is lost. The clock of the server of one replica is two hours ahead: neither
// sees the member, and each takes its own sighting for the newest.
func TestLeaseOfASilentMemberDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 2)
		defer r.stop()
		for replica, ahead := range []time.Duration{0, 2 * time.Hour} {
			entry := member(clustersetv1alpha1.MemberLost, 0, 60)
			entry.Status.LastSeen = ptr.To(metav1.NewTime(time.Now().Add(ahead).Truncate(time.Second)))
			r.show(t, replica, entry)
		}
		time.Sleep(time.Minute)
		before := r.writes()
		time.Sleep(10 * time.Minute)
		if got := r.writes() - before; got > 0 {
			t.Errorf("%d writes in ten minutes, although nobody sees the member", got)
		}
	})
}

// R333: a cluster whose Lease was deleted by another replica is forgotten.
func TestClusterWhoseLeaseIsGoneIsForgotten(t *testing.T) {
	client := fake.NewClientset()
	host, own := informers.NewSharedInformerFactory(client, 0), mcsinformers.NewSharedInformerFactory(mcsfake.NewSimpleClientset(), 0)
	c := New(client.CoordinationV1(), clock.RealClock{}, "mcs-system", host, own, func() bool { return true })
	entry := member(clustersetv1alpha1.MemberConnected, 0, 60)
	shown := own.ClusterSet().V1alpha1().Members().Informer().GetIndexer()
	if err := shown.Add(entry); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		if err := c.sync(t.Context(), types.NamespacedName{Name: entry.Name}); err != nil {
			t.Fatal(err)
		}
		if len(c.written) != want {
			t.Errorf("remembers %v, want %d", c.written, want)
		}
		if err := shown.Delete(entry); err != nil { // the Lease was never in the cache
			t.Fatal(err)
		}
	}
}

// R168: a write that is not answered does not keep the Leases of other members from being
// renewed.
func TestWritesHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 1)
		defer r.stop()
		r.unanswered.Store(true)
		r.show(t, 0, member(clustersetv1alpha1.MemberConnected, 0, 60))
		time.Sleep(time.Minute)
		west := member(clustersetv1alpha1.MemberConnected, 0, 60)
		west.Name = "west"
		r.unanswered.Store(false)
		r.show(t, 0, west)
		time.Sleep(writeTimeout)
		if _, err := r.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), "member-west", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// deletions returns how many Leases were deleted.
func (r *replicas) deletions() int {
	count := 0
	for _, action := range r.client.Actions() {
		if action.GetVerb() == "delete" {
			count++
		}
	}
	return count
}

// R168: a replica whose server does not know a member, such as one that has not read its hub
// yet, leaves the Lease that another replica renews. It is deleted when no replica knows
// the member any more.
func TestLeaseThatAnotherReplicaRenewsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 2)
		defer r.stop()
		for range 60 {
			entry := member(clustersetv1alpha1.MemberConnected, 0, 60)
			entry.Status.LastSeen = ptr.To(metav1.NewTime(time.Now().Truncate(time.Second)))
			r.show(t, 0, entry)
			time.Sleep(5 * time.Second)
		}
		if got := r.deletions(); got > 0 {
			t.Errorf("the Lease was deleted %d times", got)
		}
		if err := r.servers[0].Tracker().Delete(members, "", "east"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*renewEvery + time.Second)
		if got := r.deletions(); got != 1 {
			t.Errorf("the Lease of a former member was deleted %d times, want once", got)
		}
	})
}

// R168: a replica that was just started, and does not know a member yet, leaves the Lease of
// one that has been silent for long: it is marked as lost. If the replica never knows the member,
// the Lease is deleted.
func TestLeaseIsKeptUntilAReplicaKnowsItsMembers(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := startReplicas(t, 1)
			defer r.stop()
			silent := lease(0, 60, markedLost)
			silent.Namespace, silent.Spec.RenewTime = "mcs-system", ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
			if err := r.client.Tracker().Add(silent); err != nil {
				t.Fatal(err)
			}
			time.Sleep(settling / 2)
			if known {
				entry := member(clustersetv1alpha1.MemberLost, 0, 60)
				entry.Status.LastSeen = ptr.To(metav1.NewTime(silent.Spec.RenewTime.Time))
				r.show(t, 0, entry)
			}
			time.Sleep(settling)
			if got := r.deletions(); (got == 0) != known {
				t.Errorf("known: %t, but %d deletions", known, got)
			}
		})
	}
}

// R168: a replica whose server is not ready writes nothing, and makes up for that.
func TestUnhealthyReplicaWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 1)
		defer r.stop()
		r.unhealthy.Store(true)
		former := lease(0, 60)
		former.Name, former.Namespace, former.Spec.HolderIdentity = "member-former", "mcs-system", ptr.To("former")
		if err := r.client.Tracker().Add(former); err != nil {
			t.Fatal(err)
		}
		r.show(t, 0, member(clustersetv1alpha1.MemberConnected, 0, 60))
		time.Sleep(10 * time.Minute)
		if got := r.writes(); got > 0 {
			t.Errorf("%d writes", got)
		}
		r.unhealthy.Store(false)
		time.Sleep(renewEvery + settling + time.Second)
		if got := r.writes(); got != 2 {
			t.Errorf("%d writes, want one of each Lease", got)
		}
	})
}

// R168: replicas that do not agree do not write in turns all the time.
func TestReplicasThatDisagreeWriteRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 2)
		defer r.stop()
		entry := member(clustersetv1alpha1.MemberConnected, 0, 60)
		r.show(t, 0, entry)
		refused := entry.DeepCopy()
		refused.Status.State = clustersetv1alpha1.MemberRefused
		r.show(t, 1, refused)
		time.Sleep(time.Minute)
		before := r.writes()
		time.Sleep(10 * time.Minute)
		if got := r.writes() - before; got > 2*60+2 {
			t.Errorf("%d writes in ten minutes", got)
		}
		if err := r.servers[0].Tracker().Delete(members, "", "east"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), "member-east", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Lease of a former member: %v", err)
		}
	})
}

// R333: a hub that relays other clusters every time it is asked causes few writes, and the
// Lease of another member is renewed meanwhile.
func TestHubThatRelaysEverOtherClustersCausesFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t, 1)
		defer r.stop()
		start := time.Now()
		relayed := func(round, i int) *clustersetv1alpha1.Member {
			entry := member(clustersetv1alpha1.MemberConnected, 0, 60)
			entry.Name, entry.Status.LastSeen = fmt.Sprintf("x-%d-%d", round, i), ptr.To(metav1.Now())
			entry.Status.Path = []string{entry.Name, "hub"}
			return entry
		}
		const rounds, each = 12, 500
		for round := range rounds {
			for i := range each {
				if round > 0 {
					if err := r.servers[0].Tracker().Delete(members, "", relayed(round-1, i).Name); err != nil {
						t.Fatal(err)
					}
				}
				r.show(t, 0, relayed(round, i))
				synctest.Wait()
			}
			honest := member(clustersetv1alpha1.MemberConnected, 0, 60)
			honest.Status.LastSeen = ptr.To(metav1.Now())
			r.show(t, 0, honest)
			time.Sleep(5 * time.Second)
		}
		lease, err := r.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), "member-east", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > 20*time.Second {
			t.Errorf("the Lease of a member was renewed %s ago", age)
		}
		most := 2*(relayedBurst+int(time.Since(start).Seconds())*relayedRate) + rounds
		if got := r.writes(); got > most || got < relayedBurst {
			t.Errorf("%d writes, want at most %d", got, most)
		}
	})
}
