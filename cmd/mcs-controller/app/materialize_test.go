// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/crdmirror"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/leadership"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/registration"
)

// emptyServer is an API server without objects. It refuses some resources, and all writes.
type emptyServer struct {
	refused sets.Set[string]

	mu sync.Mutex
	// requested are the paths of all requests, and watched the resources of all watches.
	requested, watched sets.Set[string]
}

func newEmptyServer(t *testing.T, refused ...string) (*emptyServer, *rest.Config) {
	t.Helper()
	s := &emptyServer{refused: sets.New(refused...), requested: sets.New[string](), watched: sets.New[string]()}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL, QPS: -1}
}

// ServeHTTP implements http.Handler.
func (s *emptyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	s.note(s.requested, r.URL.Path)
	switch {
	case s.refused.Has(resource):
		refuse(w, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil))
	case r.Method != http.MethodGet:
		refuse(w, apierrors.NewServiceUnavailable("read-only"))
	case query.Has("sendInitialEvents"):
		refuse(w, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)) // clients list then
	case query.Has("watch"):
		s.note(s.watched, resource)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"metadata": {"resourceVersion": "1"}, "items": []}`)
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(err.ErrStatus.Code))
	_ = json.NewEncoder(w).Encode(err.ErrStatus)
}

func (s *emptyServer) note(in sets.Set[string], what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.Insert(what)
}

// await waits until a set contains something.
func (s *emptyServer) await(t *testing.T, in sets.Set[string], what string) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		found := in.Has(what)
		s.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("no %s within 20 seconds", what)
}

// R500, R501: controllers run although stored objects cannot be listed, because storage is lost,
// one of them cannot be decoded, or the Role is that of an earlier version.
func TestReplicaLeadsWithoutStoredObjects(t *testing.T) {
	stored := sets.New("serviceexports", "clusterclaims", "clusterprofiles")
	for _, refused := range []sets.Set[string]{nil, sets.New("clusterprofiles"), stored} {
		t.Run(fmt.Sprint(sets.List(refused)), func(t *testing.T) {
			server, own := newEmptyServer(t, sets.List(refused)...)
			cluster, host := newEmptyServer(t)
			client, err := kubernetes.NewForConfig(host)
			if err != nil {
				t.Fatal(err)
			}
			m, err := newMaterializer(NewOptions(), client, client, own, events.NewFakeRecorder(10))
			if err != nil {
				t.Fatal(err)
			}
			dynamicClient, err := dynamic.NewForConfig(host)
			if err != nil {
				t.Fatal(err)
			}
			mirrored, err := mirrorClients(host, own, registration.Clients{Kubernetes: client, Dynamic: dynamicClient}, "mcs-system")
			if err != nil {
				t.Fatal(err)
			}
			marks := coreinformers.NewConfigMapInformer(client, "mcs-system", 0, cache.Indexers{})
			m.mirror = func() controller { return crdmirror.New(mirrored, "mcs-system", marks) }
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			health := leadership.NewHealth(func(context.Context) error { return nil })
			running.Go(func() { _ = health.Run(ctx) })
			running.Go(func() {
				// A controller that starts while the test ends cannot use informers any more.
				if err := m.run(ctx, &leadership.Candidate{Health: health}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
			cluster.await(t, cluster.requested, "/version") // a leader asks whether the cluster responds
			// A resource that is added has to be computed or stored.
			for resource := range computedResources.Union(stored).Difference(refused) {
				server.await(t, server.watched, resource)
			}
			server.mu.Lock()
			defer server.mu.Unlock()
			if unknown := server.watched.Difference(computedResources.Union(stored)); unknown.Len() > 0 {
				t.Errorf("watches %v, which are neither computed nor stored", sets.List(unknown))
			}
		})
	}
}

// Nodes are held with what says in which zone they are, and whether that matters.
func TestNodesAreHeldWithoutStatus(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}, Annotations: map[string]string{"large": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec:   corev1.NodeSpec{Taints: []corev1.Taint{{Key: "virtual-kubelet.io/provider"}}},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{SizeBytes: 1}}},
	}
	held, err := withoutStatusOfNodes(node)
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "virtual-kubelet.io/provider"}}},
	}
	if diff := cmp.Diff(want, held); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}
