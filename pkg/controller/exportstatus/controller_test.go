// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	recorder "k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/ipallocator"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func asks(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.UseClusterSetIP = true }

// localMember returns this cluster, which joined at epoch and has an allocation CIDR
// of one address.
func localMember() *clustersetv1alpha1.Member {
	local := self("set")
	local.Status.IDClaimedAt = ptr.To(metav1.NewTime(epoch))
	local.Status.ClusterSetIPCIDRs = []string{"243.1.0.1/32"}
	local.Status.Conditions = []metav1.Condition{{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionTrue}}
	return local
}

// controllerFixture is a controller with caches that nothing fills but the test, and
// a client that records what is written.
type controllerFixture struct {
	*Controller
	clock   *testingclock.FakePassiveClock
	refusal error
	written *multiclusterxv1beta1.ServiceExport
	// own are the ServiceExports in the cache.
	own cache.Indexer
}

// newFixture returns a controller at a time, with objects in its caches.
func newFixture(t *testing.T, now time.Time, objects ...runtime.Object) *controllerFixture {
	t.Helper()
	client := mcsfake.NewSimpleClientset()
	f := &controllerFixture{clock: testingclock.NewFakePassiveClock(now)}
	client.PrependReactor("update", "serviceexports", func(action clienttesting.Action) (bool, runtime.Object, error) {
		f.written = action.(clienttesting.UpdateAction).GetObject().(*multiclusterxv1beta1.ServiceExport)
		return true, f.written, f.refusal
	})
	host := informers.NewSharedInformerFactory(kubernetesfake.NewClientset(), 0)
	own := mcsinformers.NewSharedInformerFactory(client, 0)
	var err error
	if f.Controller, err = New(client, f.clock, recorder.NewFakeRecorder(1000), host, own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.queue.ShutDown)
	f.own = own.MulticlusterX().V1beta1().ServiceExports().Informer().GetIndexer()
	for _, object := range objects {
		var indexer cache.Indexer
		switch object.(type) {
		case *multiclusterxv1beta1.ServiceExport:
			indexer = f.own
		case *corev1.Service:
			indexer = host.Core().V1().Services().Informer().GetIndexer()
		case *clustersetv1alpha1.Member:
			indexer = own.ClusterSet().V1alpha1().Members().Informer().GetIndexer()
		case *clustersetv1alpha1.ExportedService:
			indexer = f.exported
		}
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// R128, R129: an export that has to wait reports it, and its decision is as old as the
// moment at which it was made, also if writing it fails at first.
func TestWaitIsRememberedUntilTheDecisionIsWritten(t *testing.T) {
	exportedAt := epoch.Add(time.Minute)
	f := newFixture(t, exportedAt.Add(-5*time.Second),
		newExport(), newService(), localMember(), exported("here", "export", 1, asks), exported("west", "younger", 2, asks))
	f.allocator.Start()
	f.clock.SetTime(exportedAt.Add(2 * time.Second))
	if err := f.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if ready := meta.FindStatusCondition(f.written.Status.Conditions, multicluster.ServiceExportReady); ready == nil || ready.Reason != ipallocator.ReasonPending {
		t.Errorf("got condition %+v, want reason %s", ready, ipallocator.ReasonPending)
	}
	f.allocator.RequeueWaiting()
	if f.queue.Len() != 1 {
		t.Errorf("%d exports wait, want 1", f.queue.Len())
	}
	now := exportedAt.Add(6 * time.Second)
	f.clock.SetTime(now)
	f.refusal = apierrors.NewConflict(schema.GroupResource{Resource: "serviceexports"}, "web", errors.New("changed"))
	if err := f.sync(t.Context(), web); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	f.refusal = nil
	if err := f.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if got := export.RecordedDecision(f.written, epoch); got == nil || !got.Since.Time.Equal(now) {
		t.Errorf("got decision %+v, want since %s", got, now)
	}
	key, _ := f.queue.Get()
	f.queue.Done(key)
	f.allocator.RequeueWaiting()
	if f.queue.Len() > 0 {
		t.Error("the export still waits after its decision was written")
	}
}

// An export waits for its shared ClusterSet IP, its Service is deleted, and the event
// of the host arrives before mcs-apiserver withdraws the export.
func TestServiceIsDeletedWhileItsExportWaitsForAnIP(t *testing.T) {
	f := newFixture(t, epoch.Add(time.Hour), newExport(), localMember(), exported("here", "export", 1, asks))
	if err := f.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if got := export.RecordedDecision(f.written, epoch); got != nil {
		t.Errorf("an address was allocated: %+v", got)
	}
	for _, name := range []string{multicluster.ServiceExportValid, multicluster.ServiceExportReady} {
		condition := meta.FindStatusCondition(f.written.Status.Conditions, name)
		if condition == nil || condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, `Service "web"`) {
			t.Errorf("got condition %s %+v, want False, naming the missing Service", name, condition)
		}
	}
}

// Waiting exports are enqueued when a member changes, but not when it is merely seen
// again, which happens every few seconds.
func TestWaitingExportsIgnoreHeartbeatsOfMembers(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*clustersetv1alpha1.MemberStatus)
		enqueued bool
	}{
		"seen again":              {func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = ptr.To(metav1.NewTime(epoch)) }, false},
		"more exports":            {func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints = 7, 8 }, false},
		"another state":           {func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberLost }, true},
		"synced":                  {func(s *clustersetv1alpha1.MemberStatus) { s.Synced = !s.Synced }, true},
		"another allocation CIDR": {func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{"243.8.0.0/16"} }, true},
		"no conditions":           {func(s *clustersetv1alpha1.MemberStatus) { s.Conditions = nil }, true},
		"an object refused":       {refusesAnObject, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, epoch, newExport(), newService(), localMember(), exported("here", "export", 1, asks))
			if err := f.sync(t.Context(), web); err != nil { // waits, since the cluster has just joined
				t.Fatal(err)
			}
			before := localMember()
			before.Name, before.Status.State = "another", clustersetv1alpha1.MemberConnected // a change of this cluster enqueues every export
			changed := before.DeepCopy()
			test.change(&changed.Status)
			f.memberChanged(before, changed)
			time.Sleep(membersInterval)
			synctest.Wait()
			if f.queue.Len() > 0 {
				if key, _ := f.queue.Get(); key == membersKey {
					if err := f.sync(t.Context(), key); err != nil {
						t.Error(err)
					}
					f.queue.Done(key)
				} else {
					f.queue.Done(key)
					f.queue.Add(key)
				}
			}
			if enqueued := f.queue.Len() > 0; enqueued != test.enqueued {
				t.Errorf("%s: enqueued %t, want %t", name, enqueued, test.enqueued)
			}
		})
	}
}

// refusesAnObject is the change of a member of which an object becomes invalid.
func refusesAnObject(s *clustersetv1alpha1.MemberStatus) {
	s.Conditions = append(s.Conditions, metav1.Condition{Type: clusterset.MemberSynced, Status: metav1.ConditionFalse, Reason: clusterset.ReasonInvalidObjects})
}

// countingServices counts how often it is used.
type countingServices struct {
	corev1listers.ServiceLister
	used int
}

func (c *countingServices) Services(namespace string) corev1listers.ServiceNamespaceLister {
	c.used++
	return c.ServiceLister.Services(namespace)
}

// R289: everything that holds an address is looked at when a member changes in a way that
// changes what is believed, and not when one of its objects becomes valid or invalid, which
// it decides.
func TestDecisionsAreReconsideredOnlyIfAllocationCIDRsChange(t *testing.T) {
	condition := func(conditionType string, status metav1.ConditionStatus) func(*clustersetv1alpha1.MemberStatus) {
		return func(s *clustersetv1alpha1.MemberStatus) {
			s.Conditions = []metav1.Condition{{Type: conditionType, Status: status}}
		}
	}
	for name, test := range map[string]struct {
		change       func(*clustersetv1alpha1.MemberStatus)
		reconsidered bool
	}{
		"an object refused":       {refusesAnObject, false},
		"another state":           {func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberLost }, false},
		"accepted":                {condition(clusterset.MemberAccepted, metav1.ConditionTrue), false},
		"not accepted":            {condition(clusterset.MemberAccepted, metav1.ConditionFalse), true},
		"may not allocate":        {condition(clusterset.MemberClusterSetIP, metav1.ConditionFalse), true},
		"another cluster ID":      {func(s *clustersetv1alpha1.MemberStatus) { s.ClusterID = "east" }, true},
		"another allocation CIDR": {func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{"243.8.0.0/16"} }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			held := exported("west", "held", 1, asks, func(spec *clustersetv1alpha1.ExportedServiceSpec) {
				spec.ClusterSetIP = &clustersetv1alpha1.ClusterSetIPDecision{IPs: []string{"243.9.0.1"}, DecidedBy: "west", Since: metav1.NewTime(epoch)}
			})
			f := newFixture(t, epoch, held)
			f.exportedChanged(nil, held)
			before := localMember()
			before.Name, before.Status.State = "another", clustersetv1alpha1.MemberConnected
			changed := before.DeepCopy()
			test.change(&changed.Status)
			services := &countingServices{ServiceLister: f.services}
			f.services = services
			f.memberChanged(before, changed)
			f.settle(t)
			if reconsidered := services.used > 0; reconsidered != test.reconsidered {
				t.Errorf("%s: decisions reconsidered %t, want %t", name, reconsidered, test.reconsidered)
			}
			for _, change := range [][2]any{{nil, changed}, {changed, nil}} {
				services.used = 0
				for range 1000 { // entries of a hub
					f.memberChanged(change[0], change[1])
				}
				f.settle(t)
				if services.used != 1 {
					t.Errorf("%s: decisions reconsidered %d times when members are added or removed at once, want once", name, services.used)
				}
			}
		})
	}
}

// settle waits for changes of members, and handles everything in the queue. It is used in a
// bubble of synctest.
func (f *controllerFixture) settle(t *testing.T) {
	t.Helper()
	time.Sleep(membersInterval)
	synctest.Wait()
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		if err := f.sync(t.Context(), key); err != nil {
			t.Error(err)
		}
		f.queue.Done(key)
	}
}

// syncWith handles an export of another cluster, and adds what was written, if anything was, to the
// cache.
func (f *controllerFixture) syncWith(t *testing.T, other *clustersetv1alpha1.ExportedService) {
	t.Helper()
	if err := f.exported.Update(other); err != nil {
		t.Fatal(err)
	}
	f.written = nil
	if err := f.sync(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if f.written == nil {
		return
	}
	if err := f.own.Update(f.written); err != nil {
		t.Fatal(err)
	}
}

// R498: the conditions of an export are written at once, but not as often as a member that
// exports the same service changes it.
func TestStatusIsWrittenAtAPace(t *testing.T) {
	f := newFixture(t, epoch, newExport(), newService(), localMember(), exported("here", "export", 1))
	writes := 0
	const seconds = 120
	for second := range seconds {
		f.clock.SetTime(epoch.Add(time.Duration(second) * time.Second))
		other := exported("west", "other", 2, func(spec *clustersetv1alpha1.ExportedServiceSpec) {
			if second%2 == 0 {
				spec.Type = clustersetv1alpha1.Headless
			}
		})
		if f.syncWith(t, other); f.written != nil {
			writes++
		}
	}
	if want := statusBurst + int(seconds*time.Second/statusInterval); writes > want || writes < statusBurst {
		t.Errorf("%d writes in %d seconds, want at most %d", writes, seconds, want)
	}
}

// R510: a decision about a shared ClusterSet IP is recorded at once, although a member has changed
// the conditions of the export so often that these are not written any more.
func TestDecisionsDoNotWaitForConditions(t *testing.T) {
	f := newFixture(t, epoch, newExport(), newService(), localMember(), exported("here", "export", 1, asks))
	f.allocator.Start() // nothing is allocated for the propagation delay
	now := epoch.Add(clustersetip.PropagationDelay)
	for i := range 3 * statusBurst {
		f.clock.SetTime(now.Add(time.Duration(i-3*statusBurst) * 100 * time.Millisecond))
		f.syncWith(t, exported("west", "other", 2, asks, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Ports[0].Port += int32(i % 2) }))
	}
	if f.written != nil {
		t.Fatal("conditions are still written at once")
	}
	f.clock.SetTime(now)
	f.syncWith(t, exported("west", "other", 2, asks))
	if f.written == nil || export.RecordedDecision(f.written, epoch) == nil {
		t.Fatalf("no decision was recorded: %+v", f.written)
	}
	for i := range 3 * statusBurst { // one that is lost again and again
		f.clock.SetTime(now.Add(time.Duration(i) * 10 * time.Millisecond))
		if err := f.own.Update(newExport()); err != nil {
			t.Fatal(err)
		}
		f.syncWith(t, exported("west", "other", 2, asks))
	}
	if f.written != nil {
		t.Error("decisions are written without a limit")
	}
}
