// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crd"
)

// registered returns the APIServices of mcs-apiserver.
func registered(change func(*apiregistrationv1.APIService)) []runtime.Object {
	var all []runtime.Object
	for _, gv := range groupVersions {
		service := desired(nil, gv, ourService, []byte("ca"), metav1.OwnerReference{})
		if gv.Group == multicluster.XGroupName {
			change(service)
		}
		all = append(all, service)
	}
	return all
}

func unchangedService(*apiregistrationv1.APIService) {}

// newPublisher returns a controller that leads and publishes CRDs, in a cluster that has some.
func newPublisher(t *testing.T, publish bool, services []runtime.Object, existing ...*unstructured.Unstructured) *Controller {
	t.Helper()
	c, _ := newController(t, services...)
	for _, service := range services {
		if _, err := c.clients.Aggregator.ApiregistrationV1().APIServices().Create(t.Context(), service.(*apiregistrationv1.APIService), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var objects []runtime.Object
	var metadata []runtime.Object
	for _, definition := range existing {
		objects = append(objects, definition)
		metadata = append(metadata, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: definition.GetName(), Labels: definition.GetLabels()},
		})
	}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c.clients.Dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{apiconflict.CRDResource: "CustomResourceDefinitionList"}, objects...)
	c.clients.Metadata = metadatafake.NewSimpleMetadataClient(scheme, metadata...)
	if publish {
		var err error
		if c.crds, err = crd.Definitions(); err != nil {
			t.Fatal(err)
		}
	}
	c.setLeading(true)
	return c
}

// definitions returns the CRDs that were published, changed.
func definitions(t *testing.T, change func(*unstructured.Unstructured)) []*unstructured.Unstructured {
	t.Helper()
	wanted, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var changed []*unstructured.Unstructured
	for _, definition := range wanted {
		definition = desiredCRD(nil, definition, metav1.OwnerReference{Kind: "ClusterRole", Name: ownerClusterRole, UID: "1", APIVersion: "rbac.authorization.k8s.io/v1"})
		change(definition)
		changed = append(changed, definition)
	}
	return changed
}

func ofOthers(definition *unstructured.Unstructured) { definition.SetLabels(nil) }
func asPublished(*unstructured.Unstructured)         {}
func edited(definition *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(definition.Object, "Cluster", "spec", "scope")
}
func terminating(definition *unstructured.Unstructured) {
	now := metav1.Now()
	definition.SetDeletionTimestamp(&now)
}

// R465: CRDs are published once the APIServices are registered, restored, and deleted if they
// are not to be published, or the API is detached. Those of others are left alone.
func TestCRDsArePublished(t *testing.T) {
	for _, test := range []struct {
		name     string
		publish  bool
		detached bool
		services []runtime.Object
		existing []*unstructured.Unstructured
		want     int
		requests string
	}{
		{name: "not wanted", services: registered(unchangedService)},
		{name: "not registered yet", publish: true},
		{name: "registered", publish: true, services: registered(unchangedService), want: 2, requests: "create create"},
		{name: "published", publish: true, services: registered(unchangedService), existing: definitions(t, asPublished), want: 2},
		{name: "edited", publish: true, services: registered(unchangedService), existing: definitions(t, edited), want: 2, requests: "update update"},
		{name: "being deleted", publish: true, services: registered(unchangedService), existing: definitions(t, terminating), want: 2},
		{name: "of others", publish: true, services: registered(unchangedService), existing: definitions(t, ofOthers), want: 2},
		{name: "no longer wanted", services: registered(unchangedService), existing: definitions(t, asPublished), requests: "delete delete"},
		{name: "of others, not wanted", services: registered(unchangedService), existing: definitions(t, ofOthers), want: 2},
		{name: "detached", publish: true, detached: true, existing: definitions(t, asPublished), requests: "delete delete"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newPublisher(t, test.publish, test.services, test.existing...)
			if test.detached {
				detach(t, c)
			}
			if err := c.sync(t.Context(), queueKey); err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, name := range apiconflict.PublishedCRDs {
				definition, err := c.clients.Dynamic.Resource(apiconflict.CRDResource).Get(t.Context(), name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				found++
				if scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope"); scope != "Namespaced" {
					t.Errorf("%s has scope %s", name, scope)
				}
			}
			var requests []string
			for _, action := range c.clients.Dynamic.(*dynamicfake.FakeDynamicClient).Actions() {
				if verb := action.GetVerb(); verb != "get" && verb != "list" {
					requests = append(requests, verb)
				}
			}
			if got := strings.Join(requests, " "); found != test.want || got != test.requests {
				t.Errorf("%d CRDs after requests %q, want %d after %q", found, got, test.want, test.requests)
			}
		})
	}
}

func detach(t *testing.T, c *Controller) {
	t.Helper()
	mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ourService.Namespace, Name: clusterset.DetachedConfigMap}}
	if _, err := c.clients.Kubernetes.CoreV1().ConfigMaps(mark.Namespace).Create(t.Context(), mark, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// R465: the kube-apiserver registers CRDs itself when an APIService in front of them is deleted.
// Published ones are taken over again, those of others are not.
func TestAPIServicesOfPublishedCRDsAreTakenOver(t *testing.T) {
	automanaged := func(service *apiregistrationv1.APIService) {
		service.Labels = map[string]string{apiconflict.AutomanagedLabel: "true"}
		service.Spec.Service = nil
	}
	for name, test := range map[string]struct {
		existing []*unstructured.Unstructured
		taken    bool
	}{
		"published": {definitions(t, asPublished), true}, "of others": {definitions(t, ofOthers), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPublisher(t, true, registered(automanaged), test.existing...)
			if err := c.sync(t.Context(), queueKey); err != nil {
				t.Fatal(err)
			}
			service, err := c.clients.Aggregator.ApiregistrationV1().APIServices().Get(t.Context(), groupVersions[0].apiServiceName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if isOurs(service, ourService) != test.taken || test.taken && !maps.Equal(service.Labels, apiconflict.RegisteredLabels) {
				t.Errorf("taken over: %t, labels %v", isOurs(service, ourService), service.Labels)
			}
		})
	}
}
