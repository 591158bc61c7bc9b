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
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
)

// newCluster returns a cluster with these objects, and with an ID unless that is
// empty. Its tokens contain the service account and the context.
func newCluster(context, id string, objects ...runtime.Object) *Cluster {
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
	own.PrependReactor("create", "clusterclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if claim := action.(clienttesting.CreateAction).GetObject().(*multiclusterv1.ClusterClaim); claim.Name == multicluster.ClusterSetClaim {
			claim.CreationTimestamp = metav1.Now().Rfc3339Copy()
		}
		return false, nil, nil
	})
	return &Cluster{Cluster: &cluster.Cluster{Context: context, Kubernetes: host, MCS: own}, Namespace: "mcs-system", accessObjects: sets.New[string]()}
}

func (s *Cluster) fakes() (*kubernetesfake.Clientset, *mcsfake.Clientset) {
	return s.Kubernetes.(*kubernetesfake.Clientset), s.MCS.(*mcsfake.Clientset)
}

// react calls a function for all requests to all clusters. Requests fail with the
// error that it returns.
func react(clusters []*Cluster, reaction func(context string, action clienttesting.Action) error) {
	for _, s := range clusters {
		react := func(action clienttesting.Action) (bool, runtime.Object, error) {
			err := reaction(s.Context, action)
			return err != nil, nil, err
		}
		host, own := s.fakes()
		host.PrependReactor("*", "*", react)
		own.PrependReactor("*", "*", react)
	}
}

// testAccess returns how other clusters reach a cluster.
func testAccess(context string) plan.Access {
	return plan.Access{Server: "https://" + context + ".example:6443", CA: "CA of " + context}
}

// planned observes the clusters and returns the steps to join them.
func planned(t *testing.T, clusters []*Cluster, ids map[string]string) []plan.Step {
	t.Helper()
	for _, s := range clusters {
		s.Observed = newObserved(s.Context)
		s.Observed.Access = testAccess(s.Context)
		for _, observe := range []func(context.Context) error{s.observeUID, s.observeClaims, s.observeSecrets, s.observeMembers, s.observeAccess} {
			if err := observe(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	made, err := plan.Join("production", Observed(clusters), ids)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(made.Steps, func(step plan.Step) bool { return step.Action == plan.WaitForMembers })
}

// state returns all objects that join may change, by context, resource and name.
func state(t *testing.T, clusters []*Cluster) map[string]runtime.Object {
	t.Helper()
	everything := map[string]runtime.Object{}
	for _, s := range clusters {
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
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}

// withIPRange makes a cluster report a ClusterSet IP range, and the allocation CIDR
// of its claim, as mcs-apiserver does.
func withIPRange(s *Cluster) *Cluster {
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

// threeClusters returns three clusters: one that gets a new ID, and one with
// remains of an earlier join: a service account and a role, an outdated Secret, and
// a claim with an invalid allocation CIDR.
func threeClusters() ([]*Cluster, map[string]string) {
	existing, old := plan.NewPeerAccess("mcs-system", "east"), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-east", Labels: map[string]string{"team": "platform"}},
		Type:       clusterset.MemberSecretType,
		Data: map[string][]byte{
			clusterset.MemberSecretClusterID: []byte("east"), clusterset.MemberSecretKubeconfig: []byte("old"), clusterset.MemberSecretAllowedCIDRs: []byte("10.0.0.0/8"),
		},
	}
	east, west, north := withIPRange(newCluster("east", "uid-east")), withIPRange(newCluster("west", "west", existing.Account, existing.Role, old)), withIPRange(newCluster("north", "north"))
	_, own := west.fakes()
	if err := own.Tracker().Add(&multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: multicluster.ClusterSetIPCIDRClaim}, Spec: multiclusterv1.ClusterClaimSpec{Value: "nonsense"}}); err != nil {
		panic(err) // the type is in the scheme
	}
	return []*Cluster{east, west, north}, map[string]string{"east": "east"}
}

func discardProgress() *progress.Progress { return progress.New(&bytes.Buffer{}) }

func TestJoinIsIdempotent(t *testing.T) {
	clusters, ids := threeClusters()
	if err := NewExecution(clusters, discardProgress()).Run(t.Context(), planned(t, clusters, ids)); err != nil {
		t.Fatal(err)
	}
	after := state(t, clusters)
	var want []string
	for _, s := range clusters {
		want = append(want, s.Context+" clusterclaims id.k8s.io", s.Context+" clusterclaims clusterset.k8s.io", s.Context+" clusterclaims clusterset-ip-cidr.mcs-apiserver.io")
		for _, peer := range clusters {
			if peer == s {
				continue
			}
			name := "mcs-apiserver:peer:" + peer.Context
			want = append(want, s.Context+" serviceaccounts peer-"+peer.Context, s.Context+" clusterrolebindings "+name, s.Context+" roles "+name, s.Context+" rolebindings "+name,
				s.Context+" secrets member-"+peer.Context)
			secret, ok := after[s.Context+" secrets member-"+peer.Context].(*corev1.Secret)
			if !ok {
				t.Fatalf("%s: no member Secret for %s", s.Context, peer.Context)
			}
			config, err := clientcmd.Load(secret.Data[clusterset.MemberSecretKubeconfig])
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.AccessIn(secret); got != testAccess(peer.Context) {
				t.Errorf("%s: access to %s is %+v", s.Context, peer.Context, got)
			}
			if got := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Token; got != "peer-"+s.Context+"@"+peer.Context {
				t.Errorf("%s: token for %s is %q", s.Context, peer.Context, got)
			}
			if secret.Type != clusterset.MemberSecretType || string(secret.Data[clusterset.MemberSecretClusterID]) != peer.Context || secret.Labels[clusterset.PeerLabel] != peer.Context ||
				string(secret.Data[clusterset.MemberSecretAllocationCIDRs]) != map[string]string{"east": "243.1.0.0/16", "west": "243.2.0.0/16", "north": "243.3.0.0/16"}[peer.Context] { // R288
				t.Errorf("%s: member Secret for %s is %+v", s.Context, peer.Context, secret)
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
		t.Errorf("unexpected result (-want +got):\n%s", diff)
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
	// Other content of an existing Secret is kept.
	kept := after["west secrets member-east"].(*corev1.Secret)
	if kept.Labels["team"] != "platform" || string(kept.Data[clusterset.MemberSecretAllowedCIDRs]) != "10.0.0.0/8" {
		t.Errorf("Secret was changed to %+v", kept)
	}

	react(clusters, func(context string, action clienttesting.Action) error {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			t.Errorf("unexpected request in %s: %s %s", context, verb, action.GetResource().Resource)
		}
		return nil
	})
	again := planned(t, clusters, ids)
	if err := NewExecution(clusters, discardProgress()).Run(t.Context(), again); err != nil || len(again) > 0 {
		t.Errorf("second join has steps %v and error %v", again, err)
	}
	expectState(t, after, state(t, clusters))
}

// R99: a failed join leaves nothing behind, whichever request fails, and whether
// the request was carried out or not.
func TestFailureOfAnyRequestIsRolledBack(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		done bool
	}{
		"forbidden":     {apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "name", errors.New("not now")), false},
		"not sent":      {errors.New("not now"), false},
		"response lost": {errors.New("not now"), true},
		"timed out":     {apierrors.NewTimeoutError("not now", 0), true},
	} {
		t.Run(name, func(t *testing.T) {
			for fails := 0; ; fails++ {
				if failed := joinWithFailure(t, fails, test.err, test.done); !failed {
					if fails < 15 {
						t.Errorf("got only %d requests", fails)
					}
					return
				}
			}
		})
	}
}

// joinWithFailure joins clusters, lets one request fail, and expects that all steps
// are rolled back. It reports whether there were that many requests.
func joinWithFailure(t *testing.T, fails int, err error, done bool) bool {
	t.Helper()
	clusters, ids := threeClusters()
	clusters = clusters[:2] // a third one adds many requests, but none of another kind
	steps, before := planned(t, clusters, ids), state(t, clusters)
	requests, failed := 0, ""
	react(clusters, func(context string, action clienttesting.Action) error {
		defer func() { requests++ }()
		if requests != fails {
			return nil
		}
		failed = context + " " + action.GetVerb() + " " + action.GetResource().Resource
		if done {
			carryOut(t, clusters, context, action)
		}
		return err
	})
	e := NewExecution(clusters, discardProgress())
	err = e.Run(t.Context(), steps)
	if failed == "" {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return false
	}
	t.Run(fmt.Sprintf("%d %s", fails, failed), func(t *testing.T) {
		expect.Error(t, err, "context ", "failed to ", "not now")
		if err := e.rollBackAll(t.Context()); err != nil {
			t.Error(err)
		}
		expectState(t, before, state(t, clusters))
	})
	return true
}

// carryOut carries out a write.
func carryOut(t *testing.T, clusters []*Cluster, context string, action clienttesting.Action) {
	t.Helper()
	if verb := action.GetVerb(); verb != "create" && verb != "update" || action.GetSubresource() != "" {
		return
	}
	for _, s := range clusters {
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

func TestErrorNamesContextAndStep(t *testing.T) {
	for _, test := range []struct {
		verb, resource string
		at             string
		want           string
	}{
		{"create", "serviceaccounts", "east", `context "east": failed to grant read access to west, north: west: `},
		{"create", "roles", "north", `context "north": failed to grant read access to east, west: east: `},
		{"create", "serviceaccounts/token", "west", `context "east": failed to add members west, north: west: context "west": `},
		{"update", "secrets", "west", `context "west": failed to add members east, north: east: `},
		{"create", "clusterclaims", "west", `context "west": failed to join ClusterSet "production": `},
		{"update", "clusterclaims", "east", `context "east": failed to set cluster ID "east": `},
		{"update", "clusterclaims", "west", `context "west": failed to assign allocation CIDR 243.2.0.0/16: `},
		{"create", "clusterclaims", "north", `context "north": failed to assign allocation CIDR 243.3.0.0/16: `},
	} {
		t.Run(test.verb+" "+test.resource+" "+test.at, func(t *testing.T) {
			clusters, ids := threeClusters()
			steps := planned(t, clusters, ids)
			forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: test.resource}, "x", errors.New("not you"))
			react(clusters, func(context string, action clienttesting.Action) error {
				resource := action.GetResource().Resource
				if sub := action.GetSubresource(); sub != "" {
					resource += "/" + sub
				}
				if context == test.at && action.GetVerb() == test.verb && resource == test.resource {
					return forbidden
				}
				return nil
			})
			err := NewExecution(clusters, discardProgress()).Run(t.Context(), steps)
			expect.Error(t, err, test.want, "not you")
			if !apierrors.IsForbidden(err) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
}

// created returns the name of the object that a request creates.
func created(action clienttesting.Action) string {
	return action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName()
}

// A step that cannot be rolled back does not prevent the rollback of others.
func TestFailedRollbackIsReported(t *testing.T) {
	clusters, ids := threeClusters()
	steps, before := planned(t, clusters, ids), state(t, clusters)
	react(clusters, func(context string, action clienttesting.Action) error {
		switch verb, resource := action.GetVerb(), action.GetResource().Resource; {
		case context == "north" && verb == "create" && resource == "clusterclaims" && created(action) == multicluster.ClusterSetClaim:
			return errors.New("not today")
		case context == "west" && verb == "delete" && (resource == "rolebindings" || resource == "clusterrolebindings"):
			return errors.New("west is down")
		}
		return nil
	})
	e := NewExecution(clusters, discardProgress())
	expect.Error(t, e.Run(t.Context(), steps), "not today")
	err := e.rollBackAll(t.Context())
	expect.Error(t, err, "west: grant read access to east, north: west is down")
	for _, rolledBack := range []string{"east: grant", "north: grant", "add member", "allocation CIDR", "join ClusterSet", "set cluster ID"} {
		if strings.Contains(err.Error(), rolledBack) {
			t.Errorf("error %v contains %q, which was rolled back", err, rolledBack)
		}
	}
	left := state(t, clusters)
	for _, name := range []string{
		"west rolebindings mcs-apiserver:peer:east", "west rolebindings mcs-apiserver:peer:north",
		"west clusterrolebindings mcs-apiserver:peer:east", "west clusterrolebindings mcs-apiserver:peer:north",
	} {
		if left[name] == nil {
			t.Errorf("%s is missing, although it could not be deleted", name)
		}
		delete(left, name)
	}
	expectState(t, before, left)
}

func TestRollbackAfterInterruptIsInReverseOrder(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var rolledBack []string
	newRollback := func(name string, err error) rollback {
		return func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
				t.Errorf("rollback %s has a context that has ended or has no deadline: %v", name, ctx.Err())
			}
			rolledBack = append(rolledBack, name)
			return err
		}
	}
	e := NewExecution(nil, discardProgress())
	e.completed = []completedStep{
		{plan.Step{Context: "east", Action: plan.GrantAccess, Peers: []string{"west"}}, []rollback{newRollback("1", nil), newRollback("2", errors.New("two")), newRollback("3", errors.New("three"))}},
		{plan.Step{Context: "west", Action: plan.GrantAccess, Peers: []string{"east"}}, []rollback{newRollback("4", nil)}},
	}
	expect.Error(t, e.rollBackAll(ctx), "east: grant read access to west: three\ntwo")
	if diff := cmp.Diff([]string{"4", "3", "2", "1"}, rolledBack); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}

// R99: an unresponsive cluster does not block the rollback in other clusters.
func TestUnresponsiveClusterDoesNotBlockRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := map[string]int{}
		e := NewExecution(nil, discardProgress())
		for _, action := range []plan.Action{plan.GrantAccess, plan.AddMembers, plan.JoinClusterSet} {
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
				e.completed = append(e.completed, completedStep{plan.Step{Context: at, Action: action, Value: "production", Peers: []string{"south"}}, []rollback{func(ctx context.Context) error {
					requests[at]++
					return answer(ctx)
				}}})
			}
		}
		began := time.Now() // of the bubble
		err := e.rollBackAll(t.Context())
		expect.Error(t, err,
			`west: join ClusterSet "production": context deadline exceeded`,
			"west: add member south: skipped because the cluster does not respond",
			"west: grant read access to south: skipped because the cluster does not respond",
			"north: grant read access to south: ", "not you")
		if strings.Contains(err.Error(), "east: ") || time.Since(began) != rollbackTimeout {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if diff := cmp.Diff(map[string]int{"east": 3, "north": 3, "west": 1}, requests); diff != "" {
			t.Errorf("unexpected result (-want +got):\n%s", diff)
		}
	})
}

// R105: a cluster ID cannot be removed, so that it is not rolled back.
func TestNewClusterIDIsNotRolledBack(t *testing.T) {
	clusters := []*Cluster{newCluster("east", ""), newCluster("west", "west")}
	steps, want := planned(t, clusters, map[string]string{"east": "east"}), state(t, clusters)
	react(clusters, func(_ string, action clienttesting.Action) error {
		if action.GetVerb() == "create" && action.GetResource().Resource == "roles" {
			return errors.New("not now")
		}
		if action.GetVerb() == "delete" && action.GetResource().Resource == "clusterclaims" {
			t.Error("cluster ID is deleted")
		}
		return nil
	})
	e := NewExecution(clusters, discardProgress())
	expect.Error(t, e.RollBack(t.Context(), e.Run(t.Context(), steps)),
		"not now", `all completed steps were rolled back, except for new cluster IDs, which cannot be removed: "east" in context "east"`)
	want["east clusterclaims id.k8s.io"] = plan.NewClaim(multicluster.ClusterIDClaim, "east")
	expectState(t, want, state(t, clusters))
}

// mcs-controller creates the ID of a cluster that has just been installed.
func TestIDThatIsCreatedMeanwhileIsReplaced(t *testing.T) {
	s := newCluster("east", "generated")
	_, own := s.fakes()
	asked := false
	own.PrependReactor("get", "clusterclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		before := !asked
		asked = true
		return before, nil, apierrors.NewNotFound(schema.GroupResource{}, multicluster.ClusterIDClaim)
	})
	if _, err := s.claim(t.Context(), multicluster.ClusterIDClaim, "east", nil); err != nil {
		t.Fatal(err)
	}
	if claim, err := own.MulticlusterV1().ClusterClaims().Get(t.Context(), multicluster.ClusterIDClaim, metav1.GetOptions{}); err != nil || claim.Spec.Value != "east" {
		t.Errorf("the claim is %+v, %v", claim, err)
	}
}

func TestIgnoreUnreachableMembersAnnotatesTheClusterSetClaim(t *testing.T) {
	clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west")}
	e := NewExecution(clusters, discardProgress())
	e.IgnoreUnreachableMembers = true
	if err := e.Run(t.Context(), planned(t, clusters, nil)); err != nil {
		t.Fatal(err)
	}
	for name, object := range state(t, clusters) {
		if claim, ok := object.(*multiclusterv1.ClusterClaim); ok && (claim.Annotations[multicluster.IgnoreUnreachableMembersAnnotation] == "true") != (claim.Name == multicluster.ClusterSetClaim) {
			t.Errorf("%s has annotations %v", name, claim.Annotations)
		}
	}
}

func TestLeaveDeletesEverything(t *testing.T) {
	clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west"), newCluster("north", "north")}
	pair := clusters[:2]
	if err := NewExecution(pair, discardProgress()).Run(t.Context(), planned(t, pair, nil)); err != nil {
		t.Fatal(err)
	}
	before := state(t, clusters)
	if err := NewExecution(clusters, discardProgress()).Run(t.Context(), planned(t, clusters, nil)); err != nil {
		t.Fatal(err)
	}
	planned(t, clusters, nil) // to observe their current state
	leave, err := plan.Leave(clusters[2].Observed, Observed(pair))
	if err != nil {
		t.Fatal(err)
	}
	fails := true
	react(clusters, func(context string, action clienttesting.Action) error {
		if fails && context == "west" && action.GetVerb() == "delete" && action.GetResource().Resource == "roles" {
			fails = false
			return errors.New("not now")
		}
		return nil
	})
	e := NewExecution(clusters, discardProgress())
	expect.Error(t, e.Run(t.Context(), leave.Steps), `context "west": failed to revoke read access for north: north: not now`)
	if len(e.completed) > 0 {
		t.Error("steps of leave would be rolled back")
	}
	for range 2 { // can be repeated, also if nothing is left to do
		if err := NewExecution(clusters, discardProgress()).Run(t.Context(), leave.Steps); err != nil {
			t.Fatal(err)
		}
		expectState(t, before, state(t, clusters))
	}
}

func TestInvalidStepIsAnError(t *testing.T) {
	clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west")}
	planned(t, clusters, nil)
	before := state(t, clusters)
	for _, test := range []struct {
		step plan.Step
		want string
	}{
		{plan.Step{Context: "east", Action: plan.AddMembers, Peers: []string{"south"}}, "south: no context refers to a cluster with this ID"},
		{plan.Step{Context: "east", Action: "Dance", Peers: []string{"west"}}, `unknown action "Dance"`},
	} {
		expect.Error(t, NewExecution(clusters, discardProgress()).Run(t.Context(), []plan.Step{test.step}), test.want)
	}
	expectState(t, before, state(t, clusters))
}

// The token that passes through the user's hands expires soon.
func TestInitialTokenIsShortLived(t *testing.T) {
	s := newCluster("west", "west", plan.NewPeerAccess("mcs-system", "east").Account)
	var request *authenticationv1.TokenRequest
	react([]*Cluster{s}, func(_ string, action clienttesting.Action) error {
		request = action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		return nil
	})
	if token, _, err := s.createPeerToken(t.Context(), "east", initialTokenLifetime); err != nil || token != "peer-east@west" {
		t.Errorf("got %q, %v", token, err)
	}
	if request == nil || request.Spec.ExpirationSeconds == nil || *request.Spec.ExpirationSeconds >= 60*60 {
		t.Errorf("got request %+v, want a lifetime of less than an hour, so that mcs-controller replaces the token", request)
	}
}

// connected returns a connected member.
func connected(name string) *clustersetv1alpha1.Member {
	return clustertest.NewMember(name, clustersetv1alpha1.MemberConnected, clustertest.Condition(clusterset.MemberSynced, metav1.ConditionTrue, "Synced", ""), clustertest.Condition(clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", ""))
}

func TestMembersAreConnectedWhenTheyListEachOther(t *testing.T) {
	synced := clustertest.Condition(clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	for _, test := range []struct {
		name   string
		member *clustersetv1alpha1.Member
		want   bool
	}{
		{"connected", connected("west"), true},
		{"lists additional clusters", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, synced, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, clusterset.ReasonListsOthers, "")), true},
		{"does not list this cluster", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, synced, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, "NotListed", "")), false},
		{"list not received", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, synced), false},
		{"not synced", clustertest.NewMember("west", clustersetv1alpha1.MemberConnected, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")), false},
		{"stale", clustertest.NewMember("west", clustersetv1alpha1.MemberStale, synced, clustertest.Condition(clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")), false},
	} {
		if got := isConnected(test.member, false); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}

func TestWaitForMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, watched := newCluster("east", "east"), watch.NewFakeWithChanSize(10, false)
		_, own := s.fakes()
		own.PrependWatchReactor("members", clienttesting.DefaultWatchReactor(watched, nil))
		done := make(chan error)
		go func() { done <- s.waitForMembers(t.Context(), []string{"north", "west"}, time.Hour, false) }()
		synctest.Wait()
		for _, member := range []*clustersetv1alpha1.Member{clustertest.NewMember("west", clustersetv1alpha1.MemberConnecting), connected("north"), connected("west")} {
			select {
			case err := <-done:
				t.Fatalf("wait ended before %s was connected: %v", member.Name, err)
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

// R299: the error says why the cluster is not connected to a member, and not what does
// not prevent that.
func TestTimeoutExplainsWhatIsMissing(t *testing.T) {
	entries := []clustersetv1alpha1.Member{
		*clustertest.NewMember("west", clustersetv1alpha1.MemberConnected,
			clustertest.Condition(clusterset.MemberAccepted, metav1.ConditionTrue, "Accepted", ""),
			clustertest.Condition(clusterset.MemberSynced, metav1.ConditionUnknown, "Reading", "not read\x1b[2J yet"),
			clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, clusterset.ReasonListsOthers, "lists others"),
			clustertest.Condition(clusterset.MemberExportAges, metav1.ConditionFalse, clusterset.ReasonBackdated, "older")),
		*clustertest.NewMember("north", "Conn\x1b[2Jected", clustertest.Condition(clusterset.MemberMutual, metav1.ConditionFalse, "NotListed", "run join")),
	}
	want := []string{`west (Connected; Synced is Unknown, Reading: not read\u001b[2J yet)`, `north (Conn\u001b[2Jected; Mutual is False, NotListed: run join)`}
	if diff := cmp.Diff(want, unconnected(entries, []string{"west", "north"}, false)); diff != "" {
		t.Errorf("unexpected result (-want +got):\n%s", diff)
	}
}

func TestWaitForMembersTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster("east", "east")
		s.MCS = mcsfake.NewSimpleClientset(connected("south"),
			clustertest.NewMember("west", clustersetv1alpha1.MemberConnecting, clustertest.Condition(clusterset.MemberReachable, metav1.ConditionFalse, "Unreachable", "no answer")))
		began := time.Now() // of the bubble
		err := s.waitForMembers(t.Context(), []string{"north", "south", "west"}, time.Minute, false)
		expect.Error(t, err, "not connected after 1m0s: north (not a member yet); west (Connecting; Reachable is False, Unreachable: no answer)")
		if strings.Contains(err.Error(), "south") || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}

		ctx, interrupt := context.WithTimeout(t.Context(), time.Second)
		defer interrupt()
		if err := s.waitForMembers(ctx, []string{"north"}, time.Minute, false); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "not connected after") {
			t.Errorf("interrupt caused error %v", err)
		}
	})
}

func TestExecutionShowsProgress(t *testing.T) {
	clusters := []*Cluster{newCluster("east", "east"), newCluster("west", "west")}
	var out bytes.Buffer
	e := NewExecution(clusters, progress.New(&out))
	steps := []plan.Step{
		{Context: "east", Action: plan.GrantAccess, Peers: []string{"west"}},
		{Context: "west", Action: plan.GrantAccess, Peers: []string{"east"}},
		{Context: "east", Action: plan.AddMembers, Peers: []string{"south"}},
		{Context: "east", Action: plan.JoinClusterSet, Value: "production"},
	}
	expect.Error(t, e.Run(t.Context(), steps), "no context refers to a cluster with this ID")
	if err := e.rollBackAll(t.Context()); err != nil {
		t.Error(err)
	}
	expect.Text(t, strings.Join([]string{
		"✓ east: grant read access to west",
		"✓ west: grant read access to east",
		"✗ east: " + steps[2].String(),
		"✓ roll back west: grant read access to east",
		"✓ roll back east: grant read access to west",
		"",
	}, "\n"), out.String())
}

// R334: clusters have the timeout together to give up decisions, and each of them is asked.
func TestClustersShareTheTimeoutForDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Annotations: map[string]string{multicluster.ClusterSetIPDecisionAnnotation: `{"ips":["243.1.0.1"],"decidedBy":"north"}`},
		}}
		var clusters []*Cluster
		var steps []plan.Step
		for _, name := range []string{"east", "south", "west"} {
			s := newCluster(name, "")
			s.MCS = mcsfake.NewSimpleClientset(kept.DeepCopy())
			clusters, steps = append(clusters, s), append(steps, plan.Step{Context: name, Action: plan.WaitForDecisions, Peers: []string{"north"}})
		}
		execution, began := NewExecution(clusters, discardProgress()), time.Now()
		execution.Timeout = time.Minute
		expect.Error(t, execution.RunAll(t.Context(), steps), `context "east": `, `context "south": `, `context "west": `, "after 1m0s, 1 ServiceExports still have")
		if took := time.Since(began); took < time.Minute || took > time.Minute+decisionsInterval {
			t.Errorf("waiting took %s", took)
		}
	})
}

// R335: allowed CIDRs are written to the member Secret and rolled back, and nothing else
// in it changes.
func TestAllowedCIDRsAreWrittenAndRolledBack(t *testing.T) {
	before := map[string][]byte{clusterset.MemberSecretClusterID: []byte("west"), clusterset.MemberSecretAllowedCIDRs: []byte("10.9.0.0/16"), clusterset.MemberSecretServiceLimit: []byte("7")}
	s := newCluster("east", "east", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: "member-west"}, Type: clusterset.MemberSecretType, Data: before})
	if planned(t, []*Cluster{s}, nil); s.Observed.Members["west"].AllowedCIDRs != "10.9.0.0/16" {
		t.Errorf("observed is %+v", s.Observed.Members)
	}
	expectData := func(want map[string][]byte) {
		t.Helper()
		got, err := s.Kubernetes.CoreV1().Secrets("mcs-system").Get(t.Context(), "member-west", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Data); diff != "" {
			t.Error(diff)
		}
	}
	execution := NewExecution([]*Cluster{s}, discardProgress())
	if err := execution.Run(t.Context(), []plan.Step{{Context: "east", Action: plan.AllowCIDRs, Value: "10.101.0.0/16", Peers: []string{"west"}}}); err != nil {
		t.Fatal(err)
	}
	expectData(map[string][]byte{clusterset.MemberSecretClusterID: []byte("west"), clusterset.MemberSecretAllowedCIDRs: []byte("10.101.0.0/16"), clusterset.MemberSecretServiceLimit: []byte("7")})
	expect.Error(t, execution.RollBack(t.Context(), errors.New("failed")), "all completed steps were rolled back")
	expectData(before)
}
