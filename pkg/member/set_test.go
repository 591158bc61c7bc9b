// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// running is a Set as a server runs it.
type running struct {
	*fixture
	secrets *fake.Clientset
	stop    func()
}

func start(t *testing.T, recorded *host, secrets ...*corev1.Secret) *running {
	t.Helper()
	r := newRunning(t, recorded, secrets...)
	r.run(t)
	return r
}

// newRunning returns a Set that does not run yet.
func newRunning(t *testing.T, recorded *host, secrets ...*corev1.Secret) *running {
	t.Helper()
	r := &running{fixture: &fixture{host: recorded}, secrets: fake.NewClientset()}
	for _, secret := range secrets {
		_, err := r.secrets.CoreV1().Secrets("mcs-system").Create(t.Context(), secret, metav1.CreateOptions{})
		must(t, err)
	}
	r.Set = New(Config{
		Secrets: coreinformers.NewSecretInformer(r.secrets, "mcs-system", 0, cache.Indexers{}),
		Renewed: coreinformers.NewSecretInformer(r.secrets, "mcs-system", 0, cache.Indexers{}),
		Leases:  coordinationinformers.NewLeaseInformer(r.secrets, "mcs-system", 0, cache.Indexers{}),
		Memory:  recorded, Election: memory.Unopposed, Endpoints: recorded.endpoints, Clock: clock.RealClock{}, TTL: liveness.DefaultTTL,
		ServiceChanged: func(exports.Ref) {}, MemberChanged: func(string) {}, PropertiesChanged: func(string) {},
	})
	r.SetIdentity(self)
	return r
}

// run runs the Set until the end of the test, and waits until it is ready.
func (r *running) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.config.Secrets.RunWithContext(ctx) })
	running.Go(func() { r.config.Renewed.RunWithContext(ctx) })
	running.Go(func() { r.config.Leases.RunWithContext(ctx) })
	running.Go(func() { r.Run(ctx) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(r.stop)
	<-r.Ready()
}

func (r *running) update(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	_, err := r.secrets.CoreV1().Secrets("mcs-system").Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
}

func TestMemberIsReadWhileItsSecretExists(t *testing.T) {
	recorded := newHost()
	server := membertest.NewServer(t, "b")
	server.Export("web")
	r := start(t, recorded, secretFor("b", server.Kubeconfig("token-1")))
	eventually(t, "existing exports are read", func() bool { return r.exporters("web") == "b" && r.Settled() })
	server.Export("api")
	eventually(t, "new exports are read", func() bool { return r.exporters("api") == "b" })
	if got := r.Entry("b").Status; got.State != clusterset.MemberConnected || got.ClusterUID != "uid-b" || got.Exports != 2 || !got.Synced {
		t.Errorf("the entry is %+v", got)
	}
	expectCondition(t, r.Entry("b"), clusterset.MemberAccepted, metav1.ConditionTrue, acceptance.ReasonAccepted, "")
	// R9: a member is asked for its own exports only, with the ID of the reader.
	for _, request := range []string{
		"exportedservices multicluster.kubernetes.io/source-cluster=b", "exportedendpointslices multicluster.kubernetes.io/source-cluster=b",
		"members metadata.name=b", "clusterclaims ",
	} {
		if !server.Requests().Has("mcs-apiserver cluster/a " + request) {
			t.Errorf("%q was not requested: %v", request, server.Requests())
		}
	}
	eventually(t, "it is recorded", func() bool { return names(loaded(t, recorded)["b"]) == "api.b,web.b" })

	must(t, r.secrets.CoreV1().Secrets("mcs-system").Delete(t.Context(), "member-b", metav1.DeleteOptions{}))
	eventually(t, "it is not a member any more", func() bool { return r.exporters("web") == "" && r.Entry("b") == nil })
	r.stop()
	if got := loaded(t, recorded); len(got) != 0 {
		t.Errorf("it is still recorded: %v", got)
	}
}

func TestEverythingIsReadFromAHub(t *testing.T) {
	server := membertest.NewServer(t, "h")
	r := start(t, newHost(), secretFor("h", server.Kubeconfig("token-1"), withData(clusterset.MemberSecretRelayFor, "x")))
	eventually(t, "it is read", func() bool { return r.Settled() })
	for _, request := range []string{"exportedservices ", "exportedendpointslices ", "members "} {
		if !server.Requests().Has("mcs-apiserver cluster/a " + request) {
			t.Errorf("%q was not requested: %v", request, server.Requests())
		}
	}
}

// Another token is used by the running feed; other changes start another feed.
// Neither changes what is known.
func TestCredentialIsReplacedWithoutLosingExports(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	r := start(t, newHost(), secretFor("b", server.Kubeconfig("token-1")))
	eventually(t, "it is read", func() bool { return r.exporters("web") == "b" && r.Settled() })
	before := r.receiverOfB()
	r.update(t, secretFor("b", server.Kubeconfig("token-1"), func(s *corev1.Secret) { s.Labels = map[string]string{"x": "y"} }))

	server.Revoke("token-1")
	eventually(t, "the old credential is rejected", func() bool {
		entry := r.Entry("b")
		for _, condition := range entry.Status.Conditions {
			if condition.Type == clusterset.MemberSynced && condition.Reason == "Unauthorized" {
				return true
			}
		}
		return false
	})
	if r.exporters("web") != "b" {
		t.Fatal("exports are gone with the credential")
	}
	if r.receiverOfB() != before {
		t.Error("a label on the Secret started another feed")
	}
	r.update(t, secretFor("b", server.Kubeconfig("token-2")))
	server.Export("api")
	eventually(t, "it is read with the new credential", func() bool { return r.exporters("api") == "b" && r.exporters("web") == "b" && r.Settled() })
	if r.receiverOfB() != before {
		t.Error("another token started another feed: everything would be read again with every renewal")
	}
	r.update(t, secretFor("b", server.Kubeconfig("token-2"), withData(clusterset.MemberSecretAllowedCIDRs, "10.0.0.0/8")))
	eventually(t, "another feed is running", func() bool { return r.receiverOfB() != before && r.Settled() })
	if r.exporters("web") != "b" {
		t.Error("exports are gone with the feed")
	}
}

func (r *running) receiverOfB() *receiver {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers["member-b"].receiver
}

// A Secret may be deleted while the server is down.
func TestRecordsWithoutASecretAreRemoved(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	r := start(t, recorded)
	if r.exporters("web") != "" || len(r.Services()) != 0 {
		t.Error("exports of a cluster without a Secret are used")
	}
	eventually(t, "the records are deleted", func() bool { return len(loaded(t, recorded)) == 0 })
}

// The server restarts during a network partition.
func TestRestartDuringAPartitionChangesNothing(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	server := membertest.NewServer(t, "b")
	server.Close()
	r := start(t, recorded, secretFor("b", server.Kubeconfig("token-1")))
	if r.exporters("web") != "b" {
		t.Error("exports are gone when the Set is ready")
	}
	eventually(t, "the member is unreachable", func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.peers["member-b"].probeError != nil
	})
	if r.exporters("web") != "b" {
		t.Error("exports are gone")
	}
}

func TestSecretOfAnotherTypeIsIgnored(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }))
	if got := w.Names(); len(got) != 1 {
		t.Errorf("got entries %v", got)
	}
}

func TestSecretThatChangesItsIDIsAnotherMember(t *testing.T) {
	recorded := newHost()
	w := newFixture(t, recorded)
	secret := secretFor("b", membertest.ValidKubeconfig())
	w.upsertSecret(t.Context(), secret)
	b := w.connect(w.peers[secret.Name])
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
	w.probe(b, ownEntry("b"))
	w.upsert(t, b, exported("b", "web"))
	w.persist(t)
	w.upsertSecret(t.Context(), secretFor("c", membertest.ValidKubeconfig(), func(s *corev1.Secret) { s.Name = secret.Name }))
	w.persist(t)
	if w.exporters("web") != "" || w.Entry("b") != nil || w.Entry("c") == nil || len(loaded(t, recorded)) != 0 {
		t.Error("something is left of the previous member of the Secret")
	}
}

// A Secret with the name of a deleted one may lead to another cluster.
func TestRecreatedSecretInheritsNothing(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	b := w.connect(w.peers["member-b"])
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
	w.probe(b, ownEntry("b"))
	w.upsert(t, b, exported("b", "web"))
	w.removeSecret(t.Context(), cache.DeletedFinalStateUnknown{Obj: secretFor("b", membertest.ValidKubeconfig())})
	if w.exporters("web") != "" || w.Entry("b") != nil {
		t.Error("the member of a deleted Secret still exists")
	}
	w.upsert(t, b, exported("b", "late"))
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), func(s *corev1.Secret) { s.UID = "another" }))
	if w.exporters("web") != "" || w.exporters("late") != "" {
		t.Error("a recreated Secret inherited exports")
	}
}

// lease returns the Lease of a member that was seen.
func lease(member string) *coordinationv1.Lease {
	lease := sighting.Record(nil, sighting.Sighting{Member: member, UID: "uid-" + types.UID(member), At: time.Now()}, 60)
	lease.Namespace = "mcs-system"
	return lease
}

// Nothing is recorded of a member that was seen before, such as after an upgrade or the
// loss of the records: its exports are not withdrawn by a server that starts.
func TestMembersWithoutARecordAreReadBeforeTheSetIsReady(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	r := newRunning(t, newHost(), secretFor("b", server.Kubeconfig("token-1")))
	must(t, r.secrets.Tracker().Add(lease("b")))
	r.run(t)
	if r.exporters("web") != "b" {
		t.Error("the Set is ready without the exports of a member that was seen before")
	}
}

// The replica that records may have been killed: what was exported since is not recorded.
func TestLatestExportsAreReadBeforeTheSetIsReady(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	server := membertest.NewServer(t, "b")
	server.Export("web")
	server.Export("latest")
	r := newRunning(t, recorded, secretFor("b", server.Kubeconfig("token-1")))
	must(t, r.secrets.Tracker().Add(lease("b")))
	r.run(t)
	if r.exporters("web") != "b" || r.exporters("latest") != "b" {
		t.Error("the Set is ready without the latest exports of a member")
	}
}

// R169: a server that starts waits for members only if they were not lost before, or what is
// kept of them is not known, and not for long.
func TestMembersAreAwaitedForAWhile(t *testing.T) {
	was, lost := &sighting.Sighting{Member: "b", UID: "uid-b"}, &sighting.Sighting{Member: "b", UID: "uid-b", Lost: true}
	for name, test := range map[string]struct {
		recorded, damaged bool
		seen              *sighting.Sighting
		look              *liveness.Look
		want              time.Duration
	}{
		"new":                                {},
		"seen before, but not recorded":      {seen: was, want: unknownGrace},
		"lost, and not recorded":             {seen: lost, want: unknownGrace},
		"withdrawn, and not recorded":        {seen: lost, look: &liveness.Look{Silent: 1}},
		"recorded, and never seen":           {recorded: true},
		"recorded, and not lost":             {recorded: true, seen: was, want: recordedGrace},
		"recorded, and lost":                 {recorded: true, seen: lost},
		"recorded, and another one was lost": {recorded: true, seen: &sighting.Sighting{Member: "b", UID: "uid-other", Lost: true}, want: recordedGrace},
		"damaged":                            {recorded: true, damaged: true, seen: was, want: unknownGrace},
		"damaged, and lost":                  {recorded: true, damaged: true, seen: lost, want: unknownGrace},
		"damaged, and withdrawn":             {recorded: true, damaged: true, seen: lost, look: &liveness.Look{Silent: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			if test.recorded {
				w, _ := exporting(t, recorded)
				w.persist(t)
				clear(recorded.leases)
			}
			if test.damaged {
				_, _, err := recorded.Update(t.Context(), "contact.b", func([]byte) ([]byte, error) { return []byte("damaged"), nil })
				must(t, err)
			}
			if test.seen != nil {
				recorded.leases["b"] = *test.seen
			}
			after := restart(t, recorded, time.Second)
			after.observeLook("b", "uid-b", test.look)
			after.add("b")
			if got := after.unread(test.want); len(got) > 0 {
				t.Errorf("it waits for %v after %s", got, test.want)
			}
			if got := after.unread(test.want - 1); test.want > 0 && len(got) != 1 {
				t.Errorf("it waits for %v before %s have passed", got, test.want)
			}
		})
	}
}

// R169: nothing is withdrawn of a member of which not everything is recorded, until it is
// read or has been silent for its TTL.
func TestMembersWithoutARecordAreUnknownForTheirTTL(t *testing.T) {
	unrecorded := func(w *fixture) bool {
		synced := meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberSynced)
		return synced != nil && synced.Reason == clusterset.ReasonUnrecorded
	}
	begin := func(seen sighting.Sighting) (*fixture, *receiver) {
		recorded := newHost()
		recorded.leases["b"] = seen
		w := restart(t, recorded, time.Second)
		return w, w.add("b")
	}
	seen := sighting.Sighting{Member: "b", UID: "uid-b"}
	w, b := begin(seen)
	if !unrecorded(w) {
		t.Error("it counts as known")
	}
	w.silence(b, liveness.DefaultTTL-feed.ProbeInterval, nil)
	if !unrecorded(w) {
		t.Error("it counts as known before its TTL")
	}
	w.silence(b, feed.ProbeInterval, nil)
	if unrecorded(w) {
		t.Error("it is waited for longer than its TTL")
	}
	w, b = begin(seen)
	b.ClaimsRead(identityOf("b"))
	w.probe(b, ownEntry("b"))
	w.replace(t, b, exports.Services)
	if !unrecorded(w) {
		t.Error("it counts as known before everything was read")
	}
	w.replace(t, b, exports.EndpointSlices)
	if unrecorded(w) {
		t.Error("it counts as unknown although it was read")
	}
}

// R169: a member was lost, and what it exported is not recorded. Its endpoints may be kept
// nevertheless, unless it is known that all were withdrawn.
func TestLostMembersWithoutARecordAreUnknown(t *testing.T) {
	const withdraw, keepLast, keep = clusterset.LostPolicyWithdraw, clusterset.LostPolicyKeepLast, clusterset.LostPolicyKeep
	for _, test := range []struct {
		name   string
		policy clusterset.LostPolicy
		uid    types.UID
		look   *liveness.Look
		want   bool
	}{
		{"not asked", withdraw, "uid-b", nil, true},
		{"asked in another silence", withdraw, "uid-b", &liveness.Look{Silent: 1, Past: true}, true},
		{"asked while it responded", withdraw, "uid-b", &liveness.Look{Sample: true}, true},
		{"asked another cluster", withdraw, "uid-other", &liveness.Look{Silent: 1}, true},
		{"some answer", withdraw, "uid-b", &liveness.Look{Silent: 1, Answers: 1}, true},
		{"some may answer", withdraw, "uid-b", &liveness.Look{Silent: 1, Pending: 1}, true},
		{"none answers", withdraw, "uid-b", &liveness.Look{Silent: 1}, false},
		{"none can be asked", withdraw, "uid-b", &liveness.Look{Unaskable: 1}, false},
		{"none answers, all are kept", keep, "uid-b", &liveness.Look{Silent: 1}, true},
		{"none answers, the last are kept", keepLast, "uid-b", &liveness.Look{Silent: 1}, true},
	} {
		recorded := newHost()
		recorded.leases["b"] = sighting.Sighting{Member: "b", UID: "uid-b", At: epoch, Lost: true}
		w := restart(t, recorded, time.Minute)
		w.observeLook("b", test.uid, test.look)
		w.add("b", func(s *secret.Spec) { s.LostPolicy = test.policy })
		synced := meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberSynced)
		if got := synced != nil && synced.Reason == clusterset.ReasonUnrecorded; got != test.want {
			t.Errorf("%s: unknown %t, want %t", test.name, got, test.want)
		}
	}
}

// A server that ends while it waits is not ready.
func TestSetThatEndsWhileItWaitsIsNotReady(t *testing.T) {
	w := newFixture(t, nil)
	w.add("b")
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w.awaitMembers(ctx) {
		t.Error("it is ready")
	}
}
