// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// know adds a member that mcs-apiserver shows with a reason of the condition Synced.
func (w *world) know(t *testing.T, id string, state clustersetv1alpha1.MemberState, reason string, path ...string) {
	t.Helper()
	entry := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: id}, Status: clustersetv1alpha1.MemberStatus{
		ClusterID: id, State: state, Path: path, Synced: reason == "Synced", Conditions: []metav1.Condition{{Type: clusterset.MemberSynced, Reason: reason}},
	}}
	w.hold(t, "member", entry)
	w.memberChanged(entry)
}

const (
	isConnected = clustersetv1alpha1.MemberConnected
	isStale     = clustersetv1alpha1.MemberStale
	isLost      = clustersetv1alpha1.MemberLost
)

// takeOver returns the controller of another replica, which knows nothing yet but what
// the first one has written for web, as east and south export it.
func takeOver(t *testing.T) *world {
	t.Helper()
	former := newWorld(t)
	former.hold(t, "import", newImport())
	former.export(t, exportedBy("east", ready("10.1.0.2")), exportedBy("south", ready("10.2.0.1")))
	former.sync1(t)
	former.written()
	w := newWorld(t)
	w.client, w.Controller.client = former.client, former.client
	w.settle(t)
	return w
}

// lose removes the EndpointSlices of web that were imported from a cluster.
func (w *world) lose(t *testing.T, cluster string) {
	t.Helper()
	for name, slice := range w.existingSlices(web) {
		if slice.Labels[multicluster.SourceClusterLabel] != cluster {
			continue
		}
		if err := w.slices.Delete(slice); err != nil {
			t.Fatal(name, err)
		}
	}
}

func (w *world) expectWrites(t *testing.T, when, want string) {
	t.Helper()
	w.sync1(t)
	if got := w.written(); got != want {
		t.Errorf("%s: got requests %q, want %q", when, got, want)
	}
}

// expectResumed checks what of a member that is no longer outdated is enqueued.
func (w *world) expectResumed(t *testing.T, want string) {
	t.Helper()
	got := w.queued()
	if got == settled.String() { // it is not any more after it settled
		if err := w.sync(t.Context(), settled); err != nil {
			t.Fatal(err)
		}
		got = w.queued()
	}
	if got != want {
		t.Errorf("enqueued %q, want %q", got, want)
	}
}

// R159: a leader does not delete what another replica imported from a member that this one
// does not reach: it does not know what that member exports. It does when nobody reaches
// the member any more.
func TestImportOfAMemberThatOnlyAnotherReplicaReachesStays(t *testing.T) {
	for _, reason := range []string{clusterset.ReasonOutdated, clusterset.ReasonUnrecorded} {
		w := takeOver(t)
		w.know(t, "east", isStale, reason)
		w.know(t, "south", isConnected, "Synced")
		w.expectWrites(t, "south does not export it any more", "delete endpointslices")
		w.lose(t, "south")
		w.expectWrites(t, "east is outdated", "")
		w.queued()
		w.know(t, "east", isLost, "Reading")
		w.expectResumed(t, "shop/web,shop/web@east")
		w.expectWrites(t, "east is lost", "delete endpointslices, delete services")
	}
}

// R159: the endpoints of such a member are not replaced by older ones, nor its ports. It
// does not delay other members.
func TestEndpointsOfAMemberThatOnlyAnotherReplicaReachesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := takeOver(t)
		w.know(t, "east", isStale, clusterset.ReasonOutdated)
		w.know(t, "south", isConnected, "Synced")
		older := newImport(func(serviceImport *multiclusterxv1beta1.ServiceImport) { serviceImport.Spec.Ports[0].Name = "older" })
		w.hold(t, "import", older)
		w.export(t, exportedBy("east", ready("10.1.0.1")), exportedBy("south", ready("10.2.0.1")))
		w.expectWrites(t, "east is outdated", "update endpointslices")
		w.settle(t)
		w.queued()

		// Its exports arrive in other watches than its state.
		w.know(t, "east", isConnected, "Synced")
		w.expectWrites(t, "east was just read", "")
		time.Sleep(settleTime / 2)
		w.export(t, exportedBy("east", ready("10.1.0.3"), func(service *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
			service.Name, slice.Name = clusterset.ObjectName("later", "east"), clusterset.ObjectName("later-abc", "east")
			service.Labels = clusterset.SourceLabels("east", "later")
			slice.Labels = service.Labels
		}))
		time.Sleep(settleTime / 2)
		synctest.Wait()
		w.clock.Step(settleTime)
		w.expectResumed(t, "shop/later,shop/later@east,shop/web,shop/web@east")
		w.expectWrites(t, "east was read", "update endpointslices, update services")
	})
}

// What a hub relays is outdated with the hub.
func TestImportOfARelayedClusterStaysWithItsHub(t *testing.T) {
	w := takeOver(t)
	w.know(t, "east", isConnected, "Synced", "east", "hub")
	w.know(t, "south", isConnected, "Synced", "south", "hub")
	w.know(t, "hub", isStale, clusterset.ReasonOutdated)
	w.expectWrites(t, "the hub is outdated", "")
	w.queued()
	w.know(t, "hub", isLost, "Synced")
	w.expectResumed(t, "shop/web,shop/web@east,shop/web@south")
	w.expectWrites(t, "the hub is lost", "delete endpointslices, delete endpointslices, delete services")
}

// R163: the derived Service and the endpoints of a retained import stay until it is known
// whether it is exported. Those of a cluster that is known not to export it do not.
func TestObjectsOfARetainedImportStay(t *testing.T) {
	w := takeOver(t)
	retained := newImport(func(serviceImport *multiclusterxv1beta1.ServiceImport) {
		serviceImport.Status.Conditions = []metav1.Condition{{Type: multicluster.ServiceImportReady, Status: metav1.ConditionUnknown, Reason: multicluster.ServiceImportReasonExportsUnknown}}
		serviceImport.Spec.Ports = nil
	})
	w.hold(t, "import", retained)
	w.expectWrites(t, "no member was read", "")
	w.know(t, "east", clustersetv1alpha1.MemberConnecting, "Reading")
	w.know(t, "south", isConnected, "Synced")
	w.expectWrites(t, "south was read", "delete endpointslices")
	if err := w.caches["import"].Delete(retained); err != nil {
		t.Fatal(err)
	}
	w.expectWrites(t, "ended", "delete endpointslices, delete endpointslices, delete services")
}

// R159: a port that another replica added for an export of such a member stays, even if
// the export is not the oldest.
func TestPortOfAMemberThatOnlyAnotherReplicaReachesStays(t *testing.T) {
	w := takeOver(t)
	w.know(t, "east", isStale, clusterset.ReasonOutdated)
	w.know(t, "south", isConnected, "Synced")
	w.hold(t, "import", newImport(func(serviceImport *multiclusterxv1beta1.ServiceImport) { serviceImport.Spec.Ports[0].Port = 81 }))
	w.export(t, exportedBy("south", ready("10.2.0.1")), exportedBy("east", ready("10.1.0.2"), func(service *clustersetv1alpha1.ExportedService, _ *clustersetv1alpha1.ExportedEndpointSlice) {
		service.Spec.EffectiveAt = metav1.Now()
	}))
	w.expectWrites(t, "east is outdated", "update endpointslices") // of south
}

// R445: a member that responds to another replica only does not keep other clusters from
// changing a Service that they share, however often it settles in between. One that nobody else
// exports stays as it is.
func TestMemberThatOnlyAnotherReplicaReachesDoesNotFreezeSharedServices(t *testing.T) {
	for _, shared := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := takeOver(t)
			w.know(t, "east", isStale, clusterset.ReasonOutdated)
			w.know(t, "south", isConnected, "Synced")
			w.hold(t, "import", newImport(func(serviceImport *multiclusterxv1beta1.ServiceImport) { serviceImport.Spec.Ports[0].Name = "changed" }))
			w.export(t, exportedBy("east", ready("10.1.0.2")))
			want := ""
			if shared {
				w.export(t, exportedBy("south", ready("10.2.0.1")))
				want = "update services"
			}
			w.sync1(t)
			w.settle(t)
			if !shared {
				w.lose(t, "south")
			}
			w.written()
			w.queued()
			pass := func(passed time.Duration) {
				time.Sleep(passed)
				w.clock.Step(passed)
				synctest.Wait()
			}
			pass(maxSharedDelay / 2)
			w.know(t, "east", isConnected, "Synced")
			w.know(t, "east", isStale, clusterset.ReasonOutdated)
			w.expectWrites(t, "for a while", "")
			pass(maxSharedDelay / 2)
			if got := w.queued(); shared && !strings.Contains(got, "shop/web") {
				t.Errorf("enqueued %q, want shop/web", got)
			}
			w.expectWrites(t, "after that", want)
		})
	}
}

// What was postponed is enqueued even if the member becomes outdated again meanwhile.
func TestOutdatedAgainWhileSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := takeOver(t)
		w.hold(t, "import", newImport())
		w.know(t, "east", isStale, clusterset.ReasonOutdated)
		w.know(t, "south", isConnected, "Synced")
		w.expectWrites(t, "east is outdated", "delete endpointslices")
		pass := func(passed time.Duration) {
			time.Sleep(passed)
			w.clock.Step(passed)
			synctest.Wait()
		}
		w.know(t, "east", isConnected, "Synced")
		pass(settleTime / 2)
		w.know(t, "east", isStale, clusterset.ReasonOutdated)
		w.know(t, "east", isConnected, "Synced")
		w.queued()
		pass(settleTime / 2)
		w.expectResumed(t, "")
		pass(settleTime / 2)
		w.expectResumed(t, "shop/web,shop/web@east")
	})
}

// What was postponed because of a hub is enqueued when the hub is removed, or does not
// relay the cluster any more.
func TestHubChangesWhileItIsOutdated(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *world){
		"removed": func(t *testing.T, w *world) {
			for _, id := range []string{"east", "hub"} {
				entry, err := w.members.Get(id)
				if err == nil {
					err = w.caches["member"].Delete(entry)
				}
				if err != nil {
					t.Fatal(err)
				}
				w.memberChanged(entry)
			}
		},
		"another route": func(t *testing.T, w *world) { w.know(t, "east", isConnected, "Synced", "east", "other") },
	} {
		t.Run(name, func(t *testing.T) {
			w := takeOver(t)
			w.hold(t, "import", newImport())
			w.export(t, exportedBy("south", ready("10.2.0.1")))
			w.know(t, "east", isConnected, "Synced", "east", "hub")
			w.know(t, "south", isConnected, "Synced")
			w.know(t, "hub", isStale, clusterset.ReasonOutdated)
			w.expectWrites(t, "the hub is outdated", "")
			w.queued()
			change(t, w)
			w.expectResumed(t, "shop/web,shop/web@east")
		})
	}
}

// What the replicas of a hub know of a cluster that it relays is not what replicas of this
// cluster know: a lost cluster is withdrawn.
func TestConditionsOfRelayedClustersAreThoseOfTheHub(t *testing.T) {
	w := takeOver(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.2")), exportedBy("south", ready("10.2.0.1")))
	w.know(t, "hub", isConnected, "Synced")
	w.know(t, "south", isConnected, "Synced")
	w.know(t, "east", isLost, clusterset.ReasonOutdated, "east", "hub")
	w.expectWrites(t, "east is lost", "delete endpointslices")
}

// R159: another replica reaches a cluster that is lost here with its hub. What that one has
// imported stays.
func TestImportOfARelayedClusterThatAnotherReplicaReachesStays(t *testing.T) {
	w := takeOver(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")), exportedBy("south", ready("10.2.0.1")))
	w.know(t, "hub", isLost, "Synced")
	w.know(t, "south", isConnected, "Synced")
	w.know(t, "east", isStale, clusterset.ReasonReachedElsewhere, "east", "hub")
	w.expectWrites(t, "another replica reaches east", "")
}

// R163: endpoints of a retained import are enqueued when their cluster was read.
func TestEndpointsOfARetainedImportAreResumed(t *testing.T) {
	w := takeOver(t)
	w.hold(t, "import", newImport(func(serviceImport *multiclusterxv1beta1.ServiceImport) {
		serviceImport.Status.Conditions = []metav1.Condition{{Type: multicluster.ServiceImportReady, Status: metav1.ConditionUnknown, Reason: multicluster.ServiceImportReasonExportsUnknown}}
	}))
	w.know(t, "south", isConnected, "UnconfirmedRemoval")
	w.expectWrites(t, "south was not read", "")
	w.queued()
	w.know(t, "south", isConnected, "Synced")
	w.expectResumed(t, "shop/web,shop/web@south")
	w.expectWrites(t, "south was read", "delete endpointslices")
}
