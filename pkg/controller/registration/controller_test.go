// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/servingcert"
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

// ofAnotherServer returns an APIService of another server.
func ofAnotherServer() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: groupVersions[0].apiServiceName()},
		Spec:       apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "other", Name: "server"}},
	}
}

// R158: no replica is ready while the registration is refused.
func TestEveryReplicaReportsRefusedRegistration(t *testing.T) {
	for _, leading := range []bool{false, true} {
		c, registered := newController(t, ofAnotherServer())
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

// R524: metrics tell why the API is not registered, for as long as it is not.
func TestMetricsTellWhyTheAPIIsNotRegistered(t *testing.T) {
	foreign := ofAnotherServer()
	c, _ := newController(t, foreign)
	expect := func(want string) {
		t.Helper()
		if err := c.sync(t.Context(), queueKey); err != nil {
			t.Fatal(err)
		}
		if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "mcs_controller_api_unregistered"); err != nil {
			t.Error(err)
		}
	}
	expect(`
# HELP mcs_controller_api_unregistered ` + unregistered.Help + `
# TYPE mcs_controller_api_unregistered gauge
mcs_controller_api_unregistered{reason="RegistrationRefused"} 1
`)
	if err := c.informer.GetIndexer().Delete(foreign); err != nil {
		t.Fatal(err)
	}
	expect("")
}

// R371: every replica adds the CA of its certificate, which others issue, to those that are
// registered. Only the leader creates APIServices.
func TestRegisteredCAsAreKept(t *testing.T) {
	before, after := newCA(t), newCA(t)
	for _, test := range []struct {
		name          string
		keep, leading bool
		want          []byte
	}{
		{"leader", true, true, append(bytes.Clone(after), before...)},
		{"standby", true, false, append(bytes.Clone(after), before...)},
		{"leader that issues certificates", false, true, after},
		{"standby that issues certificates", false, false, before},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours := desired(nil, groupVersions[0], ourService, before, owner)
			c, registered := newController(t, ours)
			client := c.clients.Aggregator.ApiregistrationV1().APIServices()
			if _, err := client.Create(t.Context(), ours, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			c.keepAuthorities = test.keep
			c.setLeading(test.leading)
			c.SetAuthority(after)
			if err := c.sync(t.Context(), queueKey); err != nil {
				t.Fatal(err)
			}
			got, err := client.Get(t.Context(), ours.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Spec.CABundle, test.want) {
				t.Errorf("CA bundle is\n%s, want\n%s", got.Spec.CABundle, test.want)
			}
			if names := registered(); (len(names) == len(groupVersions)) != test.leading {
				t.Errorf("registered are %v", names)
			}
		})
	}
}

func newCA(t *testing.T) []byte {
	t.Helper()
	bundle, _, err := servingcert.Bundle{}.Renew(time.Now(), []string{"mcs-apiserver.mcs-system.svc"})
	if err != nil {
		t.Fatal(err)
	}
	return bundle.CA
}
