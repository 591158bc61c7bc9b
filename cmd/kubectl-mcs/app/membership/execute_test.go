// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/progress"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// newSite is a cluster with these objects and an id; without one, if it is empty.
// It issues tokens that say where and for whom.
func newSite(context, id string, objects ...runtime.Object) *Cluster {
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID("uid-" + context)}})
	host, own := kubernetesfake.NewClientset(objects...), mcsfake.NewSimpleClientset()
	if id != "" {
		own = mcsfake.NewSimpleClientset(&multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterIDClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: id}})
	}
	host.PrependReactor("create", "serviceaccounts/token", func(action clienttesting.Action) (bool, runtime.Object, error) {
		account := action.(clienttesting.CreateActionImpl).Name
		if _, err := host.Tracker().Get(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), action.GetNamespace(), account); err != nil {
			return true, nil, err
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: account + "@" + context}}, nil
	})
	return &Cluster{Cluster: &cluster.Cluster{Context: context, Kubernetes: host, MCS: own}, Namespace: "mcs-system", parts: sets.New[string]()}
}

func (s *Cluster) fakes() (*kubernetesfake.Clientset, *mcsfake.Clientset) {
	return s.Kubernetes.(*kubernetesfake.Clientset), s.MCS.(*mcsfake.Clientset)
}

// react makes a function see all requests to all clusters. Those that it has an
// error for fail.
func react(sites []*Cluster, reaction func(context string, action clienttesting.Action) error) {
	for _, s := range sites {
		react := func(action clienttesting.Action) (bool, runtime.Object, error) {
			err := reaction(s.Context, action)
			return err != nil, nil, err
		}
		host, own := s.fakes()
		host.PrependReactor("*", "*", react)
		own.PrependReactor("*", "*", react)
	}
}

// accessTo is how others reach a cluster.
func accessTo(context string) plan.Access {
	return plan.Access{Server: "https://" + context + ".example:6443", CA: "authority of " + context}
}

// planned finds out how the clusters are, and plans to join them.
func planned(t *testing.T, sites []*Cluster, ids map[string]string) []plan.Step {
	t.Helper()
	for _, s := range sites {
		s.Found = unseen(s.Context)
		s.Found.Access = accessTo(s.Context)
		for _, look := range []func(context.Context) error{s.findUID, s.findClaims, s.findSecrets, s.findMembers, s.findAdmitted} {
			if err := look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	made, err := plan.Join("production", Observed(sites), ids)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(made.Steps, func(step plan.Step) bool { return step.Action == plan.Await })
}

// state is everything that joining may change, by context, resource and name.
func state(t *testing.T, sites []*Cluster) map[string]runtime.Object {
	t.Helper()
	everything := map[string]runtime.Object{}
	for _, s := range sites {
		host, own := s.fakes()
		for _, kind := range []struct {
			tracker  clienttesting.ObjectTracker
			version  schema.GroupVersion
			resource string
			kind     string
		}{
			{host.Tracker(), corev1.SchemeGroupVersion, "serviceaccounts", "ServiceAccount"},
			{host.Tracker(), corev1.SchemeGroupVersion, "secrets", "Secret"},
			{host.Tracker(), rbacv1.SchemeGroupVersion, "clusterrolebindings", "ClusterRoleBinding"},
			{host.Tracker(), rbacv1.SchemeGroupVersion, "roles", "Role"},
			{host.Tracker(), rbacv1.SchemeGroupVersion, "rolebindings", "RoleBinding"},
			{own.Tracker(), multiclusterv1.SchemeGroupVersion, "clusterclaims", "ClusterClaim"},
		} {
			list, err := kind.tracker.List(kind.version.WithResource(kind.resource), kind.version.WithKind(kind.kind), "")
			if err != nil {
				t.Fatal(err)
			}
			objects, err := meta.ExtractList(list)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				accessor, err := meta.Accessor(object)
				if err != nil {
					t.Fatal(err)
				}
				accessor.SetResourceVersion("")
				accessor.SetManagedFields(nil)
				everything[s.Context+" "+kind.resource+" "+accessor.GetName()] = object
			}
		}
	}
	return everything
}

func expectState(t *testing.T, want, got map[string]runtime.Object) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

// withIPs lets a cluster say that there are IPs that are the same in all clusters,
// and which part of them it has, as mcs-apiserver reads it off its claim.
func withIPs(s *Cluster) *Cluster {
	_, own := s.fakes()
	own.PrependReactor("list", "members", func(clienttesting.Action) (bool, runtime.Object, error) {
		local := clustertest.NewMember(s.Context, clustersetv1alpha1.MemberLocal)
		local.Status.ClusterUID, local.Status.ClusterSetIPRanges = types.UID("uid-"+s.Context), []string{"243.0.0.0/8"}
		claim, err := own.Tracker().Get(multiclusterv1.SchemeGroupVersion.WithResource("clusterclaims"), "", multicluster.ClusterSetIPCIDRClaim)
		if err == nil {
			texts := strings.Split(claim.(*multiclusterv1.ClusterClaim).Spec.Value, ",")
			if _, err := clustersetip.ParseCIDRs(texts); err == nil {
				local.Status.ClusterSetIPCIDRs = texts
			}
		}
		return true, &clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{*local}}, nil
	})
	return s
}

// three are clusters of which one has to be renamed, and another has something
// already: an account that it made before, a Secret that leads elsewhere, and a
// claim to IPs that are none.
func three() ([]*Cluster, map[string]string) {
	halfway, old := newAdmission("mcs-system", "east"), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-east", Labels: map[string]string{"team": "platform"}},
		Type:       clusterset.MemberSecretType,
		Data: map[string][]byte{
			clusterset.MemberSecretClusterID: []byte("east"), clusterset.MemberSecretKubeconfig: []byte("old"), clusterset.MemberSecretAllowedCIDRs: []byte("10.0.0.0/8"),
		},
	}
	east, west, north := withIPs(newSite("east", "uid-east")), withIPs(newSite("west", "west", halfway.account, halfway.role, old)), withIPs(newSite("north", "north"))
	_, own := west.fakes()
	if err := own.Tracker().Add(&multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterSetIPCIDRClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "nonsense"}}); err != nil {
		panic(err) // it is of the scheme
	}
	return []*Cluster{east, west, north}, map[string]string{"east": "east"}
}

func quiet() *progress.Progress { return progress.New(&bytes.Buffer{}) }

func TestClustersAreJoinedOnce(t *testing.T) {
	sites, ids := three()
	if err := NewExecution(sites, quiet()).Run(t.Context(), planned(t, sites, ids)); err != nil {
		t.Fatal(err)
	}
	after := state(t, sites)
	var want []string
	for _, s := range sites {
		want = append(want, s.Context+" clusterclaims id.k8s.io", s.Context+" clusterclaims clusterset.k8s.io", s.Context+" clusterclaims clusterset-ip-cidr.mcs-apiserver.io")
		for _, peer := range sites {
			if peer == s {
				continue
			}
			name := "mcs-apiserver:peer:" + peer.Context
			want = append(want, s.Context+" serviceaccounts peer-"+peer.Context, s.Context+" clusterrolebindings "+name, s.Context+" roles "+name, s.Context+" rolebindings "+name,
				s.Context+" secrets member-"+peer.Context)
			secret, ok := after[s.Context+" secrets member-"+peer.Context].(*corev1.Secret)
			if !ok {
				t.Fatalf("%s has no Secret for %s", s.Context, peer.Context)
			}
			config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
			if err != nil {
				t.Fatal(err)
			}
			if got := accessIn(secret); got != accessTo(peer.Context) {
				t.Errorf("%s reaches %s by %+v", s.Context, peer.Context, got)
			}
			if got := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token; got != "peer-"+s.Context+"@"+peer.Context {
				t.Errorf("%s reads from %s by %q", s.Context, peer.Context, got)
			}
			if secret.Type != clusterset.MemberSecretType || string(secret.Data[clusterset.MemberSecretClusterID]) != peer.Context {
				t.Errorf("the Secret of %s for %s is %+v", s.Context, peer.Context, secret)
			}
		}
	}
	var got []string
	for name := range after {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	for name, value := range map[string]string{
		"east clusterclaims id.k8s.io": "east", "east clusterclaims clusterset.k8s.io": "production", "west clusterclaims clusterset.k8s.io": "production",
		"east clusterclaims clusterset-ip-cidr.mcs-apiserver.io": "243.1.0.0/16", "west clusterclaims clusterset-ip-cidr.mcs-apiserver.io": "243.2.0.0/16",
		"north clusterclaims clusterset-ip-cidr.mcs-apiserver.io": "243.3.0.0/16",
	} {
		if claim, ok := after[name].(*multiclusterv1.ClusterClaim); !ok || claim.Spec.Value != value || len(claim.Annotations) > 0 {
			t.Errorf("%s is %+v", name, claim)
		}
	}
	// What else somebody wrote into a Secret stays.
	kept := after["west secrets member-east"].(*corev1.Secret)
	if kept.Labels["team"] != "platform" || string(kept.Data[clusterset.MemberSecretAllowedCIDRs]) != "10.0.0.0/8" {
		t.Errorf("the Secret is now %+v", kept)
	}

	react(sites, func(context string, action clienttesting.Action) error {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			t.Errorf("%s: %s %s", context, verb, action.GetResource().Resource)
		}
		return nil
	})
	again := planned(t, sites, ids)
	if err := NewExecution(sites, quiet()).Run(t.Context(), again); err != nil || len(again) > 0 {
		t.Errorf("joined again by %v: %v", again, err)
	}
	expectState(t, after, state(t, sites))
}

// R99: nothing half-joined stays, whichever request fails, and whether it was
// carried out or not.
func TestFailureOfAnyRequestIsUndone(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		done bool
	}{
		"refused":      {apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "name", errors.New("not now")), false},
		"not heard":    {errors.New("not now"), false},
		"not answered": {errors.New("not now"), true},
		"timed out":    {apierrors.NewTimeoutError("not now", 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			for fails := 0; ; fails++ {
				if failed := joinWithFailure(t, fails, test.err, test.done); !failed {
					if fails < 15 {
						t.Errorf("there were only %d requests", fails)
					}
					return
				}
			}
		})
	}
}

// joinWithFailure joins clusters while one request fails, if there are so many,
// and expects that all can be undone.
func joinWithFailure(t *testing.T, fails int, err error, done bool) bool {
	t.Helper()
	sites, ids := three()
	sites = sites[:2] // with the third there are thrice as many requests, and none of another kind
	steps, before := planned(t, sites, ids), state(t, sites)
	requests, failed := 0, ""
	react(sites, func(context string, action clienttesting.Action) error {
		defer func() { requests++ }()
		if requests != fails {
			return nil
		}
		failed = context + " " + action.GetVerb() + " " + action.GetResource().Resource
		if done {
			carryOut(t, sites, context, action)
		}
		return err
	})
	e := NewExecution(sites, quiet())
	err = e.Run(t.Context(), steps)
	if failed == "" {
		if err != nil {
			t.Errorf("nothing failed, but %v", err)
		}
		return false
	}
	t.Run(fmt.Sprintf("%d %s", fails, failed), func(t *testing.T) {
		expect.Error(t, err, "context ", "could not ", "not now")
		if err := e.Undo(t.Context()); err != nil {
			t.Error(err)
		}
		expectState(t, before, state(t, sites))
	})
	return true
}

// carryOut writes what a request asks for.
func carryOut(t *testing.T, sites []*Cluster, context string, action clienttesting.Action) {
	t.Helper()
	if verb := action.GetVerb(); verb != "create" && verb != "update" || action.GetSubresource() != "" {
		return
	}
	for _, s := range sites {
		host, own := s.fakes()
		tracker := host.Tracker()
		if action.GetResource().Group == multicluster.GroupName {
			tracker = own.Tracker()
		}
		if s.Context != context {
			continue
		}
		if _, _, err := clienttesting.ObjectReaction(tracker)(action); err != nil {
			t.Error(err)
		}
	}
}

func TestFailureSaysWhereAndWhat(t *testing.T) {
	for _, test := range []struct {
		verb, resource string
		at             string
		want           string
	}{
		{"create", "serviceaccounts", "east", "context east could not let west, north read what is exported: west: "},
		{"create", "roles", "north", "context north could not let east, west read what is exported: east: "},
		{"create", "serviceaccounts/token", "west", `context east could not add west, north as members: west: context "west": `},
		{"update", "secrets", "west", "context west could not add east, north as members: east: "},
		{"create", "clusterclaims", "west", `context west could not join the ClusterSet "production": `},
		{"update", "clusterclaims", "east", `context east could not claim the id "east": `},
		{"update", "clusterclaims", "west", "context west could not use 243.2.0.0/16 for IPs that are the same in all clusters: "},
		{"create", "clusterclaims", "north", "context north could not use 243.3.0.0/16 for IPs that are the same in all clusters: "},
	} {
		t.Run(test.verb+" "+test.resource+" "+test.at, func(t *testing.T) {
			sites, ids := three()
			steps := planned(t, sites, ids)
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: test.resource}, "x", errors.New("not you"))
			react(sites, func(context string, action clienttesting.Action) error {
				resource := action.GetResource().Resource
				if sub := action.GetSubresource(); sub != "" {
					resource += "/" + sub
				}
				if context == test.at && action.GetVerb() == test.verb && resource == test.resource {
					return forbidden
				}
				return nil
			})
			err := NewExecution(sites, quiet()).Run(t.Context(), steps)
			expect.Error(t, err, test.want, "not you")
			if !apierrors.IsForbidden(err) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
}

// created is the name of what a request creates.
func created(action clienttesting.Action) string {
	return action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName()
}

// What can be undone is, whatever else cannot.
func TestWhatCannotBeUndoneIsNamed(t *testing.T) {
	sites, ids := three()
	steps, before := planned(t, sites, ids), state(t, sites)
	react(sites, func(context string, action clienttesting.Action) error {
		switch verb, resource := action.GetVerb(), action.GetResource().Resource; {
		case context == "north" && verb == "create" && resource == "clusterclaims" && created(action) == multicluster.ClusterSetClaim:
			return errors.New("the last straw")
		case context == "west" && verb == "delete" && (resource == "rolebindings" || resource == "clusterrolebindings"):
			return errors.New("west is away")
		}
		return nil
	})
	e := NewExecution(sites, quiet())
	expect.Error(t, e.Run(t.Context(), steps), "the last straw")
	err := e.Undo(t.Context())
	expect.Error(t, err, "west: let east, north read what is exported: west is away")
	for _, undone := range []string{"east: let", "north: let", "as members", "for IPs", "join the ClusterSet", "claim the id"} {
		if strings.Contains(err.Error(), undone) {
			t.Errorf("%v names what was undone", err)
		}
	}
	left := state(t, sites)
	for _, name := range []string{
		"west rolebindings mcs-apiserver:peer:east", "west rolebindings mcs-apiserver:peer:north",
		"west clusterrolebindings mcs-apiserver:peer:east", "west clusterrolebindings mcs-apiserver:peer:north",
	} {
		if left[name] == nil {
			t.Errorf("%s was undone, although it could not be", name)
		}
		delete(left, name)
	}
	expectState(t, before, left)
}

func TestAnInterruptIsUndoneTheLastFirst(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var undone []string
	taking := func(name string, err error) undo {
		return func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
				t.Errorf("%s is undone in a context that has ended, or never does: %v", name, ctx.Err())
			}
			undone = append(undone, name)
			return err
		}
	}
	e := NewExecution(nil, quiet())
	e.done = []deed{
		{plan.Step{Context: "east", Action: plan.Admit, Peers: []string{"west"}}, []undo{taking("1", nil), taking("2", errors.New("two")), taking("3", errors.New("three"))}},
		{plan.Step{Context: "west", Action: plan.Admit, Peers: []string{"east"}}, []undo{taking("4", nil)}},
	}
	expect.Error(t, e.Undo(ctx), "east: let west read what is exported: three\ntwo")
	if diff := cmp.Diff([]string{"4", "3", "2", "1"}, undone); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

// R99: a cluster that does not answer does not keep the others from being undone.
func TestSilentClusterDoesNotKeepOthersFromBeingUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		e := NewExecution(nil, quiet())
		for _, action := range []plan.Action{plan.Admit, plan.AddMembers, plan.Claim} {
			for at, answer := range map[string]func(context.Context) error{
				"east": func(ctx context.Context) error { return ctx.Err() },
				"north": func(context.Context) error {
					return apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("not you"))
				},
				"west": func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				},
			} {
				e.done = append(e.done, deed{plan.Step{Context: at, Action: action, Value: "production", Peers: []string{"south"}}, []undo{func(ctx context.Context) error {
					asked[at]++
					return answer(ctx)
				}}})
			}
		}
		began := time.Now() // of the bubble
		err := e.Undo(t.Context())
		expect.Error(t, err,
			`west: join the ClusterSet "production": context deadline exceeded`,
			"west: add south as a member: not undone, since the cluster does not answer",
			"west: let south read what is exported: not undone, since the cluster does not answer",
			"north: let south read what is exported: ", "not you")
		if strings.Contains(err.Error(), "east: ") || time.Since(began) != undoing {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if diff := cmp.Diff(map[string]int{"east": 3, "north": 3, "west": 1}, asked); diff != "" {
			t.Errorf("want (-), got (+): %s", diff)
		}
	})
}

// R105: an id cannot be removed, so that it is no part of what is undone.
func TestFirstIDStays(t *testing.T) {
	sites := []*Cluster{newSite("east", ""), newSite("west", "west")}
	steps, want := planned(t, sites, map[string]string{"east": "east"}), state(t, sites)
	react(sites, func(_ string, action clienttesting.Action) error {
		if action.GetVerb() == "create" && action.GetResource().Resource == "roles" {
			return errors.New("not now")
		}
		if action.GetVerb() == "delete" && action.GetResource().Resource == "clusterclaims" {
			t.Error("it tries to remove the id")
		}
		return nil
	})
	e := NewExecution(sites, quiet())
	expect.Error(t, e.TakeBack(t.Context(), e.Run(t.Context(), steps)),
		"not now", `everything that was done has been undone, but for first ids, which cannot be removed once they are claimed: "east" of east`)
	want["east clusterclaims id.k8s.io"] = &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterIDClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "east"}}
	expectState(t, want, state(t, sites))
}

func TestForceIsAskedForByTheClaim(t *testing.T) {
	sites := []*Cluster{newSite("east", "east"), newSite("west", "west")}
	e := NewExecution(sites, quiet())
	e.Force = true
	if err := e.Run(t.Context(), planned(t, sites, nil)); err != nil {
		t.Fatal(err)
	}
	for name, object := range state(t, sites) {
		if claim, ok := object.(*multiclusterv1.ClusterClaim); ok && (claim.Annotations[multicluster.IgnoreUnreachableMembersAnnotation] == "true") != (claim.Name == multicluster.ClusterSetClaim) {
			t.Errorf("%s has annotations %v", name, claim.Annotations)
		}
	}
}

func TestClusterThatLeavesLeavesNothingBehind(t *testing.T) {
	sites := []*Cluster{newSite("east", "east"), newSite("west", "west"), newSite("north", "north")}
	pair := sites[:2]
	if err := NewExecution(pair, quiet()).Run(t.Context(), planned(t, pair, nil)); err != nil {
		t.Fatal(err)
	}
	before := state(t, sites)
	if err := NewExecution(sites, quiet()).Run(t.Context(), planned(t, sites, nil)); err != nil {
		t.Fatal(err)
	}
	planned(t, sites, nil) // to find out how they are now
	leave, err := plan.Leave(sites[2].Found, Observed(pair))
	if err != nil {
		t.Fatal(err)
	}
	fails := true
	react(sites, func(context string, action clienttesting.Action) error {
		if fails && context == "west" && action.GetVerb() == "delete" && action.GetResource().Resource == "roles" {
			fails = false
			return errors.New("not now")
		}
		return nil
	})
	e := NewExecution(sites, quiet())
	expect.Error(t, e.Run(t.Context(), leave.Steps), "context west could not take the right to read from north: north: not now")
	if len(e.done) > 0 {
		t.Error("what a cluster left would be undone")
	}
	for range 2 { // it can be repeated, also when there is nothing left to do
		if err := NewExecution(sites, quiet()).Run(t.Context(), leave.Steps); err != nil {
			t.Fatal(err)
		}
		expectState(t, before, state(t, sites))
	}
}

func TestStepThatMakesNoSenseIsAnError(t *testing.T) {
	sites := []*Cluster{newSite("east", "east"), newSite("west", "west")}
	planned(t, sites, nil)
	before := state(t, sites)
	for _, test := range []struct {
		step plan.Step
		want string
	}{
		{plan.Step{Context: "east", Action: plan.AddMembers, Peers: []string{"south"}}, "south: no context leads to it"},
		{plan.Step{Context: "east", Action: "Dance", Peers: []string{"west"}}, `unknown step "Dance"`},
	} {
		expect.Error(t, NewExecution(sites, quiet()).Run(t.Context(), []plan.Step{test.step}), test.want)
	}
	expectState(t, before, state(t, sites))
}

// What a peer gets is the right to read, and to renew its own token. Nobody gets
// the account's token by a Pod.
func TestAdmissionGrantsReadingAndItsOwnTokenOnly(t *testing.T) {
	got := newAdmission("mcs-system", "east")
	labels := map[string]string{"app.kubernetes.io/managed-by": "kubectl-mcs", "clusterset.mcs-apiserver.io/peer": "east"}
	for _, object := range []metav1.Object{got.account, got.clusterBinding, got.role, got.binding} {
		if diff := cmp.Diff(labels, object.GetLabels()); diff != "" {
			t.Errorf("%T: %s", object, diff)
		}
	}
	if got.account.Name != "peer-east" || got.account.Namespace != "mcs-system" || got.account.AutomountServiceAccountToken == nil || *got.account.AutomountServiceAccountToken {
		t.Errorf("the account is %+v", got.account)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "peer-east", Namespace: "mcs-system"}}
	for name, test := range map[string]struct{ want, got any }{
		"cluster role": {rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "mcs-apiserver:peer"}, got.clusterBinding.RoleRef},
		"reader":       {subjects, got.clusterBinding.Subjects},
		"rules":        {[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"peer-east"}, Verbs: []string{"create"}}}, got.role.Rules},
		"role":         {rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: got.role.Name}, got.binding.RoleRef},
		"renewer":      {subjects, got.binding.Subjects},
		"where":        {"mcs-system mcs-system", got.role.Namespace + " " + got.binding.Namespace},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s, want (-), got (+): %s", name, diff)
		}
	}
}

// The token that passes through the user's hands is of no use for long.
func TestFirstTokenIsShortLived(t *testing.T) {
	s := newSite("west", "west", newAdmission("mcs-system", "east").account)
	var asked *authenticationv1.TokenRequest
	react([]*Cluster{s}, func(_ string, action clienttesting.Action) error {
		asked = action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		return nil
	})
	if token, err := s.tokenFor(t.Context(), "east"); err != nil || token != "peer-east@west" {
		t.Errorf("got %q, %v", token, err)
	}
	if asked == nil || asked.Spec.ExpirationSeconds == nil || *asked.Spec.ExpirationSeconds >= 60*60 {
		t.Errorf("asked for %+v: it has to be less than an hour to be exchanged at once", asked)
	}
}

// acquainted is a member that is in touch.
func acquainted(name string) *clustersetv1alpha1.Member {
	return clustertest.NewMember(name, clustersetv1alpha1.MemberConnected, clustertest.Condition(clusterset.MemberSynced, metav1.ConditionTrue, "Synced", ""), clustertest.Condition(clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", ""))
}

func TestClustersAreInTouchWhenTheyKnowEachOther(t *testing.T) {
	synced := clustertest.Condition(clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	for _, test := range []struct {
		name   string
		member *clustersetv1alpha1.Member
		want   bool
	}{
		{"in touch", acquainted("west"), true},
		{"it knows others too", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, synced, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, clusterset.ReasonListsOthers, "")), true},
		{"it does not know this cluster", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, synced, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, "NotListed", "")), false},
		{"it has not said whom it knows", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, synced), false},
		{"not everything was read", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")), false},
		{"it is silent", clustertest.NewMember("west", clustersetv1alpha1.MemberStale, synced, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")), false},
	} {
		if got := inTouch(test.member); got != test.want {
			t.Errorf("%s: in touch is %t", test.name, got)
		}
	}
}

func TestClustersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, watched := newSite("east", "east"), watch.NewFakeWithChanSize(10, false)
		_, own := s.fakes()
		own.PrependWatchReactor("members", clienttesting.DefaultWatchReactor(watched, nil))
		done := make(chan error)
		go func() { done <- s.await(t.Context(), []string{"north", "west"}, time.Hour) }()
		synctest.Wait()
		for _, member := range []*clustersetv1alpha1.Member{clustertest.NewMember("west", clustersetv1alpha1.MemberConnecting), acquainted("north"), acquainted("west")} {
			select {
			case err := <-done:
				t.Fatalf("it ended before %s was in touch: %v", member.Name, err)
			default:
			}
			watched.Add(member)
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestClustersAreNotWaitedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite("east", "east")
		s.MCS = mcsfake.NewSimpleClientset(acquainted("south"),
			clustertest.NewMember("west", clustersetv1alpha1.MemberConnecting, clustertest.Condition(clusterset.MemberReachable, metav1.ConditionFalse, "Unreachable", "no answer")))
		began := time.Now() // of the bubble
		err := s.await(t.Context(), []string{"north", "south", "west"}, time.Minute)
		expect.Error(t, err, "not in touch after 1m0s with north (no member yet); west (Connecting: ", "no answer")
		if strings.Contains(err.Error(), "south") || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}

		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		if err := s.await(ctx, []string{"north"}, time.Minute); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "not in touch after") {
			t.Errorf("an interrupt is %v", err)
		}
	})
}

func TestExecutionShowsWhatIsDoneAndUndone(t *testing.T) {
	sites := []*Cluster{newSite("east", "east"), newSite("west", "west")}
	var out bytes.Buffer
	e := NewExecution(sites, progress.New(&out))
	steps := []plan.Step{
		{Context: "east", Action: plan.Admit, Peers: []string{"west"}},
		{Context: "west", Action: plan.Admit, Peers: []string{"east"}},
		{Context: "east", Action: plan.AddMembers, Peers: []string{"south"}},
		{Context: "east", Action: plan.Claim, Value: "production"},
	}
	expect.Error(t, e.Run(t.Context(), steps), "no context leads to it")
	if err := e.Undo(t.Context()); err != nil {
		t.Error(err)
	}
	expect.Text(t, strings.Join([]string{
		"✓ east: let west read what is exported",
		"✓ west: let east read what is exported",
		"✗ east: " + steps[2].String(),
		"✓ undo west: let east read what is exported",
		"✓ undo east: let west read what is exported",
		"",
	}, "\n"), out.String())
}
