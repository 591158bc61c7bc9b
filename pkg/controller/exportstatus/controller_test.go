// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	recorder "k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

// R128, R129: an export that has to wait says so, and its decision is as old as the
// moment at which it was made, also if that cannot be written at once.
func TestWaitingIsRememberedUntilTheDecisionIsWritten(t *testing.T) {
	exportedAt := epoch.Add(time.Minute)
	client, clock := mcsfake.NewClientset(), testingclock.NewFakePassiveClock(exportedAt.Add(2*time.Second))
	var refusal error
	var written *multiclusterxv1beta1.ServiceExport
	client.PrependReactor("update", "serviceexports", func(action clienttesting.Action) (bool, runtime.Object, error) {
		written = action.(clienttesting.UpdateAction).GetObject().(*multiclusterxv1beta1.ServiceExport)
		return true, written, refusal
	})
	host := informers.NewSharedInformerFactory(kubernetesfake.NewClientset(), 0)
	own := mcsinformers.NewSharedInformerFactory(client, 0)
	c, err := New(client, clock, recorder.NewFakeRecorder(10), host, own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.queue.ShutDown)
	for object, held := range map[runtime.Object]cache.Indexer{
		newExport():                          c.own,
		newService():                         host.Core().V1().Services().Informer().GetIndexer(),
		allocator():                          own.ClusterSet().V1alpha1().Members().Informer().GetIndexer(),
		exported("here", "export", 1, asks):  c.exported,
		exported("west", "younger", 2, asks): c.exported,
	} {
		if err := held.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	c.ledger.start(exportedAt.Add(-5 * time.Second))
	if err := c.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if ready := meta.FindStatusCondition(written.Status.Conditions, multicluster.ServiceExportReady); ready == nil || ready.Reason != reasonClusterSetIPPending {
		t.Errorf("it says %+v", ready)
	}
	now := exportedAt.Add(6 * time.Second)
	clock.SetTime(now)
	refusal = apierrors.NewConflict(schema.GroupResource{Resource: "serviceexports"}, "web", errors.New("changed"))
	if err := c.sync(t.Context(), web); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	refusal = nil
	if err := c.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if got := export.RecordedDecision(written, epoch); got == nil || !got.Since.Time.Equal(now) {
		t.Errorf("it holds to %+v, want since %s", got, now)
	}
	if waiting := c.ledger.all(); len(waiting) > 0 {
		t.Errorf("%v still wait", waiting)
	}
}

// What waits is looked at when a member changes, and not whenever one is seen, which
// is all the time.
func TestMemberThatIsSeenAgainChangesNothing(t *testing.T) {
	entry := allocator()
	for name, test := range map[string]struct {
		change func(*clustersetv1alpha1.MemberStatus)
		looks  bool
	}{
		"seen again":    {func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = ptr.To(metav1.NewTime(epoch)) }, false},
		"more exports":  {func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints = 7, 8 }, false},
		"another state": {func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberLost }, true},
		"synced":        {func(s *clustersetv1alpha1.MemberStatus) { s.Synced = !s.Synced }, true},
		"another part":  {func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{"243.8.0.0/16"} }, true},
		"no conditions": {func(s *clustersetv1alpha1.MemberStatus) { s.Conditions = nil }, true},
	} {
		c := &Controller{ledger: newLedger(), queue: loop.NewQueue("test")}
		c.ledger.wait(web, true)
		changed := entry.DeepCopy()
		changed.Name = "another" // what this cluster's own changes is looked at everywhere
		before := changed.DeepCopy()
		before.Status.State, changed.Status.State = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberConnected
		test.change(&changed.Status)
		c.memberChanged(before, changed)
		if looks := c.queue.Len() > 0; looks != test.looks {
			t.Errorf("%s: it looks: %t", name, looks)
		}
		c.queue.ShutDown()
	}
}
