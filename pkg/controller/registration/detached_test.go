// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// R181: a detached API is not registered, its APIServices are deleted, and those of
// other servers are not. If it is unknown whether the API is detached, nothing changes.
func TestDetachedAPIIsWithdrawn(t *testing.T) {
	ours := apiService(func(a *apiregistrationv1.APIService) {
		a.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: ourService.Namespace, Name: ourService.Name}
	})
	theirs := apiService(func(a *apiregistrationv1.APIService) {
		a.Name = groupVersions[1].apiServiceName()
		a.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "kube-system", Name: "other"}
	})
	all := len(groupVersions)
	for _, test := range []struct {
		name     string
		existing []*apiregistrationv1.APIService
		detached bool
		unknown  bool
		standby  bool
		// left is the number of APIServices in the end.
		left int
	}{
		{name: "attached", left: all},
		{name: "attached, partly registered", existing: []*apiregistrationv1.APIService{ours}, left: all},
		{name: "detached", existing: []*apiregistrationv1.APIService{ours, theirs}, detached: true, left: 1},
		{name: "detached, not leading", existing: []*apiregistrationv1.APIService{ours}, detached: true, standby: true, left: 1},
		{name: "detached and not registered", detached: true, left: 0},
		{name: "unknown", unknown: true, left: 0},
		{name: "unknown, registered", existing: []*apiregistrationv1.APIService{ours}, unknown: true, left: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			host := []runtime.Object{&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ownerClusterRole}}}
			if test.detached {
				host = append(host, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ourService.Namespace, Name: clusterset.DetachedConfigMap}})
			}
			clients := Clients{
				Kubernetes: kubernetesfake.NewClientset(host...), Aggregator: aggregatorfake.NewSimpleClientset(),
				Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()),
			}
			if test.unknown {
				clients.Kubernetes.(*kubernetesfake.Clientset).PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("connection refused")
				})
			}
			c := New(clients, ourService.Namespace, Options{}, events.NewFakeRecorder(10))
			c.SetAuthority([]byte("ca"))
			c.setLeading(!test.standby)
			for _, existing := range test.existing {
				if _, err := clients.Aggregator.ApiregistrationV1().APIServices().Create(t.Context(), existing, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := c.informer.GetIndexer().Add(existing); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.sync(t.Context(), queueKey); (err != nil) != test.unknown {
				t.Error(err)
			}
			list, err := clients.Aggregator.ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != test.left {
				t.Errorf("%d APIServices are left, want %d", len(list.Items), test.left)
			}
			if text, _ := c.State(); strings.Contains(text, "detached") != test.detached {
				t.Errorf("state is %q", text)
			}
			if test.detached && !test.standby && slices.ContainsFunc(list.Items, func(a apiregistrationv1.APIService) bool { return isOurs(&a, ourService) }) {
				t.Errorf("an APIService of mcs-apiserver is left: %v", list.Items)
			}
		})
	}
}
