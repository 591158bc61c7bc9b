// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

const system = "mcs-system"

func member(name string, state clustersetv1alpha1.MemberState, clusterSet string, path ...string) *clustersetv1alpha1.Member {
	return &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     clustersetv1alpha1.MemberStatus{ClusterID: name, ClusterSet: clusterSet, State: state, Path: path},
	}
}

func local(clusterSet string) *clustersetv1alpha1.Member {
	return member("west", clustersetv1alpha1.MemberLocal, clusterSet)
}

// fixture is a controller whose caches have what its server has.
type fixture struct {
	*testing.T
	*Controller
	host      *kubernetesfake.Clientset
	clock     *clocktesting.FakeClock
	own       *mcsfake.Clientset
	informers mcsinformers.SharedInformerFactory
	namespace *corev1.Namespace
}

func newFixture(t *testing.T, stored ...*multiclusterxv1alpha1.ClusterProfile) *fixture {
	t.Helper()
	f := &fixture{T: t, namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, Labels: map[string]string{"a": "b"}}}}
	var objects []runtime.Object
	for _, profile := range stored {
		objects = append(objects, profile)
	}
	f.host, f.own = kubernetesfake.NewClientset(f.namespace), mcsfake.NewSimpleClientset(objects...)
	f.clock = clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	f.informers = mcsinformers.NewSharedInformerFactory(f.own, 0)
	f.Controller = New(f.host.CoreV1(), f.own, f.clock, system, f.informers, f.informers)
	t.Cleanup(f.queue.ShutDown)
	return f
}

// sync reconciles a profile while these are the Members, with caches that are up to date.
func (f *fixture) sync(name string, members ...*clustersetv1alpha1.Member) error {
	f.Helper()
	var entries, profiles []any
	for _, entry := range members {
		entries = append(entries, entry)
	}
	list, err := f.own.MulticlusterXV1alpha1().ClusterProfiles(system).List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for i := range list.Items {
		profiles = append(profiles, &list.Items[i])
	}
	if err := f.informers.ClusterSet().V1alpha1().Members().Informer().GetIndexer().Replace(entries, ""); err != nil {
		f.Fatal(err)
	}
	if err := f.informers.MulticlusterX().V1alpha1().ClusterProfiles().Informer().GetIndexer().Replace(profiles, ""); err != nil {
		f.Fatal(err)
	}
	return f.Controller.sync(f.Context(), types.NamespacedName{Name: name})
}

func (f *fixture) mustSync(name string, members ...*clustersetv1alpha1.Member) {
	f.Helper()
	if err := f.sync(name, members...); err != nil {
		f.Fatal(err)
	}
}

// profile returns a profile, nil if there is none.
func (f *fixture) profile(name string) *multiclusterxv1alpha1.ClusterProfile {
	f.Helper()
	profile, err := f.own.MulticlusterXV1alpha1().ClusterProfiles(system).Get(f.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.Fatal(err)
	}
	return profile
}

// writes returns how many requests were not reads.
func (f *fixture) writes() int {
	count := 0
	for _, action := range f.own.Actions() {
		if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			count++
		}
	}
	return count
}

func healthOf(profile *multiclusterxv1alpha1.ClusterProfile) metav1.ConditionStatus {
	if condition := meta.FindStatusCondition(profile.Status.Conditions, inventory.ControlPlaneHealthy); condition != nil {
		return condition.Status
	}
	return ""
}

// R457: a member has a profile, which is written only if the member changes.
func TestMembersHaveProfiles(t *testing.T) {
	f := newFixture(t)
	east := member("east", clustersetv1alpha1.MemberConnected, "fleet")
	f.mustSync("east", local("fleet"), east)
	profile := f.profile("east")
	if profile == nil {
		t.Fatal("member has no ClusterProfile")
	}
	if profile.Spec.ClusterManager.Name != multicluster.ManagedBy || profile.Labels[inventory.ClusterManagerLabel] != multicluster.ManagedBy || profile.Spec.DisplayName != "east" {
		t.Errorf("got %+v, labels %v", profile.Spec, profile.Labels)
	}
	want := []multiclusterxv1alpha1.Property{{Name: "cluster.clusterset.k8s.io", Value: "east"}, {Name: "clusterset.k8s.io", Value: "fleet"}}
	if !slices.Equal(profile.Status.Properties, want) || healthOf(profile) != metav1.ConditionTrue {
		t.Errorf("got status %+v", profile.Status)
	}
	f.mustSync("west", local("fleet"), east)
	if f.profile("west") == nil {
		t.Error("this cluster has no ClusterProfile")
	}
	f.own.ClearActions()
	f.clock.Step(time.Minute)
	f.mustSync("east", local("fleet"), east)
	if f.writes() != 0 {
		t.Errorf("unchanged profile was written: %v", f.own.Actions())
	}
	f.clock.Step(writeInterval)
	silent := member("east", clustersetv1alpha1.MemberLost, "fleet")
	f.mustSync("east", local("fleet"), silent)
	if profile := f.profile("east"); healthOf(profile) != metav1.ConditionUnknown || f.writes() != 1 {
		t.Errorf("lost member has health %s after %d writes", healthOf(profile), f.writes())
	}
	// After a restart, the ClusterSet of a silent member may be unknown.
	f.clock.Step(writeInterval)
	f.mustSync("east", local("fleet"), member("east", clustersetv1alpha1.MemberConnecting, ""))
	if profile := f.profile("east"); profile == nil || !slices.Equal(profile.Status.Properties, want) {
		t.Errorf("profile of a connecting member is %+v", profile)
	}
	f.mustSync("new", local("fleet"), member("new", clustersetv1alpha1.MemberConnecting, ""))
	if f.profile("new") != nil {
		t.Error("cluster whose ClusterSet is unknown has a ClusterProfile")
	}
}

// R457: what a member reported stays while it is unknown, as after a restart.
func TestVersionAndPropertiesOfMembersAreShown(t *testing.T) {
	f := newFixture(t)
	reported := member("east", clustersetv1alpha1.MemberConnected, "fleet")
	reported.Status.KubernetesVersion = "v1.36.3"
	reported.Status.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "east"}, {Name: multicluster.ClusterSetClaim, Value: "other"}, {Name: multicluster.ClusterIDClaim, Value: "west"}}
	want := []multiclusterxv1alpha1.Property{
		{Name: "cluster.clusterset.k8s.io", Value: "east"}, {Name: "clusterset.k8s.io", Value: "fleet"}, {Name: "region.example.com", Value: "east"},
	}
	withdrawn := member("east", clustersetv1alpha1.MemberConnected, "fleet")
	withdrawn.Status.KubernetesVersion = "v1.37.0"
	for _, test := range []struct {
		name    string
		entry   *clustersetv1alpha1.Member
		version string
		want    []multiclusterxv1alpha1.Property
	}{
		{"reported", reported, "v1.36.3", want},
		{"unknown after a restart", member("east", clustersetv1alpha1.MemberStale, "fleet"), "v1.36.3", want},
		{"withdrawn", withdrawn, "v1.37.0", want[:2]},
	} {
		f.clock.Step(writeInterval)
		f.mustSync("east", local("fleet"), test.entry)
		f.clock.Step(versionTime)
		f.mustSync("east", local("fleet"), test.entry)
		if status := f.profile("east").Status; status.Version.Kubernetes != test.version || !slices.Equal(status.Properties, test.want) {
			t.Errorf("%s: got %+v", test.name, status)
		}
	}
}

// R506: while a control plane is upgraded, its version is reported in turns with the former one.
func TestVersionIsShownWhenItHasBeenReportedForAWhile(t *testing.T) {
	f := newFixture(t)
	report := func(version string) {
		t.Helper()
		east := member("east", clustersetv1alpha1.MemberConnected, "fleet")
		east.Status.KubernetesVersion = version
		f.mustSync("east", local("fleet"), east)
	}
	expect := func(want string) {
		t.Helper()
		if got := f.profile("east").Status.Version.Kubernetes; got != want {
			t.Errorf("version is %s, want %s", got, want)
		}
	}
	report("v1.36.3")
	expect("v1.36.3")
	for range 100 { // in turns
		f.clock.Step(time.Minute)
		report("v1.37.0")
		f.clock.Step(time.Minute)
		report("v1.36.3")
	}
	if f.writes() > 2 { // the profile and its status
		t.Errorf("%d writes", f.writes())
	}
	report("v1.37.0")
	f.clock.Step(versionTime - 1)
	report("") // not known for a moment
	expect("v1.36.3")
	report("v1.37.0")
	f.clock.Step(versionTime)
	report("v1.37.0")
	expect("v1.37.0")
}

// R457: ClusterProperties that were withdrawn are not shown, also if the version of Kubernetes is
// not known.
func TestWithdrawnPropertiesAreNotShown(t *testing.T) {
	read := func(state clustersetv1alpha1.MemberState, version string, properties ...clustersetv1alpha1.ClusterProperty) *clustersetv1alpha1.Member {
		entry := member("east", state, "fleet")
		entry.Status.Version, entry.Status.Properties = version, properties
		return entry
	}
	region := clustersetv1alpha1.ClusterProperty{Name: "region.example.com", Value: "east"}
	for _, test := range []struct {
		name  string
		after *clustersetv1alpha1.Member
		want  int
	}{
		{"unchanged", read(clustersetv1alpha1.MemberConnected, "v1.0.0", region), 3},
		{"unchanged, without any version", read(clustersetv1alpha1.MemberConnected, "", region), 3},
		{"not read since a restart", read(clustersetv1alpha1.MemberConnecting, ""), 3},
		{"withdrawn", read(clustersetv1alpha1.MemberConnected, "v1.0.0"), 2},
		{"withdrawn by this cluster", read(clustersetv1alpha1.MemberLocal, ""), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.mustSync("east", local("fleet"), read(clustersetv1alpha1.MemberConnected, "v1.0.0", region))
			f.clock.Step(writeInterval)
			f.mustSync("east", local("fleet"), test.after)
			if got := f.profile("east").Status.Properties; len(got) != test.want {
				t.Errorf("got %v, want %d properties", got, test.want)
			}
		})
	}
}

// R457: what others wrote stays, and what is not theirs is restored.
func TestForeignFieldsAreKept(t *testing.T) {
	f := newFixture(t)
	east := member("east", clustersetv1alpha1.MemberConnected, "fleet")
	f.mustSync("east", local("fleet"), east)
	profile := f.profile("east")
	profile.Labels["env"], profile.Spec.DisplayName = "prod", "changed"
	profile.Status.AccessProviders = []multiclusterxv1alpha1.AccessProvider{{Name: "example"}}
	if _, err := f.own.MulticlusterXV1alpha1().ClusterProfiles(system).Update(t.Context(), profile, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(writeInterval)
	f.mustSync("east", local("fleet"), member("east", clustersetv1alpha1.MemberStale, "fleet"))
	profile = f.profile("east")
	if profile.Labels["env"] != "prod" || len(profile.Status.AccessProviders) != 1 || profile.Spec.DisplayName != "east" || healthOf(profile) != metav1.ConditionUnknown {
		t.Errorf("got %+v", profile)
	}
}

// R458: clusters that are not members have no profile, and lose the one they had.
func TestFormerMembersHaveNoProfiles(t *testing.T) {
	expelled := member("east", clustersetv1alpha1.MemberConnecting, "fleet")
	meta.SetStatusCondition(&expelled.Status.Conditions, metav1.Condition{Type: clusterset.MemberAccepted, Status: metav1.ConditionFalse, Reason: clusterset.ReasonExpelled})
	for name, members := range map[string][]*clustersetv1alpha1.Member{
		"this cluster left":            {local(""), member("east", clustersetv1alpha1.MemberConnected, "fleet")},
		"this cluster has no ID":       {member("east", clustersetv1alpha1.MemberConnected, "fleet")},
		"in another ClusterSet":        {local("fleet"), member("east", clustersetv1alpha1.MemberConnected, "other")},
		"refused":                      {local("fleet"), member("east", clustersetv1alpha1.MemberRefused, "fleet")},
		"expelled":                     {local("fleet"), expelled},
		"this cluster joined another":  {local("other"), member("east", clustersetv1alpha1.MemberConnected, "fleet")},
		"this cluster left, no Member": {local("")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.mustSync("east", local("fleet"), member("east", clustersetv1alpha1.MemberConnected, "fleet"))
			f.mustSync("east", members...)
			if f.profile("east") != nil {
				t.Error("former member has a ClusterProfile")
			}
			f.mustSync("east", members...)
			if f.profile("east") != nil {
				t.Error("former member got a ClusterProfile")
			}
		})
	}
}

// R458: the profile of a removed member is deleted after a moment; that of a member that a
// silent hub relays is kept, and its health is unknown.
func TestProfilesOfMissingMembers(t *testing.T) {
	hub := func(state clustersetv1alpha1.MemberState) *clustersetv1alpha1.Member {
		return member("hub", state, "fleet")
	}
	for _, test := range []struct {
		name   string
		path   []string
		others []*clustersetv1alpha1.Member
		kept   bool
	}{
		{name: "read directly", others: []*clustersetv1alpha1.Member{hub(clustersetv1alpha1.MemberStale)}},
		{name: "by a hub that responds", path: []string{"east", "hub"}, others: []*clustersetv1alpha1.Member{hub(clustersetv1alpha1.MemberConnected)}},
		{name: "by a silent hub", path: []string{"east", "hub"}, others: []*clustersetv1alpha1.Member{hub(clustersetv1alpha1.MemberConnecting)}, kept: true},
		{name: "by a refused hub", path: []string{"east", "hub"}, others: []*clustersetv1alpha1.Member{hub(clustersetv1alpha1.MemberRefused)}},
		{name: "by a hub that was removed", path: []string{"east", "hub"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.mustSync("east", local("fleet"), hub(clustersetv1alpha1.MemberConnected), member("east", clustersetv1alpha1.MemberConnected, "fleet", test.path...))
			others := append([]*clustersetv1alpha1.Member{local("fleet")}, test.others...)
			f.mustSync("east", others...)
			if f.profile("east") == nil {
				t.Fatal("profile was deleted at once")
			}
			f.clock.Step(max(settleTime, writeInterval))
			f.mustSync("east", others...)
			profile := f.profile("east")
			if (profile != nil) != test.kept {
				t.Fatalf("profile is %+v, want kept: %t", profile, test.kept)
			}
			if test.kept && healthOf(profile) != metav1.ConditionUnknown {
				t.Errorf("health is %s", healthOf(profile))
			}
		})
	}
}

// R458: a hub was silent for long, and is read again before the clusters that it relays are: their
// profiles are kept meanwhile, and deleted if they do not come back.
func TestProfilesAreKeptUntilTheClustersOfAHubAreRead(t *testing.T) {
	silent, connected := member("hub", clustersetv1alpha1.MemberStale, "fleet"), member("hub", clustersetv1alpha1.MemberConnected, "fleet")
	east := member("east", clustersetv1alpha1.MemberConnected, "fleet", "east", "hub")
	f := newFixture(t)
	f.mustSync("east", local("fleet"), connected, east)
	f.mustSync("east", local("fleet"), silent)
	f.clock.Step(time.Minute)
	f.mustSync("east", local("fleet"), silent)
	if profile := f.profile("east"); profile == nil || healthOf(profile) != metav1.ConditionUnknown {
		t.Fatalf("hub is silent: got %+v", profile)
	}
	f.mustSync("east", local("fleet"), connected)
	if f.profile("east") == nil {
		t.Fatal("profile was deleted before the hub was read")
	}
	f.clock.Step(settleTime)
	f.mustSync("east", local("fleet"), connected)
	if f.profile("east") != nil {
		t.Error("profile of a former member is kept")
	}
}

// R458: profiles of other cluster managers are neither changed nor deleted.
func TestProfilesOfOtherManagersAreLeftAlone(t *testing.T) {
	other := &multiclusterxv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "east"},
		Spec:       multiclusterxv1alpha1.ClusterProfileSpec{ClusterManager: multiclusterxv1alpha1.ClusterManager{Name: "example"}},
	}
	f := newFixture(t, other)
	if err := f.sync("east", local("fleet"), member("east", clustersetv1alpha1.MemberConnected, "fleet")); err == nil || !strings.Contains(err.Error(), "name conflict") {
		t.Errorf("got error %v", err)
	}
	f.mustSync("east", local(""))
	if f.writes() != 0 {
		t.Errorf("got requests %v", f.own.Actions())
	}
}

// R459
func TestNamespaceIsLabeledWithTheClusterSet(t *testing.T) {
	f := newFixture(t)
	for _, test := range []struct{ clusterSet, want string }{
		{"fleet", "fleet"}, {"other", "other"}, {"", ""}, {"fleet", "fleet"}, {"not a label value", ""},
	} {
		f.mustSync("west", local(test.clusterSet))
		if err := f.Controller.sync(t.Context(), namespaceKey); err != nil {
			t.Fatal(err)
		}
		namespace, err := f.host.CoreV1().Namespaces().Get(t.Context(), system, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		label, labeled := namespace.Labels[inventory.ClusterSetLabel]
		if label != test.want || labeled != (test.want != "") || namespace.Labels["a"] != "b" {
			t.Errorf("ClusterSet %q: got labels %v", test.clusterSet, namespace.Labels)
		}
	}
}

// R458: everything is reconsidered if this cluster leaves, or a hub is read again; once, if
// that happens more often.
func TestProfilesDependOnOtherMembers(t *testing.T) {
	for _, test := range []struct {
		name        string
		old, object *clustersetv1alpha1.Member
		want        []string
	}{
		{"this cluster left", local("fleet"), local(""), []string{"west", "everything"}},
		{"hub responds again", member("hub", clustersetv1alpha1.MemberStale, "fleet"), member("hub", clustersetv1alpha1.MemberConnected, "fleet"), []string{"hub", "everything"}},
		{"nothing that matters", member("hub", clustersetv1alpha1.MemberConnected, "fleet"), member("hub", clustersetv1alpha1.MemberConnected, "fleet"), []string{"hub"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				for range 3 {
					f.memberChanged(test.old, test.object)
				}
				time.Sleep(2 * gathering)
				synctest.Wait()
				if got := f.drain(); !slices.Equal(got, test.want) {
					t.Errorf("got keys %v, want %v", got, test.want)
				}
			})
		})
	}
	f := newFixture(t, &multiclusterxv1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "east"}})
	f.mustSync("west", local("fleet"), member("hub", clustersetv1alpha1.MemberConnected, "fleet"))
	if err := f.Controller.sync(t.Context(), everythingKey); err != nil {
		t.Fatal(err)
	}
	if got, want := f.drain(), []string{"namespace", "west", "hub", "east"}; len(got) != len(want) || !sets.New(got...).HasAll(want...) {
		t.Errorf("everything is %v, want %v", got, want)
	}
}

// drain removes all keys from the queue.
func (f *fixture) drain() (keys []string) {
	for range f.queue.Len() {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		keys = append(keys, key.Name+key.Namespace)
	}
	return keys
}
