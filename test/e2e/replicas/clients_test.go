// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/chaos"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	importWatchers   = 20
	endpointWatchers = 2
	// readPeriod is the time between two reads: 40 reads a second.
	readPeriod = 25 * time.Millisecond

	serviceNameLabel = "multicluster.kubernetes.io/service-name"
)

var (
	imports  = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}
	services = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	slice    = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// clients are the clients of the importing cluster.
type clients struct {
	namespace string
	config    *rest.Config
	changes   *chaos.Changes
	// imported and derived are the identities of imports and of derived Services.
	imported, derived *chaos.Identities
	// importDelays and endpointDelays are those of the clients that watch imports, and
	// imported EndpointSlices.
	importDelays, endpointDelays []*chaos.Observer
	watching, reading            chaos.Attempts
}

// newClients returns clients, of which none is running, when all imports of the load exist.
func newClients(t *testing.T, config *rest.Config, namespace string, changes *chaos.Changes) *clients {
	t.Helper()
	client := expect.Must(dynamic.NewForConfig(config))(t)
	return &clients{
		namespace: namespace, config: config, changes: changes,
		imported: chaos.NewIdentities(awaitUIDs(t, client, imports, namespace)),
		derived:  chaos.NewIdentities(awaitUIDs(t, client, services, namespace)),
	}
}

// start starts the watching clients until the test ends. They are new for every fault: client-go
// waits longer and longer before it resumes a watch that was interrupted several times within
// two minutes.
func (c *clients) start(t *testing.T) {
	t.Helper()
	c.importDelays, c.endpointDelays = nil, nil
	for i := range importWatchers {
		observer := chaos.NewObserver(c.changes, subjects(importOf, true)...)
		c.importDelays = append(c.importDelays, observer)
		c.watch(t, imports, identified(c.imported, fmt.Sprintf("watching client %d", i), func(service string, object *unstructured.Unstructured) {
			n, err := strconv.Atoi(object.GetAnnotations()[counter])
			if err == nil {
				observer.Saw(importOf(service), n, time.Now())
			}
		}))
	}
	for range endpointWatchers {
		observer := chaos.NewObserver(c.changes, subjects(endpointsOf, false)...)
		c.endpointDelays = append(c.endpointDelays, observer)
		c.watch(t, slice, chaos.Watcher{Gone: func(*unstructured.Unstructured) {}, Exists: func(object *unstructured.Unstructured) {
			endpoints, _, _ := unstructured.NestedSlice(object.Object, "endpoints")
			for _, endpoint := range endpoints {
				addresses, _, _ := unstructured.NestedStringSlice(endpoint.(map[string]any), "addresses")
				observer.Saw(endpointsOf(object.GetLabels()[serviceNameLabel]), number(addresses[0]), time.Now())
			}
		}})
	}
	c.watch(t, services, identified(c.derived, "client of Services", func(string, *unstructured.Unstructured) {}))
}

func (c *clients) watch(t *testing.T, resource schema.GroupVersionResource, watcher chaos.Watcher) {
	t.Helper()
	client := expect.Must(chaos.Client(c.config, &c.watching))(t)
	expect.NoError(t, chaos.Watch(t.Context(), client, resource, c.namespace, watcher))
}

// identified returns a watcher that checks identities.
func identified(identities *chaos.Identities, client string, exists func(service string, object *unstructured.Unstructured)) chaos.Watcher {
	return chaos.Watcher{
		Exists: func(object *unstructured.Unstructured) {
			identities.Exists(client, serviceOf(object), object.GetUID())
			exists(serviceOf(object), object)
		},
		Gone: func(object *unstructured.Unstructured) { identities.Gone(client, serviceOf(object)) },
	}
}

// serviceOf returns the name of the service that an import or a derived object belongs to.
func serviceOf(object *unstructured.Unstructured) string {
	if object.GetKind() == "ServiceImport" {
		return object.GetName()
	}
	return object.GetLabels()[serviceNameLabel]
}

// awaitUIDs waits until all services that are kept have an object, and returns the UIDs of these.
func awaitUIDs(t *testing.T, client dynamic.Interface, resource schema.GroupVersionResource, namespace string) map[string]types.UID {
	t.Helper()
	var kept map[string]types.UID
	expect.Eventually(t, "all "+resource.Resource, func(ctx context.Context) error {
		list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		kept = map[string]types.UID{}
		for service, uid := range uidsOf(list) {
			if slices.Contains(subjects(importOf, false), importOf(service)) {
				kept[service] = uid
			}
		}
		if want := len(subjects(importOf, false)); len(kept) != want {
			return fmt.Errorf("%d of %d exist", len(kept), want)
		}
		return nil
	})
	return kept
}

func uidsOf(list *unstructured.UnstructuredList) map[string]types.UID {
	uids := map[string]types.UID{}
	for i := range list.Items {
		uids[serviceOf(&list.Items[i])] = list.Items[i].GetUID()
	}
	return uids
}

// read gets an import, or lists all of them, and checks what it reads.
func (c *clients) read(client dynamic.Interface) func(context.Context) error {
	reader := client.Resource(imports).Namespace(c.namespace)
	return func(ctx context.Context) error {
		if rand.IntN(2) == 0 { //nolint:gosec // not a secret
			list, err := reader.List(ctx, metav1.ListOptions{})
			if err == nil {
				c.imported.Listed("reading client", uidsOf(list))
			}
			return err
		}
		service := keptService(rand.IntN(kept)) //nolint:gosec // not a secret
		found, err := reader.Get(ctx, service, metav1.GetOptions{})
		if err == nil {
			c.imported.Exists("reading client", service, found.GetUID())
		}
		return err
	}
}
