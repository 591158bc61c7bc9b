// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

// R184: a cache alone never leads to a deletion, and neither does a kube-apiserver
// that fails or that serves another cluster.
func TestLeftoversAreDeletedOnTheWordOfTheClusterOnly(t *testing.T) {
	system := func(uid types.UID) runtime.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	}
	for _, test := range []struct {
		name string
		// live is what the cluster has; the cache has no namespaces.
		live    []runtime.Object
		getErr  error
		deleted bool
		err     string
	}{
		{"gone", []runtime.Object{system(here)}, nil, true, ""},
		{"cache is outdated", []runtime.Object{system(here), namespace("old", 5)}, nil, false, ""},
		{"created again", []runtime.Object{system(here), namespace("new", 15)}, nil, true, ""},
		{"kube-apiserver fails", []runtime.Object{system(here)}, apierrors.NewServiceUnavailable("down"), false, "get namespace shop"},
		{"kube-apiserver lost its data", nil, nil, false, "get namespace kube-system"},
		{"kube-apiserver of another cluster", []runtime.Object{system("there")}, nil, false, "serves another cluster"},
	} {
		t.Run(test.name, func(t *testing.T) {
			host, own := kubernetesfake.NewClientset(test.live...), mcsfake.NewSimpleClientset(export("here/old", 10))
			if test.getErr != nil {
				host.PrependReactor("get", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
					return action.(clienttesting.GetAction).GetName() == "shop", nil, test.getErr
				})
			}
			ownInformers := mcsinformers.NewSharedInformerFactory(own, 0)
			c, err := New(host.CoreV1(), informers.NewSharedInformerFactory(kubernetesfake.NewClientset(), 0), own, ownInformers)
			if err != nil {
				t.Fatal(err)
			}
			c.cluster = here
			if err := ownInformers.MulticlusterX().V1beta1().ServiceExports().Informer().GetIndexer().Add(export("here/old", 10)); err != nil {
				t.Fatal(err)
			}
			err = c.sync(t.Context(), types.NamespacedName{Name: "shop"})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
			left, err := own.MulticlusterXV1beta1().ServiceExports("shop").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if deleted := len(left.Items) == 0; deleted != test.deleted {
				t.Errorf("deleted %t, want %t", deleted, test.deleted)
			}
		})
	}
}

// R456: ClusterProfiles and PlacementDecisions are deleted if their namespace does not exist.
func TestInventoriesOfDeletedNamespacesAreDeleted(t *testing.T) {
	metadata := metav1.ObjectMeta{Namespace: "shop", Name: "east", UID: "1", CreationTimestamp: at(10)}
	profile, decision := &multiclusterxv1alpha1.ClusterProfile{ObjectMeta: metadata}, &multiclusterxv1alpha1.PlacementDecision{ObjectMeta: metadata}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: here}}
	for name, test := range map[string]struct {
		live []runtime.Object
		left int
	}{
		"gone":          {[]runtime.Object{system}, 0},
		"kept":          {[]runtime.Object{system, namespace("old", 5)}, 2},
		"created again": {[]runtime.Object{system, namespace("new", 15)}, 2}, // where they were created is not recorded
	} {
		t.Run(name, func(t *testing.T) {
			host, own := kubernetesfake.NewClientset(test.live...), mcsfake.NewSimpleClientset(profile, decision)
			ownInformers := mcsinformers.NewSharedInformerFactory(own, 0)
			c, err := New(host.CoreV1(), informers.NewSharedInformerFactory(kubernetesfake.NewClientset(), 0), own, ownInformers)
			if err != nil {
				t.Fatal(err)
			}
			cached := ownInformers.MulticlusterX().V1alpha1()
			if err := errors.Join(cached.ClusterProfiles().Informer().GetIndexer().Add(profile), cached.PlacementDecisions().Informer().GetIndexer().Add(decision)); err != nil {
				t.Fatal(err)
			}
			if err := c.sync(t.Context(), types.NamespacedName{Name: "shop"}); err != nil {
				t.Fatal(err)
			}
			profiles, err := own.MulticlusterXV1alpha1().ClusterProfiles("shop").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			decisions, err := own.MulticlusterXV1alpha1().PlacementDecisions("shop").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if left := len(profiles.Items) + len(decisions.Items); left != test.left {
				t.Errorf("%d objects are left, want %d", left, test.left)
			}
		})
	}
}

// A 404 of a deletion that is not about the object is an error, and tried again.
func TestDeletionThatIsRefusedIsRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		repeat  bool
	}{
		"the object is gone":    {apierrors.NewNotFound(multiclusterxv1alpha1.SchemeGroupVersion.WithResource("clusterprofiles").GroupResource(), "east"), false},
		"the namespace is gone": {apierrors.NewNotFound(namespaces, "shop"), true},
	} {
		found := leftover{resource{"ClusterProfile", "clusterprofiles", nil, func(context.Context, metav1.Object, metav1.DeleteOptions) error { return test.refusal }},
			&multiclusterxv1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "east"}}}
		if err := found.collect(t.Context()); (err != nil) != test.repeat {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
