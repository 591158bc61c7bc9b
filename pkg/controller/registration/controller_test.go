// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/events"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
)

// newController returns a controller that knows its CA, and a function that returns the
// names of the APIServices that it created.
func newController(t *testing.T, existing ...runtime.Object) (*Controller, func() []string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clients := Clients{
		Kubernetes: kubernetesfake.NewClientset(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ownerClusterRole, UID: "1"}}),
		Aggregator: aggregatorfake.NewClientset(),
		Metadata:   metadatafake.NewSimpleMetadataClient(scheme),
		Dynamic:    dynamicfake.NewSimpleDynamicClient(scheme),
	}
	c := New(clients, ourService.Namespace, Options{}, events.NewFakeRecorder(10))
	t.Cleanup(c.queue.ShutDown)
	for _, object := range existing {
		if err := c.informer.GetIndexer().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	c.SetAuthority([]byte("ca"))
	return c, func() []string {
		list, err := clients.Aggregator.ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		return names
	}
}

// R158: a replica registers the API while it leads, whether its server is ready or not.
func TestOnlyTheLeaderRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, registered := newController(t)
		sync := func() {
			t.Helper()
			if err := c.sync(t.Context(), queueKey); err != nil {
				t.Error(err)
			}
		}
		sync()
		if names := registered(); len(names) > 0 {
			t.Errorf("a replica that does not lead registered %v", names)
		}
		leading, lose := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Lead(leading) }()
		synctest.Wait()
		if c.queue.Len() != 1 {
			t.Error("a replica that starts to lead does not reconcile")
		}
		sync()
		if names := registered(); len(names) != len(groupVersions) {
			t.Errorf("the leader registered %v", names)
		}
		lose()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := c.clients.Aggregator.ApiregistrationV1().APIServices().Delete(t.Context(), groupVersions[0].apiServiceName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		sync()
		if names := registered(); slices.Contains(names, groupVersions[0].apiServiceName()) {
			t.Error("a former leader registered the API")
		}
	})
}

// R158: no replica is ready while the registration is refused.
func TestEveryReplicaReportsRefusedRegistration(t *testing.T) {
	foreign := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: groupVersions[0].apiServiceName()},
		Spec:       apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "other", Name: "server"}},
	}
	for _, leading := range []bool{false, true} {
		c, registered := newController(t, foreign)
		c.setLeading(leading)
		if err := c.sync(t.Context(), queueKey); err != nil {
			t.Error(err)
		}
		if _, err := c.State(); err == nil {
			t.Errorf("refusal is not reported (leading: %t)", leading)
		}
		if names := registered(); len(names) > 0 {
			t.Errorf("registered %v over another server", names)
		}
	}
}
