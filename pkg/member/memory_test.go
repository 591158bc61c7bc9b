// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	random "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func loaded(t *testing.T, memory *Memory) map[string]Remembered {
	t.Helper()
	remembered, err := memory.load(t.Context(), func(key string, err error) { t.Errorf("%s cannot be read: %v", key, err) })
	must(t, err)
	return remembered
}

func names(remembered Remembered) string {
	var names []string
	for _, fact := range remembered.facts {
		names = append(names, fact.name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// restart is another world with the same memory.
func restart(t *testing.T, memory *Memory, passed time.Duration) *world {
	t.Helper()
	w := newWorld(t, memory)
	w.clock.Step(passed)
	w.remembered = loaded(t, memory)
	return w
}

func TestWhatIsWrittenComesBack(t *testing.T) {
	memory := newMemory(t)
	w, b := exporting(t, memory)
	h := w.join("h", hubFor("*"))
	must(t, w.told(h, exportedService("x", "web", "x")))
	w.answers(h, own("h"), relayedEntry("x", exports(1)))
	w.clock.Step(sightingInterval)
	w.answers(b, own("b", exports(1)))
	w.answers(h, own("h"), relayedEntry("x", exports(1)))
	w.memory.flush(t.Context())

	after := restart(t, memory, sightingInterval)
	after.add("b")
	after.add("h", hubFor("*"))
	if got := after.exports("web"); got != "b,x" {
		t.Errorf("web is exported by %q after a restart, want b,x", got)
	}
	before, now := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"}), after.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})
	for _, exports := range [][]Export{before, now} {
		slices.SortFunc(exports, func(a, b Export) int { return strings.Compare(a.Service.Name, b.Service.Name) })
	}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("what came back differs: %s", diff)
	}
	got := after.Entry("b").Status
	if got.State != connected || !got.LastSeen.Time.Equal(w.clock.Now()) || got.ClusterUID != "uid-b" || got.Exports != 1 || got.Endpoints != 2 || got.Synced {
		t.Errorf("b is shown as %+v", got)
	}
	expectCondition(t, after.Entry("b"), clusterset.MemberAccepted, "True", reasonAccepted, "has not been asked yet")
	expectCondition(t, after.Entry("b"), clusterset.MemberSynced, "Unknown", "Reading", "")
	if after.Settled() {
		t.Error("everything is settled although nobody has been heard")
	}
}

// R82: a restart while a member is lost changes nothing; the time that nobody
// looked is not the member's silence, however long it was.
func TestStateAfterARestart(t *testing.T) {
	for _, test := range []struct {
		silent, passed time.Duration
		want           clusterset.MemberState
	}{
		{0, staleAfter, connected},
		{0, DefaultTTL, connected},
		{0, 24 * time.Hour, connected},
		{DefaultTTL - 1, DefaultTTL, connected},
		{DefaultTTL, DefaultTTL, clusterset.MemberLost},
		{DefaultTTL, 24 * time.Hour, clusterset.MemberLost},
	} {
		memory := newMemory(t)
		w, _ := exporting(t, memory)
		w.clock.Step(test.silent)
		w.mu.Lock()
		w.evaluate()
		w.mu.Unlock()
		w.memory.flush(t.Context())
		after := restart(t, memory, test.passed)
		b := after.add("b")
		if got := after.Entry("b").Status.State; got != test.want {
			t.Errorf("silent for %s, then nobody looked for %s: it is %s after a restart, want %s", test.silent, test.passed, got, test.want)
		}
		after.clock.Step(staleAfter)
		after.probed(b, nil, context.DeadlineExceeded)
		if got := after.Entry("b").Status.State; got == connected {
			t.Error("it counts as connected although it has not answered since")
		}
		after.answers(b, own("b", exports(1)))
		after.memory.flush(t.Context())
		if loaded(t, memory)["b"].lost {
			t.Error("it was seen again, and is remembered as lost")
		}
		must(t, memory.forget(t.Context(), "b"))
	}
}

func TestAnotherUIDIsAnotherMember(t *testing.T) {
	memory := newMemory(t)
	recorder := newRecorder(memory, nil)
	f := serviceFactOf(t, exportedService("b", "web"))
	recorder.record("b", "old", "b", f.service, []fact{f})
	recorder.seen("b", "old", sight{at: epoch})
	recorder.seen("b", "new", sight{at: epoch.Add(time.Second)})
	recorder.flush(t.Context())
	if got := loaded(t, memory)["b"]; got.UID != "new" || names(got) != "" {
		t.Errorf("remembered of %s: %q", got.UID, names(got))
	}
}

func TestUnreadableRecordIsLeftOut(t *testing.T) {
	memory := newMemory(t)
	w, _ := exporting(t, memory)
	w.memory.flush(t.Context())
	for _, key := range []string{"b/uid-b/exports/b/ns/broken", "b/uid-b/exports/b/ns/empty", "c/uid-c/seen", "stray"} {
		_, err := store.Put(t.Context(), memory.prefix+key, strings.TrimPrefix(key, "b/uid-b/exports/b/ns/empty"))
		must(t, err)
	}
	var unreadable []string
	remembered, err := memory.load(t.Context(), func(key string, _ error) { unreadable = append(unreadable, key) })
	must(t, err)
	if len(unreadable) != 4 || names(remembered["b"]) != "web-1.b,web.b" {
		t.Errorf("unreadable are %v, and of b is known %q", unreadable, names(remembered["b"]))
	}
}

func TestMoreThanOnePageComesBack(t *testing.T) {
	memory := newMemory(t)
	values := map[string][]byte{}
	for i := range pageSize + 1 {
		f := serviceFactOf(t, exportedService("b", fmt.Sprintf("web-%d", i)))
		value, err := encodeFacts([]fact{f})
		must(t, err)
		values[recordKey{"b", "uid-b", "b", f.service}.String()] = value
	}
	must(t, memory.save(t.Context(), values))
	if got := len(loaded(t, memory)["b"].facts); got != pageSize+1 {
		t.Errorf("%d facts came back, want %d", got, pageSize+1)
	}
}

// Rule 3: every replica remembers the same, and what is the same is not written.
func TestUnchangedContentIsNotWrittenAgain(t *testing.T) {
	memory := newMemory(t)
	w, b := exporting(t, memory)
	before := revision(t)
	w.memory.flush(t.Context())
	if got := revision(t) - before; got != 1 {
		t.Errorf("one service and one sighting took %d writes, want 1", got)
	}
	other, _ := exporting(t, memory)
	for _, replica := range []*world{w, other} {
		replica.mu.Lock()
		for _, peer := range replica.peers {
			replica.rememberAll(peer)
		}
		replica.mu.Unlock()
	}
	before = revision(t)
	w.memory.flush(t.Context())
	other.memory.flush(t.Context())
	if got := revision(t) - before; got != 0 {
		t.Errorf("nothing has changed, and that took %d writes", got)
	}
	w.answers(b, own("b", exports(1)))
	w.memory.flush(t.Context())
	if got := revision(t) - before; got != 0 {
		t.Errorf("a sighting was written before it was due, in %d writes", got)
	}
	w.clock.Step(sightingInterval)
	w.answers(b, own("b", exports(1)))
	w.memory.flush(t.Context())
	if got := revision(t) - before; got != 1 {
		t.Errorf("a sighting took %d writes, want 1", got)
	}
}

// A record is sent twice: to be compared and to be written. Together that must
// stay below what an etcd takes, which is 1.5 MiB.
func TestBatchesFitIntoARequest(t *testing.T) {
	memory := newMemory(t)
	values := map[string][]byte{}
	for i := range 6 {
		value := make([]byte, maxRecord)
		_, _ = random.Read(value)
		values[fmt.Sprintf("b/uid/exports/b/ns/%d", i)] = value
	}
	for i := range 2 * maxOperations {
		values[fmt.Sprintf("b/uid/exports/b/ns/small-%d", i)] = []byte("x")
	}
	must(t, memory.save(t.Context(), values))
	response, err := store.Get(t.Context(), memory.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	if response.Count != int64(len(values)) {
		t.Errorf("%d records were written, want %d", response.Count, len(values))
	}
}

// Rather nothing is remembered than what is no longer so.
func TestServiceThatHasGrownTooLargeIsNotRememberedAsItWas(t *testing.T) {
	memory := newMemory(t)
	w, b := exporting(t, memory)
	w.memory.flush(t.Context())
	for i := range 40 {
		slice := exportedSlice("b", "web", fmt.Sprintf("large-%d", i))
		for range 500 {
			slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{
				fmt.Sprintf("10.%d.%d.%d", rand.N(256), rand.N(256), rand.N(256))}, Zone: randomText(40)})
		}
		must(t, w.told(b, slice))
	}
	must(t, w.told(b, exportedService("b", "api")))
	if !w.memory.flush(t.Context()) {
		t.Fatal("it could not be written")
	}
	if got := names(loaded(t, memory)["b"]); got != "api.b" {
		t.Errorf("remembered are %q, want the other service only", got)
	}
}

func randomText(length int) *string {
	text := make([]byte, length)
	for i := range text {
		text[i] = byte('a' + rand.N(26))
	}
	result := string(text)
	return &result
}

func TestHubsEntriesAreRemembered(t *testing.T) {
	seen := metav1.NewTime(epoch)
	entry := relayedEntry("x", func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = &seen })
	entries, err := readEntries(&clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{entry}})
	must(t, err)
	memory := newMemory(t)
	recorder := newRecorder(memory, nil)
	recorder.seen("h", "uid-h", sight{at: epoch, relayed: entries})
	recorder.flush(t.Context())
	got := loaded(t, memory)["h"]
	if diff := cmp.Diff(entries, got.relayed); diff != "" || !got.LastSeen.Equal(epoch) {
		t.Errorf("last seen %s, %s", got.LastSeen, diff)
	}
}

// R82, R101: a restart changes nothing for two clusters that claim one id, also
// while the one that has it is silent, and in whatever order their Secrets are read.
func TestOlderOfTwoClustersHasTheIDAfterARestart(t *testing.T) {
	second := func(s *spec) { s.secret, s.uid = "other", "secret-other" }
	for name, secrets := range map[string][]func(*spec){
		"the older first":   {func(*spec) {}, second},
		"the younger first": {second, func(*spec) {}},
	} {
		t.Run(name, func(t *testing.T) {
			memory := newMemory(t)
			w, _ := exporting(t, memory)
			w.memory.flush(t.Context())
			after := restart(t, memory, time.Second)
			disown(after.remembered, []any{secretOf("b", "")})
			var other *feed
			for _, secret := range secrets {
				if f := after.add("b", secret); f.spec.secret == "other" {
					other = f
				}
			}
			after.claimed(other, &claims{id: "b", clusterSet: "set", idClaimedAt: epoch.Add(time.Second)})
			after.answers(other, own("b", withUID("uid-other")))
			must(t, after.replaced(other, services, []any{exportedService("b", "api")}))
			if after.exports("web") != "b" || after.exports("api") != "" {
				t.Errorf("web is exported by %q, api by %q", after.exports("web"), after.exports("api"))
			}
			expectCondition(t, after.Entry("secret.other"), clusterset.MemberAccepted, "False", reasonDuplicateID, `that of "member-b", stands`)
			expectCondition(t, after.Entry("b"), clusterset.MemberAccepted, "True", reasonAccepted, "")
			after.memory.flush(t.Context())
			if got := loaded(t, memory)["b"]; got.UID != "uid-b" || names(got) == "" {
				t.Errorf("remembered is %+v", got)
			}
		})
	}
}

// A Secret may get another name while the server does not run.
func TestMemoryOfAMemberWhoseSecretIsGoneIsAnyOnes(t *testing.T) {
	memory := newMemory(t)
	w, _ := exporting(t, memory)
	w.memory.flush(t.Context())
	after := restart(t, memory, time.Second)
	disown(after.remembered, []any{secretOf("c", "", func(s *corev1.Secret) { s.Name = "member-b" })})
	after.add("b", func(s *spec) { s.secret = "renamed" })
	if after.exports("web") != "b" {
		t.Errorf("web is exported by %q", after.exports("web"))
	}
}
