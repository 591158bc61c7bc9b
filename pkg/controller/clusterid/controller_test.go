// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterid

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

func TestMain(m *testing.M) {
	// Started once per process, and never stopped.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// uid is the UID of the namespace kube-system.
const uid = "0a1b2c3d-0000-4000-8000-000000000000"

func claim(name, value string) *multiclusterv1.ClusterClaim {
	return &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1.ClusterClaimSpec{Value: value}}
}

func id(value string) *multiclusterv1.ClusterClaim { return claim(multicluster.ClusterIDClaim, value) }

var inSet = claim(multicluster.ClusterSetClaim, "production")

// R103: a cluster without a chosen ID gets a unique one.
func TestDesiredID(t *testing.T) {
	for _, test := range []struct {
		name           string
		id, clusterSet *multiclusterv1.ClusterClaim
		wanted         string
		// want is empty if the claim stays as it is.
		want string
	}{
		{name: "none", want: uid},
		{name: "none, with --cluster-id", wanted: "east", want: "east"},
		{name: "none, in a ClusterSet", clusterSet: inSet, want: uid},
		{name: "none, in a ClusterSet, with --cluster-id", clusterSet: inSet, wanted: "east", want: "east"},
		{name: "default, with --cluster-id", id: id(uid), wanted: "east", want: "east"},
		{name: "chosen", id: id("west")},
		{name: "chosen, with another --cluster-id", id: id("west"), wanted: "east"},
		{name: "default, in a ClusterSet, with --cluster-id", id: id(uid), clusterSet: inSet, wanted: "east"},
		{name: "chosen, in a ClusterSet, with another --cluster-id", id: id("west"), clusterSet: inSet, wanted: "east"},
		{name: "default of another cluster, with --cluster-id", id: id("ffffffff-0000-4000-8000-000000000000"), wanted: "east"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.id.DeepCopy()
			got := desired(test.id, test.clusterSet, test.wanted, uid)
			if test.want == "" && got != nil {
				t.Fatalf("got %q, want no change", got.Spec.Value)
			}
			if test.want != "" && (got == nil || got.Name != multicluster.ClusterIDClaim || got.Spec.Value != test.want) {
				t.Fatalf("got %+v, want %q", got, test.want)
			}
			if diff := cmp.Diff(before, test.id); diff != "" {
				t.Errorf("the cached object was changed: %s", diff)
			}
		})
	}
}

func TestForeignMetadataOfTheClaimIsPreserved(t *testing.T) {
	existing := id(uid)
	existing.ResourceVersion, existing.Labels = "7", map[string]string{"team": "platform"}
	got := desired(existing, nil, "east", uid)
	want := existing.DeepCopy()
	want.Spec.Value = "east"
	want.Annotations = map[string]string{multicluster.GeneratedIDAnnotation: "east"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

// cluster is a fake of what the controller reads and writes.
type cluster struct {
	host   *kubernetesfake.Clientset
	client *mcsfake.Clientset
	own    mcsinformers.SharedInformerFactory
}

func newCluster(claims ...*multiclusterv1.ClusterClaim) *cluster {
	var objects []runtime.Object
	for _, claim := range claims {
		objects = append(objects, claim.DeepCopy())
	}
	c := &cluster{
		host:   kubernetesfake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}),
		client: mcsfake.NewSimpleClientset(objects...),
	}
	c.own = mcsinformers.NewSharedInformerFactory(c.client, 0)
	return c
}

// controller returns a controller that is not running, with claims in its cache.
func (c *cluster) controller(t *testing.T, wanted string, cached ...*multiclusterv1.ClusterClaim) *Controller {
	t.Helper()
	controller := New(c.host, c.client, wanted, c.own)
	t.Cleanup(controller.queue.ShutDown)
	for _, claim := range cached {
		if err := c.own.Multicluster().V1().ClusterClaims().Informer().GetIndexer().Add(claim); err != nil {
			t.Fatal(err)
		}
	}
	return controller
}

// writes returns the write requests as "verb resource value".
func (c *cluster) writes() []string {
	var found []string
	for _, action := range c.client.Actions() {
		switch action := action.(type) {
		case clienttesting.CreateAction: // also matches updates
			found = append(found, action.GetVerb()+" "+action.GetResource().Resource+" "+action.GetObject().(*multiclusterv1.ClusterClaim).Spec.Value)
		case clienttesting.DeleteAction:
			found = append(found, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	return found
}

// id returns the cluster ID, empty if there is none.
func (c *cluster) id(t *testing.T) string {
	t.Helper()
	found, err := c.client.MulticlusterV1().ClusterClaims().Get(t.Context(), multicluster.ClusterIDClaim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return found.Spec.Value
}

func TestIDIsWrittenOnlyIfItDiffers(t *testing.T) {
	for _, test := range []struct {
		name   string
		claims []*multiclusterv1.ClusterClaim
		wanted string
		want   []string
	}{
		{name: "none", want: []string{"create clusterclaims " + uid}},
		{name: "none, with --cluster-id", wanted: "east", want: []string{"create clusterclaims east"}},
		{name: "default", claims: []*multiclusterv1.ClusterClaim{id(uid)}},
		{name: "default is replaced", claims: []*multiclusterv1.ClusterClaim{id(uid)}, wanted: "east", want: []string{"update clusterclaims east"}},
		{name: "default stays in a ClusterSet", claims: []*multiclusterv1.ClusterClaim{id(uid), inSet}, wanted: "east"},
		{name: "that of --cluster-id", claims: []*multiclusterv1.ClusterClaim{id("east")}, wanted: "east"},
		{name: "chosen", claims: []*multiclusterv1.ClusterClaim{id("west")}},
		{name: "chosen one stays", claims: []*multiclusterv1.ClusterClaim{id("west")}, wanted: "east"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(test.claims...)
			if err := c.controller(t, test.wanted, test.claims...).sync(t.Context(), claimKey); err != nil {
				t.Fatal(err)
			}
			if got := c.writes(); !slices.Equal(got, test.want) {
				t.Errorf("got writes %v, want %v", got, test.want)
			}
		})
	}
}

func TestClusterWithAnIDNeedsNoRequest(t *testing.T) {
	c := newCluster(id("west"))
	if err := c.controller(t, "", id("west")).sync(t.Context(), claimKey); err != nil {
		t.Fatal(err)
	}
	if actions := c.host.Actions(); len(actions) > 0 {
		t.Errorf("sent requests %v", actions)
	}
}

// A user or another replica may create the claim before the cache shows it.
func TestConcurrentlyCreatedIDIsKept(t *testing.T) {
	c := newCluster(id("west"))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	if err := c.controller(t, "east").sync(klog.NewContext(t.Context(), logger), claimKey); err != nil {
		t.Errorf("got %v", err)
	}
	if got := c.id(t); got != "west" {
		t.Errorf("got ID %q, want west", got)
	}
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Contains(log, "Created cluster ID claim") {
		t.Errorf("logged that the claim was created: %s", log)
	}
}

func TestErrorsAreReturned(t *testing.T) {
	fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") }
	for _, test := range []struct {
		name   string
		claims []*multiclusterv1.ClusterClaim
		spoil  func(*cluster)
		want   string
	}{
		{"no UID", nil, func(c *cluster) { c.host.PrependReactor("get", "namespaces", fail) }, "get the UID of namespace kube-system: away"},
		{"no write", nil, func(c *cluster) { c.client.PrependReactor("create", "clusterclaims", fail) }, "create cluster ID claim: away"},
		{"no change", []*multiclusterv1.ClusterClaim{id(uid)}, func(c *cluster) { c.client.PrependReactor("update", "clusterclaims", fail) }, "replace default cluster ID: away"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(test.claims...)
			test.spoil(c)
			err := c.controller(t, "east", test.claims...).sync(t.Context(), claimKey) // the loop retries
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// run runs a controller until the test ends.
func (c *cluster) run(t *testing.T, wanted string) {
	t.Helper()
	controller := c.controller(t, wanted)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c.own.StartWithContext(ctx)
	// The fake loses events between the list and the watch.
	eventually(t, "the claims are watched", func() bool {
		return slices.ContainsFunc(c.client.Actions(), func(action clienttesting.Action) bool { return action.GetVerb() == "watch" })
	})
	go func() { ended <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.own.Shutdown()
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// R103: the ID is created without user action, also after failures, and created again
// if it is lost.
func TestClusterAlwaysHasAnID(t *testing.T) {
	c := newCluster()
	failures := 0
	c.client.PrependReactor("create", "clusterclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		failures++
		return failures <= 2, nil, errors.New("the API is not served yet")
	})
	c.run(t, "")
	eventually(t, "the cluster has an ID", func() bool { return c.id(t) == uid })
	if err := c.client.MulticlusterV1().ClusterClaims().Delete(t.Context(), multicluster.ClusterIDClaim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ID is created again", func() bool { return c.id(t) == uid })
}

// --cluster-id takes effect when the cluster leaves the ClusterSet.
func TestDefaultIsReplacedAfterLeaving(t *testing.T) {
	c := newCluster(id(uid), inSet)
	c.run(t, "east")
	if err := c.client.MulticlusterV1().ClusterClaims().Delete(t.Context(), multicluster.ClusterSetClaim, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the default is replaced", func() bool { return c.id(t) == "east" })
	// Until the cache catches up, the claim may be written again.
	if got := slices.Compact(c.writes()); !slices.Equal(got, []string{"delete clusterclaims", "update clusterclaims east"}) {
		t.Errorf("got writes %v", got)
	}
}

// The mark of a generated ID is removed once a ClusterSet uses the ID, and not set for a
// chosen one.
func TestGeneratedIDIsMarkedUntilAClusterSetUsesIt(t *testing.T) {
	marked := func(value, mark string) *multiclusterv1.ClusterClaim {
		result := id(value)
		result.Annotations = map[string]string{multicluster.GeneratedIDAnnotation: mark}
		return result
	}
	for name, test := range map[string]struct {
		claims []*multiclusterv1.ClusterClaim
		wanted string
		want   string
	}{
		"created":                       {nil, "", uid},
		"created with --cluster-id":     {nil, "east", "east"},
		"default replaced":              {[]*multiclusterv1.ClusterClaim{marked(uid, uid)}, "east", "east"},
		"created in a ClusterSet":       {[]*multiclusterv1.ClusterClaim{inSet}, "", ""},
		"generated, in a ClusterSet":    {[]*multiclusterv1.ClusterClaim{marked(uid, uid), inSet}, "", ""},
		"chosen, in a ClusterSet":       {[]*multiclusterv1.ClusterClaim{marked("west", uid), inSet}, "", ""},
		"generated, outside ClusterSet": {[]*multiclusterv1.ClusterClaim{marked(uid, uid)}, "", uid},
		"chosen, outside ClusterSet":    {[]*multiclusterv1.ClusterClaim{id("west")}, "", ""},
	} {
		c := newCluster(test.claims...)
		if err := c.controller(t, test.wanted, test.claims...).sync(t.Context(), claimKey); err != nil {
			t.Fatal(err)
		}
		found, err := c.client.MulticlusterV1().ClusterClaims().Get(t.Context(), multicluster.ClusterIDClaim, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Annotations[multicluster.GeneratedIDAnnotation]; got != test.want {
			t.Errorf("%s: got mark %q, want %q", name, got, test.want)
		}
	}
}
