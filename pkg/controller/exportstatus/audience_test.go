// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	recorder "k8s.io/client-go/tools/events"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
)

func member(id string, changes ...func(*clustersetv1alpha1.MemberStatus)) *clustersetv1alpha1.Member {
	made := &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: id},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: id, State: clustersetv1alpha1.MemberConnected},
	}
	for _, change := range changes {
		change(&made.Status)
	}
	return made
}

func behind(path ...string) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) { status.Path = path }
}

func inRegion(region string) func(*clustersetv1alpha1.MemberStatus) {
	return func(status *clustersetv1alpha1.MemberStatus) {
		status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: region}}
	}
}

func exportTo(clusters string) *multiclusterxv1beta1.ServiceExport {
	made := newExport()
	made.Annotations = map[string]string{multicluster.ExportToAnnotation: clusters}
	return made
}

// R626: the condition Ready says which clusters an export is for, and which of them cannot import it.
func TestReadyConditionSaysWhoMayImport(t *testing.T) {
	refuse := func(status *clustersetv1alpha1.MemberStatus) { status.State = clustersetv1alpha1.MemberRefused }
	connect := func(status *clustersetv1alpha1.MemberStatus) { status.State = clustersetv1alpha1.MemberConnecting }
	named := func(name string, entry *clustersetv1alpha1.Member) *clustersetv1alpha1.Member {
		entry.Name = name
		return entry
	}
	own := self("everywhere")
	inRegion("here")(&own.Status)
	members := []*clustersetv1alpha1.Member{
		own, member("far", behind("far", "inner", "hub")), member("hub"), member("inner", behind("inner", "hub")),
		named("secret.west", member("west", refuse)), member("west", inRegion("eu")), // two Secrets for one cluster
		named("secret.stranger", member("stranger", refuse, inRegion("us"))), // one that is named after its Secret
		named("lost", member("moved")), member("new", connect, inRegion("new")),
	}
	const no = "no other cluster can import the Service; "
	for _, test := range []struct {
		listed string
		// audience is nil if the list is for all.
		audience []string
		status   metav1.ConditionStatus
		reason   string
		want     string
	}{
		{"", nil, metav1.ConditionTrue, "Ready", "Service is exported to the ClusterSet"},
		{"west", []string{"west"}, metav1.ConditionTrue, "Ready", "Service is exported to west only"},
		{"here,west", []string{"west"}, metav1.ConditionTrue, "Ready", "Service is exported to west only"},
		{"moved", []string{"moved"}, metav1.ConditionTrue, "Ready", "Service is exported to moved only"},
		{"west,lost", []string{"lost", "west"}, metav1.ConditionTrue, "ClustersMissing", "Service is exported to lost, west only; lost is not a member: check the ID with kubectl get members"},
		{"west,nroth", []string{"nroth", "west"}, metav1.ConditionTrue, "ClustersMissing", "Service is exported to nroth, west only; nroth is not a member: check the ID with kubectl get members"},
		{
			"west,stranger", []string{"stranger", "west"}, metav1.ConditionTrue, "ClustersMissing",
			"Service is exported to stranger, west only; stranger is refused: see kubectl describe member secret.stranger",
		},
		{"stranger", []string{"stranger"}, metav1.ConditionFalse, "NoMatchingCluster", no + "stranger is refused: see kubectl describe member secret.stranger"},
		{"far,hub", []string{"far", "hub"}, metav1.ConditionTrue, "ClustersMissing", "Service is exported to far, hub only; far is behind hub inner, which is not listed: add inner"},
		{"far,hub,inner", []string{"far", "hub", "inner"}, metav1.ConditionTrue, "Ready", "Service is exported to far, hub, inner only"},
		{"region.example.com=eu", []string{"west"}, metav1.ConditionTrue, "Ready", "Service is exported to west only"},
		{
			"west,region.example.com=asia", []string{"west"}, metav1.ConditionTrue, "ClustersMissing",
			"Service is exported to west only; no other member has ClusterProperty region.example.com=asia: " +
				"create the ClusterClaim region.example.com with value asia in the clusters that should import the Service",
		},
		{
			"west,region.example.com=here", []string{"west"}, metav1.ConditionTrue, "ClustersMissing",
			"Service is exported to west only; no other member has ClusterProperty region.example.com=here (only here, which is this cluster): " +
				"create the ClusterClaim region.example.com with value here in the clusters that should import the Service",
		},
		{
			"region.example.com=here", []string{}, metav1.ConditionFalse, "NoMatchingCluster",
			no + "no other member has ClusterProperty region.example.com=here (only here, which is this cluster): " +
				"create the ClusterClaim region.example.com with value here in the clusters that should import the Service",
		},
		{
			"region.example.com=us", []string{}, metav1.ConditionFalse, "NoMatchingCluster",
			no + "no other member has ClusterProperty region.example.com=us (only stranger, which is refused): " +
				"create the ClusterClaim region.example.com with value us in the clusters that should import the Service",
		},
		{
			"region.example.com=new", []string{}, metav1.ConditionFalse, "NoMatchingCluster",
			no + "no other member has ClusterProperty region.example.com=new (only new, which is not connected yet): " +
				"create the ClusterClaim region.example.com with value new in the clusters that should import the Service",
		},
		{"region.example.com=eu", []string{}, metav1.ConditionFalse, "Pending", "waiting for mcs-apiserver to export the Service to the listed clusters"},
		{"here", []string{}, metav1.ConditionTrue, "Ready", "Service is exported to this cluster only"},
		{
			"here,north", []string{"north"}, metav1.ConditionFalse, "NoMatchingCluster",
			no + "here is this cluster, which always has its own Service; north is not a member: check the ID with kubectl get members",
		},
		{"north", []string{"north"}, metav1.ConditionFalse, "NoMatchingCluster", no + "north is not a member: check the ID with kubectl get members"},
		{
			"West,,west", []string{}, metav1.ConditionFalse, "InvalidClusterList",
			`annotation clusterset.mcs-apiserver.io/export-to is not valid: "West" is no cluster ID: `,
		},
	} {
		var audience *clustersetv1alpha1.Audience
		serviceExport := newExport()
		if test.audience != nil {
			audience, serviceExport = &clustersetv1alpha1.Audience{Clusters: test.audience}, exportTo(test.listed)
		}
		observed := facts{
			service: newService(), self: self("everywhere"), members: members, now: epoch,
			exported: []*clustersetv1alpha1.ExportedService{exported("here", "export", 0, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.Audience = audience })},
		}
		condition := conditions(serviceExport, observed)[1]
		exact := condition.Message == test.want
		if test.reason == "InvalidClusterList" { // with everything that is wrong
			exact = strings.HasSuffix(condition.Message, "; has an empty term; remove the superfluous comma; the Service is exported to no other cluster until it is corrected")
		}
		if condition.Type != multicluster.ServiceExportReady || condition.Status != test.status || condition.Reason != test.reason || !exact || !strings.HasPrefix(condition.Message, test.want) {
			t.Errorf("%s: got %s %s: %q, want %s %s: %q", test.listed, condition.Status, condition.Reason, condition.Message, test.status, test.reason, test.want)
		}
	}
}

// R626: what the condition says follows the members. Other exports are left alone.
func TestExportsWithAListFollowTheMembers(t *testing.T) {
	for name, test := range map[string]struct {
		before, after *clustersetv1alpha1.Member
		enqueued      bool
	}{
		"joins":        {nil, member("north"), true},
		"leaves":       {member("north"), nil, true},
		"behind a hub": {member("north"), member("north", behind("north", "hub")), true},
		"refused":      {member("north"), member("north", func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberRefused }), true},
		"property":     {member("north"), member("north", inRegion("eu")), true},
		"connects":     {member("north", func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberConnecting }), member("north"), true},
		"seen again":   {member("north"), member("north", func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = &metav1.Time{Time: epoch} }), false},
		"more exports": {member("north"), member("north", func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints = 7, 8 }), false},
		"stale":        {member("north"), member("north", func(s *clustersetv1alpha1.MemberStatus) { s.State = clustersetv1alpha1.MemberStale }), false},
	} {
		t.Run(name, func(t *testing.T) {
			other := newExport()
			other.Name = "other"
			f := newFixture(t, epoch, exportTo("north"), other)
			var before, after any
			if test.before != nil {
				before = test.before
			}
			if test.after != nil {
				after = test.after
			}
			f.memberChanged(before, after)
			if enqueued := f.queue.Len() > 0; enqueued != test.enqueued {
				t.Fatalf("enqueued %t, want %t", enqueued, test.enqueued)
			}
			if !test.enqueued {
				return
			}
			if key, _ := f.queue.Get(); key != web || f.queue.Len() > 0 {
				t.Errorf("got %s and %d others, want %s only", key, f.queue.Len(), web)
			}
		})
	}
}

// Which entry counts of a cluster that has several does not depend on their order.
func TestEntryOfAClusterIsFoundByItsID(t *testing.T) {
	entry := func(name string, state clustersetv1alpha1.MemberState) *clustersetv1alpha1.Member {
		made := member("west", func(status *clustersetv1alpha1.MemberStatus) { status.State = state })
		made.Name = name
		return made
	}
	const refused, connected = clustersetv1alpha1.MemberRefused, clustersetv1alpha1.MemberConnected
	for _, test := range []struct {
		entries []*clustersetv1alpha1.Member
		want    string
	}{
		{[]*clustersetv1alpha1.Member{member("east"), entry("secret.a", refused)}, "secret.a"},
		{[]*clustersetv1alpha1.Member{entry("secret.a", connected), entry("west", refused)}, "secret.a"},
		{[]*clustersetv1alpha1.Member{entry("secret.a", connected), entry("west", connected)}, "west"},
		{[]*clustersetv1alpha1.Member{entry("secret.a", refused), entry("secret.b", refused)}, "secret.a"},
	} {
		for range 2 {
			if found := entryOf("west", test.entries); found == nil || found.Name != test.want {
				t.Errorf("got %v, want %s", found, test.want)
			}
			slices.Reverse(test.entries)
		}
	}
	if found := entryOf("west", []*clustersetv1alpha1.Member{member("east")}); found != nil {
		t.Errorf("got %s", found.Name)
	}
}

// R631: an export gives up its address when it lists clusters, and the Event says so.
func TestExportWithAListHasNoAddress(t *testing.T) {
	for _, audience := range []*clustersetv1alpha1.Audience{nil, {Clusters: []string{"west"}}} {
		listed, shown := newExport(), exported("here", "export", 1, asks)
		if audience != nil {
			listed = exportTo("west")
			shown.Spec.Audience, shown.Spec.UseClusterSetIP = audience, false
		}
		decision := clustersetip.NewDecision("here", []string{"243.1.0.1"}, epoch.Add(time.Minute))
		export.RecordDecision(listed, decision, epoch)
		f := newFixture(t, epoch.Add(time.Hour), listed, newService(), localMember(), shown)
		f.allocator.Start()
		if err := f.sync(t.Context(), web); err != nil {
			t.Fatal(err)
		}
		if kept := export.RecordedDecision(f.written, epoch) != nil; kept != (audience == nil) {
			t.Errorf("audience %v: address kept %t", audience, kept)
		}
		said := ""
		for len(f.recorder.(*recorder.FakeRecorder).Events) > 0 {
			said += <-f.recorder.(*recorder.FakeRecorder).Events + "\n"
		}
		want := "ClusterSetIPReleased shared ClusterSet IP 243.1.0.1 is given up: annotation clusterset.mcs-apiserver.io/export-to lists clusters, " +
			"and exports with a list take no part in shared ClusterSet IPs; remove the annotation if the export should have one"
		if strings.Contains(said, want) != (audience != nil) || strings.Contains(said, "ClusterSetIPReleased") != (audience != nil) {
			t.Errorf("audience %v: got Events %s", audience, said)
		}
	}
}
