// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/migrate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// place is storage that objects can be moved to.
type place struct {
	migrate.Storage
	pods    storage.Interface
	records record.Store
}

func newPlace(t *testing.T, name string, backend migrate.Backend, options func(schema.GroupResource) generic.RESTOptions) *place {
	t.Helper()
	forPods := options(pods)
	forPods.StorageConfig.Codec = newCodec()
	newPod, newList := func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} }
	stored, destroy, err := forPods.Decorator(forPods.StorageConfig, "/pods/", nil, newPod, newList, podAttributes, nil, nil)
	expect.NoError(t, err)
	t.Cleanup(destroy)
	records, destroy, err := record.New(options(record.Resource("documents")))
	expect.NoError(t, err)
	t.Cleanup(destroy)
	return &place{
		pods: stored, records: records,
		Storage: migrate.Storage{Name: name, Backend: backend, Collections: map[string]migrate.Collection{
			"pods":    migrate.Objects{Storage: stored, Prefix: "/pods", Codec: newCodec(), New: newPod, NewList: newList},
			"records": migrate.Records{Store: records},
		}},
	}
}

func newClusterPlace(t *testing.T) *place {
	t.Helper()
	config := expect.Must(plane.AdminConfig())(t)
	client := expect.Must(kubernetes.NewForConfig(config))(t)
	namespace := expect.Must(client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "storage-"}}, metav1.CreateOptions{}))(t)
	backend := expect.Must(configmap.NewBackend(config, namespace.Name))(t)
	return newPlace(t, cluster, backend, func(resource schema.GroupResource) generic.RESTOptions {
		options, err := configmap.RESTOptions{Backend: backend}.GetRESTOptions(resource, nil)
		expect.NoError(t, err)
		options.ResourcePrefix = "/" + resource.Resource
		return options
	})
}

func newEtcdPlace(t *testing.T, name, server string) *place {
	t.Helper()
	client := expect.Must(clientv3.New(clientv3.Config{Endpoints: []string{server}}))(t)
	t.Cleanup(func() { client.Close() })
	prefix := newPrefix()
	return newPlace(t, name, etcd.NewBackend(client, prefix), func(resource schema.GroupResource) generic.RESTOptions {
		return restOptions(t, server, prefix, resource)
	})
}

// memoryMarker is the copy of a marker.
type memoryMarker struct{ held *marker.Marker }

func (m *memoryMarker) Get(context.Context) (*marker.Marker, error) { return m.held, nil }
func (m *memoryMarker) Put(_ context.Context, _ *marker.Marker, wanted marker.Marker) error {
	m.held = &wanted
	return nil
}

// seed writes Pods and records as they are found in the storage of a cluster.
func (p *place) seed(t *testing.T, count int) {
	t.Helper()
	created := metav1.NewTime(time.Now().Add(-24 * time.Hour).Truncate(time.Second))
	for i := range count {
		pod := pod(fmt.Sprintf("web-%d", i))
		pod.UID, pod.CreationTimestamp, pod.Generation = types.UID(fmt.Sprintf("uid-%d", i)), created, int64(i)
		pod.Labels, pod.Finalizers = map[string]string{"app": "web"}, []string{"example.com/finalizer"}
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
		if i%2 == 0 {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &created, ptr.To[int64](0)
		}
		expect.NoError(t, p.pods.Create(t.Context(), key(pod.Name), pod, nil, 0))
		_, _, err := p.records.Update(t.Context(), fmt.Sprintf("document-%d", i), func([]byte) ([]byte, error) { return []byte{byte(i)}, nil })
		expect.NoError(t, err)
	}
}

// content returns all Pods without their versions, and all records.
func (p *place) content(t *testing.T) ([]example.Pod, map[string][]byte) {
	t.Helper()
	list := &example.PodList{}
	expect.NoError(t, p.pods.GetList(t.Context(), "/pods/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list))
	for i := range list.Items {
		list.Items[i].ResourceVersion = ""
	}
	documents, _, err := p.records.List(t.Context())
	expect.NoError(t, err)
	return list.Items, documents
}

// R175, R177
func TestObjectsAndRecordsMoveBetweenStorages(t *testing.T) {
	const count = 20
	inCluster, inEtcd, inEmbedded := newClusterPlace(t), newEtcdPlace(t, external, externalEtcd), newEtcdPlace(t, embedded, embeddedEtcd)
	inEmbedded.seed(t, count) // as by a release without markers
	wantPods, wantRecords := inEmbedded.content(t)
	copied := &memoryMarker{}
	source := inEmbedded
	for _, target := range []*place{inCluster, inEtcd, inCluster, inEmbedded, inEtcd} {
		var progress []string
		move := migrate.Move{
			Source: source.Storage, Target: target.Storage, Copy: copied, ClusterUID: "uid",
			Progress: func(text string) { progress = append(progress, text) },
		}
		expect.NoError(t, move.Run(t.Context()))
		if !slices.ContainsFunc(progress, func(text string) bool { return len(text) > 0 }) {
			t.Error("no progress was reported")
		}
		// What mcs-apiserver does when it opens storage.
		held := expect.Must(target.Backend.Marker().Get(t.Context()))(t)
		copied.held = held
		if _, err := marker.Evaluate(marker.Observed{Stored: held, Copy: copied.held, ClusterUID: "uid"}, "", false); err != nil {
			t.Errorf("%s after moving: %v", target.Name, err)
		}
		outdated := expect.Must(source.Backend.Marker().Get(t.Context()))(t)
		if _, err := marker.Evaluate(marker.Observed{Stored: outdated, Copy: copied.held, ClusterUID: "uid"}, "", false); !marker.IsLost(err) {
			t.Errorf("%s is still used after moving: %v", source.Name, err)
		}
		gotPods, gotRecords := target.content(t)
		if !apiequality.Semantic.DeepEqual(gotPods, wantPods) || !apiequality.Semantic.DeepEqual(gotRecords, wantRecords) {
			t.Fatalf("moving from %s to %s: got\n%+v\n%v, want\n%+v\n%v", source.Name, target.Name, gotPods, gotRecords, wantPods, wantRecords)
		}
		// The next move, into storage that has been used before, must not bring this back.
		expect.NoError(t, target.pods.Delete(t.Context(), key(wantPods[0].Name), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
		wantPods, wantRecords = target.content(t)
		source = target
	}
	if len(wantPods) != count-5 {
		t.Errorf("%d Pods are left", len(wantPods))
	}
}
