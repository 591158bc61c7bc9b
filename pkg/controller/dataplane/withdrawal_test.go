// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// R301, R302, R305: of a member that has been silent for its TTL, endpoints that answer are
// kept for an hour, and what is not known changes nothing.
func TestEndpointsOfASilentMemberAreJudgedByWhetherTheyAnswer(t *testing.T) {
	const withdraw, keepLast, keep = clustersetv1alpha1.LostPolicyWithdraw, clustersetv1alpha1.LostPolicyKeepLast, clustersetv1alpha1.LostPolicyKeep
	for _, test := range []struct {
		policy  clustersetv1alpha1.LostPolicy
		overdue bool
		finding liveness.Finding
		want    verdict
	}{
		{withdraw, false, liveness.Answers, useEndpoints},
		{withdraw, false, liveness.Silent, withdrawEndpoints},
		{withdraw, false, liveness.Unaskable, withdrawEndpoints},
		{withdraw, false, liveness.Pending, leaveEndpoints},
		{keepLast, false, liveness.Silent, withdrawEndpoints},
		{withdraw, true, liveness.Answers, withdrawEndpoints},
		{withdraw, true, liveness.Pending, withdrawEndpoints},
		{keep, true, liveness.Silent, useEndpoints},
	} {
		entry := &clustersetv1alpha1.Member{Status: clustersetv1alpha1.MemberStatus{
			State: clustersetv1alpha1.MemberLost, LostPolicy: test.policy, Expired: true, Overdue: test.overdue,
		}}
		if got := judge(entry, test.finding); got != test.want {
			t.Errorf("%s, overdue %t, %s: %d, want %d", test.policy, test.overdue, test.finding, got, test.want)
		}
	}
	if got := judge(nil, liveness.Silent); got != useEndpoints {
		t.Errorf("a member that is not silent: %d", got)
	}
}

// R305: KeepLast never withdraws the last ready endpoints of an import.
func TestLastReadyEndpointsAreKept(t *testing.T) {
	const use, withdraw, leave = useEndpoints, withdrawEndpoints, leaveEndpoints
	for _, test := range []struct {
		name          string
		contributions map[string]contribution
		want          verdict
	}{
		{"alone", map[string]contribution{"east": {withdraw, true, true}}, use},
		{"alone, another policy", map[string]contribution{"east": {withdraw, false, true}}, withdraw},
		{"alone, not ready", map[string]contribution{"east": {withdraw, true, false}}, withdraw},
		{"another is ready", map[string]contribution{"east": {withdraw, true, true}, "west": {use, false, true}}, withdraw},
		{"another is not ready", map[string]contribution{"east": {withdraw, true, true}, "west": {use, false, false}}, use},
		{"another may answer", map[string]contribution{"east": {withdraw, true, true}, "west": {leave, false, true}}, use},
		{"another is withdrawn", map[string]contribution{"east": {withdraw, true, true}, "west": {withdraw, false, true}}, use},
		{"both are the last", map[string]contribution{"east": {withdraw, true, true}, "west": {withdraw, true, true}}, use},
		{"answers", map[string]contribution{"east": {use, true, true}, "west": {use, false, true}}, use},
		{"may answer", map[string]contribution{"east": {leave, true, true}, "west": {use, false, true}}, leave},
	} {
		if got := decide("east", test.contributions); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// findings are those of a prober.
type findings map[string]liveness.Finding

func (f findings) Finding(cluster string, service types.NamespacedName) liveness.Finding {
	if finding, ok := f[cluster+" "+service.String()]; ok {
		return finding
	}
	return liveness.Pending
}

// R301: the endpoints of a member that has been silent for its TTL stay until it is known
// whether they answer, and are withdrawn and restored as they do.
func TestWithdrawalFollowsTheFindings(t *testing.T) {
	w := newWorld(t)
	found := findings{}
	w.findings = found
	serviceImport := newImport()
	w.hold(t, "import", serviceImport)
	w.hold(t, "service", defaulted(desiredService(nil, serviceImport, variant{})))
	w.export(t, exportedBy("here", ready("10.0.0.1")), exportedBy("east", ready("10.1.0.1")))
	east := key{web, "east"}
	sync := func() string {
		w.clock.Step(time.Minute)
		if err := w.sync(t.Context(), east); err != nil {
			t.Fatal(err)
		}
		return w.written()
	}
	if got := sync(); got != "create endpointslices" {
		t.Fatalf("wrote %q", got)
	}
	for name, slice := range slicesOf(serviceImport, exportedBy("east", ready("10.1.0.1"))) {
		slice.Name = name
		w.hold(t, "slice", slice)
	}
	w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
	if got := sync(); got != "" {
		t.Errorf("wrote %q before it is known whether the endpoints answer", got)
	}
	found["east "+web.String()] = liveness.Answers
	if got := sync(); got != "" {
		t.Errorf("wrote %q although the endpoints answer", got)
	}
	found["east "+web.String()] = liveness.Silent
	w.queued()
	w.Reconsider("east", web)
	if got := w.queued(); got != "shop/web@east" {
		t.Errorf("enqueued %q", got)
	}
	if got := sync(); got != "delete endpointslices" {
		t.Errorf("wrote %q when the endpoints do not answer", got)
	}
}

// R305: endpoints that were kept because they were the last are withdrawn when others are
// ready.
func TestKeepLastFollowsTheOtherClusters(t *testing.T) {
	w := newWorld(t)
	serviceImport := newImport()
	w.hold(t, "import", serviceImport)
	w.hold(t, "service", defaulted(desiredService(nil, serviceImport, variant{})))
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyKeepLast)
	if got := w.clusters(); got != "east" {
		t.Errorf("uses %q, want the last endpoints", got)
	}
	w.queued()
	west := exportedBy("west", ready("10.2.0.1"))
	w.export(t, west)
	w.enqueueExporter(west.slices[0])
	if got := w.queued(); got != "shop/web@east,shop/web@west" {
		t.Errorf("enqueued %q", got)
	}
	if got := w.clusters(); got != "west" {
		t.Errorf("uses %q, want west, which is ready", got)
	}
}

// R305: west is back, but was not read yet: its endpoints are not imported before. Those of east
// stay until they are. What is imported from an outdated cluster counts.
func TestKeepLastWaitsUntilOthersAreImported(t *testing.T) {
	for name, path := range map[string][]string{"member": {"west"}, "behind a hub": {"west", "hub"}} {
		t.Run(name, func(t *testing.T) {
			w, sync := importing(t, findings{"east " + web.String(): liveness.Silent})
			west := exportedBy("west", ready("10.2.0.1"))
			w.export(t, exportedBy("east", ready("10.1.0.1")), west)
			know := func(state clustersetv1alpha1.MemberState, reason string) {
				if hub := path[len(path)-1]; hub != "west" {
					w.know(t, hub, state, reason, hub)
				}
				w.know(t, "west", state, reason, path...)
			}
			know(isLost, "Synced")
			w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyKeepLast)
			if got := sync(); got != "" {
				t.Fatalf("wrote %q although the endpoints are the last", got)
			}
			know(isConnected, clusterset.ReasonOutdated)
			if got := w.queued(); got != "shop/web@east,shop/web@west" {
				t.Errorf("enqueued %q", got)
			}
			if got := sync(); got != "" {
				t.Errorf("wrote %q before west was read", got)
			}
			know(isConnected, "Synced")
			if got := w.clusters(); got != "east,west" {
				t.Errorf("uses %q when west was just read, and has not settled", got)
			}
			for name, slice := range slicesOf(newImport(), west) {
				slice.Name = name
				w.hold(t, "slice", slice)
			}
			w.clock.Step(settleTime)
			know(isConnected, "Synced")
			if got := sync(); got != "delete endpointslices" {
				t.Errorf("wrote %q when the endpoints of west are imported", got)
			}
			know(isStale, clusterset.ReasonOutdated)
			if got := w.clusters(); got != "west" {
				t.Errorf("uses %q, want west, which is imported", got)
			}
			for name := range slicesOf(newImport(), west) {
				slice := w.existingSlices(web)[name].DeepCopy()
				slice.Endpoints[0].Conditions.Ready = ptr.To(false)
				w.hold(t, "slice", slice)
			}
			if got := w.clusters(); got != "east,west" {
				t.Errorf("uses %q although what is imported of west is not ready", got)
			}
		})
	}
}

// R302, R375: endpoints that are kept because they answer are withdrawn when the server shows that
// the hour is over, whatever the clock of this process shows.
func TestEndpointsThatAnswerAreWithdrawnAfterAnHour(t *testing.T) {
	w, sync := importing(t, findings{"east " + web.String(): liveness.Answers})
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
	w.clock.Step(24 * time.Hour)
	if got := sync(); got != "" {
		t.Errorf("wrote %q before the hour is over", got)
	}
	entry := w.silentMember("east").DeepCopy()
	entry.Status.Overdue = true
	w.hold(t, "member", entry)
	w.memberChanged(entry)
	if got := w.queued(); got != "shop/web@east" {
		t.Errorf("enqueued %q", got)
	}
	if got := sync(); got != "delete endpointslices" {
		t.Errorf("wrote %q when the hour is over", got)
	}
}

// A cluster that is no longer a member is forgotten when it exports nothing any more, in
// either order.
func TestFormerMemberIsForgotten(t *testing.T) {
	for _, exportsFirst := range []bool{true, false} {
		w := newWorld(t)
		export := exportedBy("east", ready("10.1.0.1"))
		w.export(t, export)
		w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
		removals := []func(){
			func() {
				if err := w.caches["exported"].Delete(export.service); err != nil {
					t.Fatal(err)
				}
				w.enqueueExporter(export.service)
			},
			func() {
				gone := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "east"}}
				if err := w.caches["member"].Delete(gone); err != nil {
					t.Fatal(err)
				}
				w.memberChanged(gone)
			},
		}
		if !exportsFirst {
			slices.Reverse(removals)
		}
		for i, remove := range removals {
			if w.silentMember("east") == nil {
				t.Errorf("forgotten before step %d", i)
			}
			remove()
		}
		if w.silentMember("east") != nil {
			t.Error("it is not forgotten")
		}
	}
}

// importing returns a world in which the endpoints of east are imported.
func importing(t *testing.T, found Findings) (w *world, sync func() string) {
	t.Helper()
	w = newWorld(t)
	w.findings = found
	serviceImport := newImport()
	w.hold(t, "import", serviceImport)
	w.hold(t, "service", defaulted(desiredService(nil, serviceImport, variant{})))
	for name, slice := range slicesOf(serviceImport, exportedBy("east", ready("10.1.0.1"))) {
		slice.Name = name
		w.hold(t, "slice", slice)
	}
	return w, func() string {
		w.clock.Step(time.Second)
		if err := w.sync(t.Context(), key{web, "east"}); err != nil {
			t.Fatal(err)
		}
		return w.written()
	}
}

// R301: the server of a new leader was restarted while the member was silent and the endpoints
// withdrawn. The former leader has found since that they answer, and imported them. The new
// one knows that east exports the service, but not its endpoints: unknown is not empty.
func TestEndpointsThatAreNotKnownAreNotWithdrawn(t *testing.T) {
	w, sync := importing(t, findings{"east " + web.String(): liveness.Unaskable})
	export := exportedBy("east", nil)
	export.slices = nil
	w.export(t, export)
	w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
	if got := sync(); got != "" {
		t.Errorf("wrote %q", got)
	}
	entry := w.silentMember("east").DeepCopy()
	entry.Status.Synced = true
	w.hold(t, "member", entry)
	w.memberChanged(entry)
	if got := sync(); got != "delete endpointslices" {
		t.Errorf("wrote %q although the member was read, and exports no endpoints", got)
	}
}

// R301: what is not known stays as it is, also if the derived Service is replaced, with which
// its slices are deleted. What was withdrawn before does not return because of that.
func TestEndpointsStayIfTheDerivedServiceIsReplaced(t *testing.T) {
	for _, test := range []struct {
		name                string
		imported, collected bool
		want                string
	}{
		{"imported", true, false, "update endpointslices"},
		{"imported, and deleted with the Service", true, true, "create endpointslices"},
		{"withdrawn", false, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, sync := importing(t, findings{})
			remove := func() {
				for _, object := range w.caches["slice"].List() {
					if err := w.caches["slice"].Delete(object); err != nil {
						t.Fatal(err)
					}
				}
			}
			if !test.imported {
				remove()
			}
			w.export(t, exportedBy("east", ready("10.1.0.1")))
			w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
			if got := sync(); got != "" {
				t.Errorf("wrote %q before the Service was replaced", got)
			}
			replacement := defaulted(desiredService(nil, newImport(), variant{}))
			replacement.UID = "another"
			w.hold(t, "service", replacement)
			if test.collected {
				remove()
			}
			for _, object := range w.caches["slice"].List() {
				if err := w.client.Tracker().Add(object.(runtime.Object)); err != nil {
					t.Fatal(err)
				}
			}
			if got := sync(); got != test.want {
				t.Errorf("wrote %q, want %q", got, test.want)
			}
		})
	}
}

// R305: endpoints of another cluster that are ready, but not imported, are not those of the
// import: they are of another IP family, or the cluster serves none of its ports.
func TestKeepLastCountsWhatIsImported(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpointSlice)
		want   string
	}{
		"imported": {func(*clustersetv1alpha1.ExportedService, *clustersetv1alpha1.ExportedEndpointSlice) {}, "delete endpointslices"},
		"another family": {func(_ *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
			slice.Spec.AddressType, slice.Spec.Endpoints = discoveryv1.AddressTypeIPv6, ready("fd00::1")
		}, ""},
		"another port": {func(service *clustersetv1alpha1.ExportedService, _ *clustersetv1alpha1.ExportedEndpointSlice) {
			service.Spec.Ports[0].Port = 81
		}, ""},
		"no valid address": {func(_ *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
			slice.Spec.Endpoints = ready("127.0.0.1")
		}, ""},
		"not ready": {func(_ *clustersetv1alpha1.ExportedService, slice *clustersetv1alpha1.ExportedEndpointSlice) {
			slice.Spec.Endpoints[0].Conditions.Ready = ptr.To(false)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, sync := importing(t, findings{"east " + web.String(): liveness.Silent})
			w.export(t, exportedBy("east", ready("10.1.0.1")), exportedBy("west", ready("10.2.0.1"), test.change))
			w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyKeepLast)
			if got := sync(); got != test.want {
				t.Errorf("wrote %q, want %q", got, test.want)
			}
		})
	}
}

// R305: an import without ports has endpoints, too.
func TestEndpointsWithoutPortsAreReady(t *testing.T) {
	serviceImport := newImport(makeHeadless)
	serviceImport.Spec.Ports = nil
	export := exportedBy("east", ready("10.1.0.1"))
	export.service.Spec.Ports, export.slices[0].Spec.Ports = nil, nil
	if !hasReady(serviceImport, defaulted(desiredService(nil, serviceImport, variant{})), export) {
		t.Error("they are not ready")
	}
}

// alternating are findings that change while a key is reconciled.
type alternating struct{ next []liveness.Finding }

func (a *alternating) Finding(string, types.NamespacedName) liveness.Finding {
	found := a.next[0]
	if len(a.next) > 1 {
		a.next = a.next[1:]
	}
	return found
}

// R302: the member was seen for a moment while a key is reconciled: nothing is known of its
// present silence, so nothing changes.
func TestFindingIsReadOnce(t *testing.T) {
	w, sync := importing(t, &alternating{[]liveness.Finding{liveness.Silent, liveness.Pending}})
	for _, object := range w.caches["slice"].List() { // they were withdrawn
		if err := w.caches["slice"].Delete(object); err != nil {
			t.Fatal(err)
		}
	}
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.east(t, clustersetv1alpha1.MemberLost, clustersetv1alpha1.LostPolicyWithdraw)
	if got := sync(); got != "" {
		t.Errorf("wrote %q: what was withdrawn returns although it is not known whether it answers", got)
	}
}
