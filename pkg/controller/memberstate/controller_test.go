// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memberstate

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	kubernetestesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// world is a controller in a cluster with the member b, which was seen.
type world struct {
	*Controller
	clock     *testingclock.FakePassiveClock
	recorder  *events.FakeRecorder
	client    *fake.Clientset
	installed informers.SharedInformerFactory
	own       mcsinformers.SharedInformerFactory
}

func start(t *testing.T) *world {
	t.Helper()
	lease := sighting.Record(nil, sighting.Sighting{Member: "b", UID: "uid-b", At: time.Unix(1000, 0)}, 60)
	lease.Namespace = "mcs-system"
	client := fake.NewClientset(lease)
	w := &world{
		clock: testingclock.NewFakePassiveClock(time.Unix(1000, 0)), recorder: events.NewFakeRecorder(10), client: client,
		installed: informers.NewSharedInformerFactory(client, 0), own: mcsinformers.NewSharedInformerFactory(mcsfake.NewSimpleClientset(), 0),
	}
	w.elect(t)
	hold(t, w.installed.Core().V1().Secrets().Informer(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-b", UID: "secret"}})
	return w
}

// elect makes another controller, as every leader has.
func (w *world) elect(t *testing.T) {
	t.Helper()
	w.Controller = New(w.client.CoordinationV1(), w.clock, w.recorder, "mcs-system", w.installed, w.own, w.installed.Core().V1().Secrets())
	t.Cleanup(w.queue.ShutDown)
}

func hold(t *testing.T, in cache.SharedIndexInformer, object any) {
	t.Helper()
	if err := in.GetIndexer().Update(object); err != nil {
		t.Fatal(err)
	}
}

// show makes the server show a state of b, and returns the Event about it.
func (w *world) show(t *testing.T, state clustersetv1alpha1.MemberState, uid types.UID) string {
	t.Helper()
	hold(t, w.own.ClusterSet().V1alpha1().Members().Informer(), &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: uid}, Status: clustersetv1alpha1.MemberStatus{
		State: state, Conditions: []metav1.Condition{{Type: clusterset.MemberReachable, Status: metav1.ConditionFalse, Reason: "Unreachable", Message: "because"}},
	}})
	lease, err := w.client.CoordinationV1().Leases("mcs-system").Get(t.Context(), "member-b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hold(t, w.installed.Coordination().V1().Leases().Informer(), lease)
	if err := w.sync(t.Context(), types.NamespacedName{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-w.recorder.Events:
		return event
	default:
		return ""
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

// R308: Events on the Secret of a member say when it becomes Unavailable, Stale, Lost and
// Connected again, and not more often than every few seconds.
func TestStatesAreReportedInEvents(t *testing.T) {
	w := start(t)
	for i, step := range []struct {
		passes time.Duration
		state  clustersetv1alpha1.MemberState
		uid    types.UID
		want   string
	}{
		{0, clustersetv1alpha1.MemberConnecting, "secret", ""},
		{0, clustersetv1alpha1.MemberConnected, "secret", ""},
		{0, clustersetv1alpha1.MemberStale, "secret", "Warning MemberStale Member b: it is silent; because"},
		{time.Hour, clustersetv1alpha1.MemberStale, "secret", ""},
		{0, clustersetv1alpha1.MemberUnavailable, "secret", "Warning MemberUnavailable Member b: its Kubernetes API responds"},
		{interval - 1, clustersetv1alpha1.MemberLost, "secret", ""},
		{1, clustersetv1alpha1.MemberLost, "secret", "Warning MemberLost Member b: it has been silent for its TTL"},
		{interval, clustersetv1alpha1.MemberRefused, "secret", ""},
		{interval, clustersetv1alpha1.MemberConnected, "", ""}, // of a cluster that a hub relays
		{interval, clustersetv1alpha1.MemberConnected, "secret", "Normal MemberConnected Member b responds again"},
	} {
		w.clock.SetTime(w.clock.Now().Add(step.passes))
		if got := w.show(t, step.state, step.uid); !strings.HasPrefix(got, step.want) || got != "" && step.want == "" {
			t.Errorf("step %d, %s: got %q, want %q", i, step.state, got, step.want)
		}
	}
	if got := w.writes(); got != 4 {
		t.Errorf("%d writes, want one for every Event", got)
	}
	if err := w.own.ClusterSet().V1alpha1().Members().Informer().GetIndexer().Delete(&clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.sync(t.Context(), types.NamespacedName{Name: "b"}); err != nil || len(w.reported) > 0 {
		t.Errorf("a former member is remembered: %v, %v", err, w.reported)
	}
}

// R308: a new leader continues where the last one ended: nothing is reported again, and what
// changed meanwhile is.
func TestNewLeaderReportsWhatChanged(t *testing.T) {
	const connected, lost = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberLost
	for _, test := range []struct {
		name          string
		before, after clustersetv1alpha1.MemberState
		want          string
	}{
		{"still lost", lost, lost, ""},
		{"still connected", connected, connected, ""},
		{"responds again", lost, connected, "Normal MemberConnected Member b responds again"},
		{"was lost", connected, lost, "Warning MemberLost Member b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t)
			w.show(t, test.before, "secret")
			w.elect(t)
			if got := w.show(t, test.after, "secret"); !strings.HasPrefix(got, test.want) || got != "" && test.want == "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// R308: what was reported is recorded although another replica renews the Lease meanwhile.
func TestReportIsRecordedAfterAConflict(t *testing.T) {
	w := start(t)
	conflicts := 0
	w.client.PrependReactor("update", "leases", func(kubernetestesting.Action) (bool, runtime.Object, error) {
		conflicts++
		return conflicts == 1, nil, apierrors.NewConflict(schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}, "member-b", nil)
	})
	if got := w.show(t, clustersetv1alpha1.MemberLost, "secret"); got == "" {
		t.Error("not reported")
	}
	if got := w.show(t, clustersetv1alpha1.MemberLost, "secret"); got != "" {
		t.Errorf("reported again: %s", got)
	}
	w.elect(t)
	if got := w.show(t, clustersetv1alpha1.MemberLost, "secret"); got != "" || conflicts != 2 {
		t.Errorf("another leader reports %q after %d writes", got, conflicts)
	}
}

// R308: a member without a Lease, which was never seen, is reported as well.
func TestMemberWithoutLeaseIsReported(t *testing.T) {
	w := start(t)
	hold(t, w.own.ClusterSet().V1alpha1().Members().Informer(), &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "secret"}, Status: clustersetv1alpha1.MemberStatus{State: clustersetv1alpha1.MemberStale},
	})
	if err := w.sync(t.Context(), types.NamespacedName{Name: "c"}); err != nil || len(w.recorder.Events) != 1 || w.writes() > 0 {
		t.Errorf("%v, %d Events, %d writes", err, len(w.recorder.Events), w.writes())
	}
}
